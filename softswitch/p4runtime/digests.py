# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Digests on their way to the controller: buffered, listed, quiet until acknowledged (P4Runtime 1.4, section 9.8)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime import data, wire
from softswitch.p4runtime.p4info import Digest
from softswitch.p4runtime.status import Code, StatusError

BUFFER_LIMIT = 4096  # messages in one list when the controller sets no max_list_size

Undo = Callable[[], None]


@dataclass
class _Stream:
    """One enabled digest: what waits for its list, and what was sent but not acknowledged."""

    digest: Digest
    config: p4runtime_pb2.DigestEntry.Config
    waiting: dict[bytes, None] = field(default_factory=dict)
    first_ns: int = 0
    sent: dict[int, tuple[int, frozenset[bytes]]] = field(default_factory=dict)
    next_list: int = 1

    def is_quiet(self, message: bytes, now_ns: int) -> bool:
        """Forget lists whose time is over; say whether the message is in one that is left."""
        timeout = self.config.ack_timeout_ns
        for list_id in [each for each, (sent_ns, _) in self.sent.items() if now_ns - sent_ns >= timeout]:
            del self.sent[list_id]
        return any(message in messages for _, messages in self.sent.values())

    def take(self, now_ns: int) -> bytes:
        """Return the buffer as a StreamMessageResponse and empty it."""
        parts = [wire.number(1, self.digest.id), wire.number(2, self.next_list)]
        parts += [wire.data(3, data.encode(self.digest.shape, message)) for message in self.waiting]
        parts.append(wire.number(4, time.time_ns()))
        if self.config.ack_timeout_ns > 0:
            self.sent[self.next_list] = (now_ns, frozenset(self.waiting))
        self.next_list += 1
        self.waiting.clear()
        return wire.data(3, b"".join(parts))


class Digests:
    """The digests of one pipeline; times are the switch's clock in ns.

    One thread takes and lists messages; another may enable and disable digests meanwhile.
    """

    def __init__(self, digests: Mapping[int, Digest]) -> None:
        self._known = digests
        self._by_list = {digest.list: digest.id for digest in digests.values()}
        self._enabled: dict[int, _Stream] = {}

    def copy_to(self, other: Digests) -> None:
        """Enable the same digests elsewhere, as far as they are known there."""
        for identifier, stream in list(self._enabled.items()):
            if identifier in other._known:
                other._enabled[identifier] = _Stream(other._known[identifier], stream.config)

    def write(self, kind: int, entry: p4runtime_pb2.DigestEntry) -> Undo:
        """Enable (INSERT), reconfigure or disable a digest and return what undoes it; raises StatusError."""
        if entry.digest_id not in self._known:
            raise StatusError(Code.INVALID_ARGUMENT, f"no digest has id {entry.digest_id}")
        identifier, stream = entry.digest_id, self._enabled.get(entry.digest_id)
        if kind not in (p4runtime_pb2.Update.INSERT, p4runtime_pb2.Update.MODIFY, p4runtime_pb2.Update.DELETE):
            raise StatusError(Code.INVALID_ARGUMENT, "the update's type is missing")
        if kind == p4runtime_pb2.Update.INSERT and stream:
            raise StatusError(Code.ALREADY_EXISTS, f"digest {identifier} is enabled already")
        if kind != p4runtime_pb2.Update.INSERT and not stream:
            raise StatusError(Code.NOT_FOUND, f"digest {identifier} is not enabled")
        config = p4runtime_pb2.DigestEntry.Config.FromString(entry.config.SerializeToString())
        if (
            kind != p4runtime_pb2.Update.DELETE
            and min(config.max_timeout_ns, config.max_list_size, config.ack_timeout_ns) < 0
        ):
            raise StatusError(Code.INVALID_ARGUMENT, "a digest's times and sizes are not negative")
        if kind == p4runtime_pb2.Update.INSERT:
            self._enabled[identifier] = _Stream(self._known[identifier], config)
            return lambda: self._disable(identifier)
        assert stream is not None
        if kind == p4runtime_pb2.Update.DELETE:
            self._disable(identifier)
            return lambda: self._enabled.update({identifier: stream})
        before, stream.config = stream.config, config
        return lambda: setattr(stream, "config", before)

    def _disable(self, identifier: int) -> None:
        self._enabled.pop(identifier, None)

    def read(self, entry: p4runtime_pb2.DigestEntry) -> Iterator[p4runtime_pb2.Entity]:
        """Yield the configuration of one enabled digest, or of all for id 0; raises StatusError."""
        if entry.digest_id and entry.digest_id not in self._known:
            raise StatusError(Code.INVALID_ARGUMENT, f"no digest has id {entry.digest_id}")
        for identifier, stream in sorted(self._enabled.copy().items(), key=lambda item: item[0]):
            if entry.digest_id in (0, identifier):
                entity = p4runtime_pb2.Entity()
                entity.digest_entry.digest_id = identifier
                entity.digest_entry.config.CopyFrom(stream.config)
                yield entity

    def received(self, learn_list: int, message: bytes, now_ns: int) -> bytes | None:
        """Take a learn message; return a StreamMessageResponse when that completes a list."""
        stream = self._enabled.get(self._by_list.get(learn_list, 0))
        if stream is None or message in stream.waiting or stream.is_quiet(message, now_ns):
            return None
        if not stream.waiting:
            stream.first_ns = now_ns
        stream.waiting[message] = None
        limit = stream.config.max_list_size or BUFFER_LIMIT
        return stream.take(now_ns) if len(stream.waiting) >= limit or not stream.config.max_timeout_ns else None

    def due(self, now_ns: int) -> list[bytes]:
        """Return the lists whose first message has waited long enough, as StreamMessageResponses."""
        return [
            stream.take(now_ns)
            for stream in list(self._enabled.values())
            if stream.waiting and now_ns - stream.first_ns >= stream.config.max_timeout_ns
        ]

    def deadline_ns(self) -> int | None:
        """Return when `due` has something to give, None if nothing waits."""
        times = [each.first_ns + each.config.max_timeout_ns for each in list(self._enabled.values()) if each.waiting]
        return min(times, default=None)

    def acknowledge(self, ack: p4runtime_pb2.DigestListAck) -> None:
        """Let the messages of an acknowledged list be sent again; raises StatusError for an unknown digest."""
        if ack.digest_id not in self._known:
            raise StatusError(Code.INVALID_ARGUMENT, f"no digest has id {ack.digest_id}")
        stream = self._enabled.get(ack.digest_id)
        if stream:
            stream.sent.pop(ack.list_id, None)
