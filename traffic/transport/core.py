# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""core.c and datagrams.c for Python: messages whose packets C places, numbers and counts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Any

import cffi
import numpy as np
from numpy.typing import NDArray

from traffic import native
from traffic.packer import TensorId, describe, encode, golden_order
from traffic.transport.control import KEY, MAP_PACKETS
from traffic.wire import GRADIENT_BYTES, HEADER, VALUE_BYTES, DataType, GradientFlag

FOLDER = Path(__file__).parent
MAX_BURST = 16
SENT_RING = 4096
ROW_BYTES = 2048
"""Longest control message or early packet that is kept."""


class Verdict(IntEnum):
    """What became of a packet that arrived (enum verdict)."""

    TAKEN = 0
    IGNORED = 1
    CONTROL = 2
    UNKNOWN = 3


_LOADING = threading.Lock()


def load() -> tuple[cffi.FFI, Any]:
    """Return the library, building it if need be: the same to all threads."""
    with _LOADING:
        return _load()


@cache
def _load() -> tuple[cffi.FFI, Any]:
    header = FOLDER / "core.h"
    ffi = cffi.FFI()
    ffi.cdef("\n".join(line for line in header.read_text().splitlines() if not line.startswith("#")))
    library = native.build(FOLDER / "core.c", FOLDER / "datagrams.c", headers=[header])
    return ffi, native.opened(ffi, library)


class InboundMessage:
    """A message that arrives: where its values go, and which are there."""

    def __init__(
        self,
        key: bytes,
        *,
        values: NDArray[np.uint8],
        value_count: int,
        data_type: DataType,
        per_packet: int,
        first_sequence: int,
        source: int,
        handle: int,
    ) -> None:
        ffi, _ = load()
        packets = -(-value_count // per_packet)
        self._values: NDArray[np.uint8] | None = values  # kept alive for C
        self._arrived = np.zeros(-(-packets // 64), np.uint64)
        self._lost = np.zeros_like(self._arrived)
        self.struct = ffi.new("struct inbound *")
        self.struct.key = list(key)
        self.struct.data_type = data_type
        self.struct.handle, self.struct.source = handle, source
        self.struct.values = ffi.from_buffer("uint8_t[]", values, require_writable=True)
        self.struct.arrived = ffi.from_buffer("uint64_t[]", self._arrived, require_writable=True)
        self.struct.lost = ffi.from_buffer("uint64_t[]", self._lost, require_writable=True)
        self.struct.value_count, self.struct.value_bytes = value_count, VALUE_BYTES[data_type]
        self.struct.per_packet, self.struct.packets = per_packet, packets
        self.struct.first_sequence = first_sequence
        self.struct.sequence_limit = min(16 * packets + 65536, 0xFFFFFFFF)

    @property
    def missing(self) -> NDArray[np.bool_]:
        """Which packets have not arrived, shape (packets,)."""
        return ~_bits(self._arrived, self.struct.packets)

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Which packets are known to have lost their values, and were not asked for since."""
        return _bits(self._lost, self.struct.packets)

    def blank(self, packets: NDArray[np.bool_]) -> None:
        """Take these packets, of which the sender said that they are zero, as arrived; shape (at most all,)."""
        bits = np.packbits(packets, bitorder="little")
        ffi, library = load()
        library.inbound_blank(self.struct, ffi.from_buffer("uint8_t[]", bits), len(packets))

    def close(self) -> None:
        """Write no values any more: they are the user's."""
        self.struct.closed = 1
        self.struct.values = load()[0].NULL
        self._values = None

    def forget_lost(self) -> None:
        """Note that what is known to be lost has been asked for."""
        self._lost[:] = 0
        self.struct.lost_packets = self.struct.lost_values = self.struct.lost_protected = 0


def _bits(bitmap: NDArray[np.uint64], count: int) -> NDArray[np.bool_]:
    return np.unpackbits(bitmap.view(np.uint8), count=count, bitorder="little").astype(np.bool_)


class OutboundMessage:
    """A message that leaves: its headers, its values where the user has them, and what is still to be sent."""

    def __init__(
        self,
        values: NDArray[np.float32],
        ids: TensorId,
        *,
        per_packet: int,
        data_type: DataType,
        first_sequence: int,
        protected_share: float,
        held_share: float = 0.0,
        path: int = 0,
        blank: bool = False,
    ) -> None:
        """Describe all packets; the `held_share` of least importance are sent only if they are asked for.

        With `blank` packets of nothing but zeros are never sent: the receiver is told which they are.
        """
        ffi, _ = load()
        flat = np.ascontiguousarray(values, np.float32).reshape(-1)
        if not 0 < flat.size < 1 << 32:
            raise ValueError(f"a message has 1 to {(1 << 32) - 1} values, not {flat.size}")
        packets = -(-flat.size // per_packet)
        self.value_count, self.per_packet, self.packets = flat.size, per_packet, packets
        self._headers = np.zeros((packets, GRADIENT_BYTES), np.uint8)
        header = self._headers.view(HEADER)[:, 0]
        describe(header, flat, ids, per_packet=per_packet, data_type=data_type)
        self.importance: NDArray[np.uint8] = header["importance"].copy()
        header["path"] = path
        self.blank = _blank(flat, per_packet) if blank else np.zeros(packets, np.bool_)
        """Packets that are told and not sent, shape (packets,)."""
        ranked = np.argsort(self.importance, kind="stable")
        if most := round(protected_share * packets):
            header["flags"][ranked[-most:]] |= GradientFlag.PROTECTED
        self.protected: NDArray[np.bool_] = (header["flags"] & GradientFlag.PROTECTED).astype(np.bool_) & ~self.blank
        self._values = encode(flat, data_type)
        order = ranked[golden_order(packets)]
        held = np.zeros(packets, np.bool_)
        held[ranked[: int(held_share * packets)]] = True
        held &= ~self.protected & ~self.blank
        self.held: NDArray[np.bool_] = held
        """Packets that are sent only if they are asked for, shape (packets,)."""
        self._fresh = order[~(held | self.blank)[order]].astype(np.uint32)
        self._again = np.zeros(0, np.uint32)
        self.key = self._headers[0, KEY].tobytes()

        value_bytes = VALUE_BYTES[data_type]
        self.struct = ffi.new("struct outbound *")
        self.struct.headers = ffi.from_buffer("uint8_t[]", self._headers, require_writable=True)
        self.struct.values = ffi.from_buffer("uint8_t[]", self._values)
        self.struct.packets, self.struct.payload_bytes = packets, per_packet * value_bytes
        self.struct.last_bytes = (flat.size - (packets - 1) * per_packet) * value_bytes
        self.struct.first_sequence = first_sequence
        self._point()

    def _point(self) -> None:
        ffi, _ = load()
        struct = self.struct
        struct.fresh, struct.fresh_count = ffi.from_buffer("uint32_t[]", self._fresh), len(self._fresh)
        struct.again, struct.again_count = ffi.from_buffer("uint32_t[]", self._again), len(self._again)

    @property
    def counts(self) -> NDArray[np.int64]:
        """Values in each packet, shape (packets,)."""
        counts = np.full(self.packets, self.per_packet, np.int64)
        counts[-1] = self.value_count - (self.packets - 1) * self.per_packet
        return counts

    @property
    def has_packets(self) -> bool:
        """Whether anything is to be sent."""
        struct = self.struct
        return bool(struct.again_next < struct.again_count or struct.fresh_next < struct.fresh_count)

    @property
    def unsent(self) -> NDArray[np.bool_]:
        """Which packets wait to be sent, for the first time or again."""
        waiting = np.zeros(self.packets, np.bool_)
        waiting[self._fresh[self.struct.fresh_next :]] = True
        waiting[self._again[self.struct.again_next :]] = True
        return waiting

    def send_again(self, indices: NDArray[np.int64]) -> None:
        """Send these packets, in this order, before what was not sent yet."""
        self._again = np.concatenate([self._again[self.struct.again_next :], indices.astype(np.uint32)])
        self.struct.again_next = 0
        self._point()

    def stop(self) -> None:
        """Send nothing more."""
        self.struct.fresh_next, self.struct.again_next = self.struct.fresh_count, self.struct.again_count

    def sent_at(self, sequence: int) -> int | None:
        """Return when the packet of this sequence left, None if that is not known (any more)."""
        sent = self.struct.sent
        return int(self.struct.sent_ns[sequence % SENT_RING]) if sent - SENT_RING <= sequence < sent else None


def _blank(flat: NDArray[np.float32], per_packet: int) -> NDArray[np.bool_]:
    """Return which packets hold nothing but positive zeros, those that a START has no room to name left out."""
    packets = -(-flat.size // per_packet)
    whole = flat.size // per_packet
    bits = flat.view(np.uint32)
    blank = np.zeros(packets, np.bool_)
    blank[:whole] = ~bits[: whole * per_packet].reshape(whole, per_packet).any(axis=1)
    if whole < packets:
        blank[whole] = not bits[whole * per_packet :].any()
    blank[MAP_PACKETS:] = False
    return blank


class Core:
    """All messages that arrive at an endpoint."""

    def __init__(self) -> None:
        ffi, self._library = load()
        pointer = self._library.core_new()
        if not pointer:
            raise MemoryError
        self.struct = ffi.gc(pointer, self._library.core_free)
        self._messages: dict[bytes, InboundMessage] = {}

    def add(self, key: bytes, message: InboundMessage) -> None:
        """Let a message's packets in."""
        if self._library.core_add(self.struct, message.struct):
            raise ValueError("a message of this name arrives already")
        self._messages[key] = message

    def remove(self, key: bytes) -> None:
        """Forget a message."""
        message = self._messages.pop(key)
        self._library.core_remove(self.struct, message.struct)

    def touched(self) -> Iterator[int]:
        """Yield the handles of messages with news since the last call."""
        struct = self.struct
        handles = [int(struct.touched[i].handle) for i in range(struct.touched_count)]
        self._library.core_quiet(struct)
        return iter(handles)

    def accept(self, frame: bytes, ecn: int, source: int, now: int) -> Verdict:
        """Take one packet: the way of drivers without sockets."""
        return Verdict(self._library.core_accept(self.struct, frame, len(frame), ecn, source, now))
