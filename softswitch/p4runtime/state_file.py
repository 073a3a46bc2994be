# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What survives a switch's process: its pipeline's configuration and every Write since, in a file that is appended to.

The file is a line that names the format and records: kind, length and CRC-32 of the content, the content. A record that
a crash cut short ends the file. Now and then, and at every start and new pipeline, the file is written anew from what
the switch holds, beside the old one, and takes its place at once. Nothing waits for the disk: the file outlives the
process, not a power cut.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from p4.v1 import p4runtime_pb2

from softswitch.errors import SwitchError
from softswitch.p4runtime import wire
from softswitch.p4runtime.pipeline import Config, Pipeline

CONFIG, WRITE = 1, 2
Record = tuple[int, bytes]

_MAGIC = b"softswitch state 1\n"
_HEAD = struct.Struct(">BII")
_SMALLEST_REWRITE = 8 << 20
_INSERT, _MODIFY = p4runtime_pb2.Update.INSERT, p4runtime_pb2.Update.MODIFY


class StateFile:
    """One switch's file; a second process that wants it gets SwitchError."""

    def __init__(self, path: Path) -> None:
        self.path = path = Path(os.path.realpath(path))  # not a link to the file is written anew, but the file
        self._size = self._rewritten = 0
        self._file: IO[bytes] | None = None
        if path.exists() and not path.is_file():  # a file written anew would take a device's place
            raise SwitchError(f"{path}: this is no regular file")
        self._lock_path = path.with_name(path.name + ".lock")
        try:
            self._lock = self._lock_path.open("w")
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SwitchError(f"{path}: another switch keeps its state there") from error
        except OSError as error:
            raise SwitchError(f"{path}: {error.strerror}") from error

    def records(self) -> list[Record]:
        """Read what was kept; raises SwitchError when the file is none of ours."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return []
        except OSError as error:
            raise SwitchError(f"{self.path}: {error.strerror}") from error
        if content and not content.startswith(_MAGIC):
            raise SwitchError(f"{self.path}: this is no state file")
        return list(_records(content))

    def rewrite(self, records: Iterable[Record]) -> None:
        """Let the file hold just these records; raises SwitchError."""
        fresh = self.path.with_name(self.path.name + ".new")
        try:
            with fresh.open("wb") as file:
                file.write(_MAGIC)
                for kind, content in records:
                    file.write(_HEAD.pack(kind, len(content), zlib.crc32(content)) + content)
            fresh.replace(self.path)
            self._reopen()
        except OSError as error:
            raise SwitchError(f"{self.path}: {error.strerror}") from error

    def _reopen(self) -> None:
        if self._file:
            self._file.close()
        self._file = self.path.open("ab", buffering=0)
        self._size = self._rewritten = os.fstat(self._file.fileno()).st_size

    def append(self, kind: int, content: bytes) -> None:
        """Add a record; raises SwitchError."""
        assert self._file is not None, "rewritten first"
        record = _HEAD.pack(kind, len(content), zlib.crc32(content)) + content
        try:
            self._file.write(record)
        except OSError as error:
            raise SwitchError(f"{self.path}: {error.strerror}") from error
        self._size += len(record)

    @property
    def is_long(self) -> bool:
        """Whether the file has grown so much that it is to be written anew."""
        return self._size - self._rewritten > max(_SMALLEST_REWRITE, 2 * self._rewritten)

    def close(self) -> None:
        """Keep the file and let others have it."""
        if self._file:
            self._file.close()
            self._file = None
        self._lock_path.unlink(missing_ok=True)
        self._lock.close()


def _records(content: bytes) -> Iterator[Record]:
    place = len(_MAGIC)
    while place + _HEAD.size <= len(content):
        kind, length, checksum = _HEAD.unpack_from(content, place)
        record = content[place + _HEAD.size : place + _HEAD.size + length]
        if len(record) < length or zlib.crc32(record) != checksum:
            return
        yield kind, record
        place += _HEAD.size + length


def config_record(config: Config) -> Record:
    """Return a configuration as a ForwardingPipelineConfig."""
    cookie = b"" if config.cookie is None else wire.data(3, wire.number(1, config.cookie))
    return CONFIG, wire.data(1, config.p4info) + wire.data(2, config.device) + cookie


def _filters() -> Iterator[tuple[int, p4runtime_pb2.Entity]]:
    """Yield what is read to be written again, in an order in which it can be, and how it is written."""
    for kind, name in (
        (_INSERT, "digest_entry"),
        (_INSERT, "action_profile_member"),
        (_INSERT, "action_profile_group"),
    ):
        entity = p4runtime_pb2.Entity()
        getattr(entity, name).SetInParent()
        yield kind, entity
    for name in ("multicast_group_entry", "clone_session_entry"):
        entity = p4runtime_pb2.Entity()
        getattr(entity.packet_replication_engine_entry, name).SetInParent()
        yield _INSERT, entity
    entity = p4runtime_pb2.Entity()
    entity.table_entry.meter_config.SetInParent()
    yield _INSERT, entity
    entity = p4runtime_pb2.Entity()
    entity.table_entry.is_default_action = True
    yield _MODIFY, entity
    for name in ("meter_entry", "value_set_entry"):
        entity = p4runtime_pb2.Entity()
        getattr(entity, name).SetInParent()
        yield _MODIFY, entity


def snapshot(pipeline: Pipeline) -> Iterator[Record]:
    """Yield the records that bring a pipeline to where it is: its configuration and Writes. Counts are not kept."""
    yield config_record(pipeline.config)
    for kind, entity in _filters():
        parts, _ = pipeline.read(p4runtime_pb2.ReadRequest(entities=[entity]).SerializeToString())
        for part in parts:
            update = wire.number(1, kind)
            request = [
                wire.data(4, update + wire.data(2, each)) for _, each in wire.fields(part) if isinstance(each, bytes)
            ]
            if request:
                yield WRITE, b"".join(request)
