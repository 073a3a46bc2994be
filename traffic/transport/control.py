# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The transport's control messages as bytes: drawn in docs/transport.md, packed and parsed here.

A control message is a gradient header, a prefix that all have, a body by type, and 16 bytes of keyed MAC where a job
has a key. The header names the data message that it is about; its `sequence` counts a session's control messages.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from traffic.packer import TensorId
from traffic.wire import GRADIENT_BYTES, HEADER, DataType, GradientType, version_type

KEY = slice(4, 16)
"""The header's bytes that name a message: job, rank, tensor, layer, round."""
MAP_PACKETS = 8192
"""Packets that one part of a map of missing packets covers: 1 KiB of bitmap."""

_HEADER = struct.Struct(">BBBB12sIHBBII")
_PREFIX = struct.Struct(">III")
_OPENING = struct.Struct(">IIIIIIIHBB")
_FEEDBACK = struct.Struct(">BBHIIIIIII")
_STOP = struct.Struct(">IIHH")
_MAP = struct.Struct(">IHHIIII")


class Status(IntEnum):
    """What an ACK says."""

    FLOWING = 0
    """The message is open; what follows is how it flows."""
    WAIT = 1
    """There is no room for it yet: ask again later."""
    REFUSED = 2
    """The message is not what this end expects: give up."""
    CHALLENGE = 3
    """Say it again, naming the session that this message comes from."""
    CLOSED = 4
    """From the sender: it has heard the STOP and the whole report."""
    PING = 5
    """Nothing was heard of you for long: are you there?"""
    PONG = 6


STATUSES = {status.value: status for status in Status}
KINDS = {kind.value: kind for kind in GradientType}
"""Looked up for every message, which calling the enumeration would take long for."""


class Malformed(ValueError):
    """Bytes that are no control message."""


def key_of(ids: TensorId) -> bytes:
    """Return the 12 bytes of a header that name this message."""
    return struct.pack(">HHHHI", ids.job, ids.rank, ids.tensor, ids.layer, ids.round)


@dataclass(frozen=True, slots=True)
class Opening:
    """The body of START and FINISH: what the message is. Either opens it, so that a lost START costs nothing."""

    values: int
    protected: int
    """Packets that must arrive."""
    allowed: int
    """Values that may be missing in the end."""
    first_sequence: int
    sent: int
    """Packets sent so far, again included."""
    round_trip_us: int
    variation_us: int
    """What the sender measured with data, 0: nothing yet."""
    per_packet: int
    priority: int = 0
    blank: NDArray[np.bool_] | None = None
    """The first packets, at most `MAP_PACKETS`: which of them are zero and will not be sent."""

    def pack(self) -> bytes:
        """Return the body's bytes."""
        head = _OPENING.pack(
            self.values,
            self.protected,
            self.allowed,
            self.first_sequence,
            self.sent,
            self.round_trip_us,
            self.variation_us,
            self.per_packet,
            self.priority,
            0,
        )
        if self.blank is None:
            return head
        return head + np.packbits(self.blank[:MAP_PACKETS], bitorder="little").tobytes()

    @staticmethod
    def parse(body: bytes) -> Opening:
        """Read the body; raises Malformed."""
        *numbers, per_packet, priority, _ = _unpack(_OPENING, body[: _OPENING.size])
        values, protected, allowed, first_sequence, sent, round_trip_us, variation_us = numbers
        blank = None
        if bitmap := body[_OPENING.size :]:
            told = min(-(-values // max(per_packet, 1)), MAP_PACKETS)
            if len(bitmap) != -(-told // 8):
                raise Malformed("a map of zero packets of another size")
            blank = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=told, bitorder="little").astype(np.bool_)
        opening = Opening(
            values, protected, allowed, first_sequence, sent, round_trip_us, variation_us, per_packet, priority, blank
        )
        if not opening.values or not opening.per_packet or opening.allowed > opening.values:
            raise Malformed("an opening without values, or with more to lose than it has")
        if opening.protected > -(-opening.values // opening.per_packet):
            raise Malformed("more protected packets than there are")
        return opening


@dataclass(frozen=True, slots=True)
class Feedback:
    """The body of ACK, and the first part of STOP's: how the message flows, counted since it opened."""

    status: Status
    seen: int = 0
    """Packets that arrived, trimmed ones included."""
    marked: int = 0
    """Of them, those that met congestion (ECN)."""
    trimmed: int = 0
    highest: int = 0
    """Highest sequence seen, counted from the first, plus 1."""
    latest: int = 0
    """Sequence of the packet that came last, and how long before this message it came."""
    hold_us: int = 0
    clock_us: int = 0
    """The receiver's clock, for rates of delivery; wraps."""

    def pack(self) -> bytes:
        """Return the body's bytes."""
        return _FEEDBACK.pack(
            self.status,
            0,
            0,
            self.seen,
            self.marked,
            self.trimmed,
            self.highest,
            self.latest,
            self.hold_us & 0xFFFFFFFF,
            self.clock_us & 0xFFFFFFFF,
        )

    @staticmethod
    def parse(body: bytes) -> Feedback:
        """Read the body; raises Malformed."""
        status, _, _, *counts = _unpack(_FEEDBACK, body)
        known = STATUSES.get(status)
        if known is None:
            raise Malformed(f"unknown status {status}")
        return Feedback(known, *counts)


@dataclass(frozen=True, slots=True)
class Stop:
    """The body of STOP: enough has arrived. `parts` reports of what is missing follow."""

    feedback: Feedback
    missing_packets: int
    missing_values: int
    parts: int

    def pack(self) -> bytes:
        """Return the body's bytes."""
        return self.feedback.pack() + _STOP.pack(self.missing_packets, self.missing_values, self.parts, 0)

    @staticmethod
    def parse(body: bytes) -> Stop:
        """Read the body; raises Malformed."""
        packets, values, parts, _ = _unpack(_STOP, body[_FEEDBACK.size :])
        return Stop(Feedback.parse(body[: _FEEDBACK.size]), packets, values, parts)


@dataclass(frozen=True, slots=True)
class Missing:
    """The body of REQUEST and REPORT: one part of the map of the packets that are missing."""

    number: int
    """Of the request; the same for all its parts. 0 in a report."""
    part: int
    parts: int
    first: int
    """Index of the first packet that the map covers."""
    need: int
    """Values to send again at least, the most important first; 0 in a report."""
    missing: NDArray[np.bool_]
    """One for each packet covered."""

    def pack(self) -> bytes:
        """Return the body's bytes."""
        bitmap = np.packbits(self.missing, bitorder="little").tobytes()
        head = _MAP.pack(self.number, self.part, self.parts, self.first, len(self.missing), self.need, 0)
        return head + bitmap

    @staticmethod
    def parse(body: bytes) -> Missing:
        """Read the body; raises Malformed."""
        number, part, parts, first, span, need, _ = _unpack(_MAP, body[: _MAP.size])
        bitmap = body[_MAP.size :]
        if not 0 < span <= MAP_PACKETS or part >= parts or first != part * MAP_PACKETS or len(bitmap) != -(-span // 8):
            raise Malformed("a map of missing packets whose sizes disagree")
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=span, bitorder="little")
        return Missing(number, part, parts, first, need, bits.astype(np.bool_))


def parts_of(missing: NDArray[np.bool_], *, number: int = 0, need: int = 0) -> list[Missing]:
    """Cut a map into parts, and what is needed in proportion to what each part misses.

    Parts that miss nothing are left out of a request (`need` > 0) but not of a report, whose reader counts them.
    """
    starts = range(0, len(missing), MAP_PACKETS)
    total = int(np.count_nonzero(missing))
    parts = []
    for part, first in enumerate(starts):
        section = missing[first : first + MAP_PACKETS]
        share = int(np.count_nonzero(section))
        if share or not need:
            wanted = -(-need * share // total) if total else 0
            parts.append(Missing(number, part, len(starts), first, wanted, section))
    return parts


@dataclass(frozen=True, slots=True)
class Control:
    """One control message, without its MAC."""

    kind: GradientType
    key: bytes
    data_type: int
    weight: int
    counter: int
    """Of this session's messages to this peer, from 1."""
    session: int
    """Drawn by its sender at random when it started."""
    peer_session: int
    """Of the end that it is sent to, as far as its sender knows; 0: not yet."""
    answers: int
    """Counter of the message that made this one, 0: none."""
    body: bytes

    def pack(self) -> bytes:
        """Return the message's bytes."""
        header = _HEADER.pack(
            version_type(self.kind), 0, self.data_type, 255, self.key, 0, 0, 0, 0, self.weight, self.counter
        )
        return header + _PREFIX.pack(self.session, self.peer_session, self.answers) + self.body

    @staticmethod
    def parse(data: bytes) -> Control:
        """Read a message whose first byte the core has found to be a control type's; raises Malformed."""
        if len(data) < GRADIENT_BYTES + _PREFIX.size:
            raise Malformed("shorter than a control message's prefix")
        first, _, data_type, _, key, _, _, _, _, weight, counter = _HEADER.unpack_from(data)
        session, peer_session, answers = _PREFIX.unpack_from(data, GRADIENT_BYTES)
        if not session:
            raise Malformed("no session")
        body = data[GRADIENT_BYTES + _PREFIX.size :]
        return Control(KINDS[first & 15], key, data_type, weight, counter, session, peer_session, answers, body)


def _unpack(layout: struct.Struct, body: bytes) -> tuple[int, ...]:
    if len(body) != layout.size:
        raise Malformed(f"{len(body)} bytes where {layout.size} belong")
    return layout.unpack(body)


def value_type(data_type: int) -> DataType:
    """Return the data type; raises Malformed for one that is unknown."""
    try:
        return DataType(data_type)
    except ValueError:
        raise Malformed(f"unknown data type {data_type}") from None


assert _HEADER.size == GRADIENT_BYTES == HEADER.itemsize
