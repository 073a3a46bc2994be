# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One forwarding pipeline on one switch: its configuration, bound to the loaded program's objects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from softswitch.native import engine
from softswitch.p4runtime import wire
from softswitch.p4runtime.digests import Digests
from softswitch.p4runtime.native import ffi, p4runtime
from softswitch.p4runtime.p4info import Binding, bind
from softswitch.p4runtime.replication import Replication
from softswitch.p4runtime.status import Code, StatusError, batch_error

if TYPE_CHECKING:
    from softswitch.switch import Switch

_REPLICATION = 9  # field numbers of p4.v1.Entity
_DIGEST = 12
_REASON_BYTES = 160


@dataclass(frozen=True)
class Config:
    """A ForwardingPipelineConfig as it was given."""

    p4info: bytes
    device: bytes
    cookie: int | None = None

    @classmethod
    def of(cls, message: bytes) -> Config:
        """Take a serialized message apart, without parsing its P4Info; raises StatusError."""
        p4info, device, cookie = b"", b"", None
        try:
            for number, value in wire.fields(message):
                match number, value:
                    case 1, bytes():
                        p4info += value  # protobuf merges a message that comes in pieces
                    case 2, bytes():
                        device = value
                    case 3, bytes():
                        cookie = next((each for field, each in wire.fields(value) if field == 1), 0)
        except ValueError as error:
            raise StatusError(Code.INVALID_ARGUMENT, f"the configuration is not a valid message: {error}") from error
        return cls(p4info, device, cookie if cookie is None else int(cookie))

    @classmethod
    def of_files(cls, p4info_text: str, device: bytes) -> Config:
        """Take P4Info in text format, as p4c writes it, and BMv2 JSON; raises StatusError."""
        return cls(_p4info_of_text(p4info_text), device)


@lru_cache(maxsize=8)
def _p4info_of_text(text: str) -> bytes:
    message = p4info_pb2.P4Info()
    try:
        text_format.Parse(text, message, allow_unknown_field=True)
    except text_format.ParseError as error:
        raise StatusError(Code.INVALID_ARGUMENT, f"P4Info: {error}") from error
    return bytes(message.SerializeToString())


_bindings: OrderedDict[tuple[bytes, bytes], Binding] = OrderedDict()
_BINDINGS = 8


def binding_of(config: Config, switch: Switch) -> Binding:
    """Bind a configuration to the program that a switch has loaded, once for all switches that run it."""
    key = (config.p4info, config.device)
    if key not in _bindings:
        try:
            p4info = p4info_pb2.P4Info.FromString(config.p4info)
        except DecodeError as error:
            raise StatusError(Code.INVALID_ARGUMENT, f"P4Info: {error}") from error
        binding = bind(p4info, switch.objects, engine())
        while len(_bindings) >= _BINDINGS:
            _bindings.popitem(last=False)
        _bindings[key] = binding
    return _bindings[key]


class Pipeline:
    """A configuration that a switch runs: requests are applied to its objects.

    `ports` is the switch whose ports members may watch and whose replication engine is meant: the same switch, but for
    a pipeline that is saved and not committed, whose objects a stand-in holds.
    """

    def __init__(self, config: Config, switch: Switch, ports: Switch, replication: Replication) -> None:
        self.config = config
        self.switch = switch
        self.replication = replication
        self._lib = p4runtime()
        self._state = switch.state
        self._binding = binding_of(config, switch)
        self.packet_in, self.packet_out = self._binding.packet_in, self._binding.packet_out
        self.digests = Digests(self._binding.digests)
        session = self._lib.p4rt_open(switch.handle, ports.handle, self._binding.schema)
        if session == ffi().NULL:
            raise StatusError(Code.RESOURCE_EXHAUSTED, "out of memory")
        self._session: Any = ffi().gc(session, self._lib.p4rt_close)

    def close(self) -> None:
        """Free the session; the switch and its entries stay."""
        if self._session is not None:
            ffi().release(self._session)
            self._session = None

    @property
    def is_current(self) -> bool:
        """Whether the program that this was bound to is still the switch's."""
        return self._session is not None and bool(self.switch.state == self._state)

    def write(self, request: bytes) -> None:
        """Apply a WriteRequest's updates; raises StatusError with each update's error."""
        types, lib = ffi(), self._lib
        buffer = types.from_buffer("uint8_t[]", request)
        batch = lib.p4rt_write_begin(self._session, buffer, len(request))
        if batch == types.NULL:
            raise StatusError(Code.RESOURCE_EXHAUSTED, "out of memory")
        undo: list[Callable[[], None]] = []
        item, count = types.new("struct p4rt_item *"), types.new("uint32_t *")
        try:
            while lib.p4rt_write_step(batch, item):
                try:
                    undo.append(self._write_item(item))
                except StatusError as error:
                    lib.p4rt_write_fail(batch, item.index, int(error.code), error.message.encode())
            if lib.p4rt_write_finish(batch):
                for step in reversed(undo):
                    step()
            listed = lib.p4rt_write_errors(batch, count)
            errors = _errors(listed, count[0])
        finally:
            lib.p4rt_write_free(batch)
        if errors:
            head = write_head(request)
            raise batch_error("Write", head.update_count, errors)

    def read(self, request: bytes) -> tuple[list[bytes], StatusError | None]:
        """Return a read's ReadResponses, and what ends it if some entity could not be read."""
        types, lib = ffi(), self._lib
        buffer = types.from_buffer("uint8_t[]", request)
        query = lib.p4rt_read_begin(self._session, buffer, len(request))
        if query == types.NULL:
            raise StatusError(Code.RESOURCE_EXHAUSTED, "out of memory")
        parts: list[bytes] = []
        item, count, total = types.new("struct p4rt_item *"), types.new("uint32_t *"), types.new("uint32_t *")
        try:
            while step := lib.p4rt_read_step(query, item):
                if step == 1:
                    parts.append(types.buffer(item.data, item.length)[:])
                    continue
                try:
                    parts.append(self._read_item(item))
                except StatusError as error:
                    lib.p4rt_read_fail(query, item.index, int(error.code), error.message.encode())
            listed = lib.p4rt_read_errors(query, count, total)
            errors = _errors(listed, count[0])
            entities = int(total[0])
        finally:
            lib.p4rt_read_free(query)
        parts = [part for part in parts if part]
        return parts, batch_error("Read", entities, errors) if errors else None

    @staticmethod
    def _entity(item: Any) -> p4runtime_pb2.Entity:
        try:
            return p4runtime_pb2.Entity.FromString(ffi().buffer(item.data, item.length)[:])
        except DecodeError as error:
            raise StatusError(Code.INVALID_ARGUMENT, f"the entity is not a valid message: {error}") from error

    def _write_item(self, item: Any) -> Callable[[], None]:
        entity = self._entity(item)
        if item.entity == _REPLICATION:
            return self.replication.write(item.type, entity.packet_replication_engine_entry)
        return self.digests.write(item.type, entity.digest_entry)

    def _read_item(self, item: Any) -> bytes:
        entity = self._entity(item)
        if item.entity == _REPLICATION:
            found = self.replication.read(entity.packet_replication_engine_entry)
        else:
            found = self.digests.read(entity.digest_entry)
        return bytes(p4runtime_pb2.ReadResponse(entities=found).SerializeToString())

    def copy_to(self, other: Pipeline) -> None:
        """Put entries, members, counts and the like into another pipeline; raises StatusError if they do not fit."""
        message = ffi().new("char[]", _REASON_BYTES)
        code = self._lib.p4rt_copy(self._session, other._session, message, _REASON_BYTES)
        if code:
            raise StatusError(Code(code), bytes(ffi().string(message)).decode())
        self.digests.copy_to(other.digests)

    @property
    def has_idle_entries(self) -> bool:
        """Whether any entry has an idle timeout."""
        return bool(self._lib.p4rt_idle_count(self._session))

    def idle_entries(self) -> bytes:
        """Return entries past their idle timeout, as the table_entry fields of an IdleTimeoutNotification."""
        found = ffi().new("const uint8_t **")
        length = self._lib.p4rt_idle_entries(self._session, found)
        return ffi().buffer(found[0], length)[:] if length else b""


def write_head(request: bytes) -> Any:
    """Return a WriteRequest's `struct p4rt_head`; raises StatusError when it cannot be read."""
    head = ffi().new("struct p4rt_head *")
    if not p4runtime().p4rt_write_head(ffi().from_buffer("uint8_t[]", request), len(request), head):
        raise StatusError(Code.INVALID_ARGUMENT, "the WriteRequest is not a valid message")
    return head


def _errors(listed: Any, count: int) -> dict[int, tuple[Code, str]]:
    return {
        int(listed[place].index): (
            Code(listed[place].code),
            bytes(ffi().string(listed[place].message)).decode(errors="replace"),
        )
        for place in range(count)
    }
