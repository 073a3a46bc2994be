# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Turn tensors into gradient packets and back, all packets of a tensor at once.

Packets are rows of one byte matrix, so that a header field of all of them is one strided numpy view, and the kernel
sends and receives them in batches without a copy. Every packet carries its tensor and offset and can be placed
without another. The header is big-endian, values are little-endian (as accelerators hold them: placing is a copy).
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traffic.wire import (
    GRADIENT_BYTES,
    HEADER,
    IPV4_VALUES,
    VALUE_BYTES,
    DataType,
    GradientFlag,
    GradientType,
    version_type,
)

PROTECTED_BELOW = 8
"""Tensors of fewer packets than this are protected: a rank among so few says nothing."""

MOST_IMPORTANT = 255
CACHED_PACKETS = 128
"""Packets whose magnitudes are computed at once: they stay in the processor's cache."""
GOLDEN_RATIO = (1 + 5**0.5) / 2


@dataclass(frozen=True, slots=True)
class Packets:
    """UDP payloads of gradient packets: row i holds packet i in its first `lengths[i]` bytes, zeros after."""

    frames: NDArray[np.uint8]
    """Shape (packets, stride), stride >= 32."""
    lengths: NDArray[np.uint32]
    """Shape (packets,), bytes."""

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def headers(self) -> NDArray[np.void]:
        """The header of every packet, shape (packets,), a view: writing a field writes the packet."""
        return self.frames[:, :GRADIENT_BYTES].view(HEADER)[:, 0]

    def rows(self) -> list[bytes]:
        """Return the bytes of every packet, without the padding of its row."""
        return [frame[:length].tobytes() for frame, length in zip(self.frames, self.lengths, strict=True)]

    @staticmethod
    def of(rows: list[bytes]) -> "Packets":
        """Make the matrix of given packets, as wide as the longest."""
        lengths = np.array([len(row) for row in rows], np.uint32)
        frames = np.zeros((len(rows), int(lengths.max(initial=0))), np.uint8)
        for frame, row in zip(frames, rows, strict=True):
            frame[: len(row)] = np.frombuffer(row, np.uint8)
        return Packets(frames, lengths)


@dataclass(frozen=True, slots=True)
class TensorId:
    """Where a tensor's values belong: the header fields that all its packets share."""

    job: int = 0
    rank: int = 0
    tensor: int = 0
    layer: int = 0
    round: int = 0
    weight: int = 1
    """Samples behind the values."""


def importance(magnitudes: NDArray[Any]) -> NDArray[np.uint8]:
    """Rank packets of one tensor by mean |g|: floor((i + 0.5) * 256 / k) for the i-th least of k, ties in order.

    `magnitudes` has shape (k,); so has the result.
    """
    packets = len(magnitudes)
    ranks = np.empty(packets, np.int64)
    ranks[np.argsort(magnitudes, kind="stable")] = np.arange(packets)
    return ((2 * ranks + 1) * 128 // packets).astype(np.uint8)


def encode(values: NDArray[np.float32], data_type: DataType) -> NDArray[np.uint8]:
    """Return the values' bytes in a data type, little-endian; bfloat16 rounds to nearest even."""
    if data_type is DataType.FLOAT32:
        stored: NDArray[Any] = values.astype("<f4", copy=False)
    elif data_type is DataType.FLOAT16:
        stored = values.astype("<f2")
    else:
        bits = np.ascontiguousarray(values, "<f4").view("<u4")
        rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
        stored = np.where(np.isnan(values), 0x7FC0, rounded).astype("<u2")
    return np.ascontiguousarray(stored).view(np.uint8)


def decode(data: NDArray[np.uint8], data_type: DataType) -> NDArray[np.float32]:
    """Return float32 values from a data type's bytes, along the last axis."""
    contiguous = np.ascontiguousarray(data)
    if data_type is DataType.FLOAT32:
        return contiguous.view("<f4").astype(np.float32, copy=False)
    if data_type is DataType.FLOAT16:
        return contiguous.view("<f2").astype(np.float32)
    return (contiguous.view("<u2").astype("<u4") << 16).view("<f4").astype(np.float32, copy=False)


def pack(
    values: NDArray[np.float32],
    ids: TensorId,
    *,
    per_packet: int = IPV4_VALUES,
    data_type: DataType = DataType.FLOAT32,
    sequence: int = 0,
) -> Packets:
    """Cut a flat tensor into packets of `per_packet` values; the last packet has flag LAST and may be shorter.

    Importance is the packet's rank by mean |g| within the tensor; tensors of fewer than 8 packets are flagged
    PROTECTED and get 255. Sequence numbers count up from `sequence`.
    """
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    if not flat.size:
        raise ValueError("a tensor without values has no packets")
    count = -(-flat.size // per_packet)
    tail = flat.size - (count - 1) * per_packet
    value_bytes = VALUE_BYTES[data_type]
    frames = np.zeros((count, GRADIENT_BYTES + per_packet * value_bytes), np.uint8)
    payload = frames[:, GRADIENT_BYTES:]
    data = encode(flat, data_type)
    whole = (count - 1) * per_packet * value_bytes
    payload[:-1] = data[:whole].reshape(count - 1, per_packet * value_bytes)
    payload[-1, : tail * value_bytes] = data[whole:]

    packets = Packets(frames, np.full(count, frames.shape[1], np.uint32))
    packets.lengths[-1] = GRADIENT_BYTES + tail * value_bytes
    describe(packets.headers, flat, ids, per_packet=per_packet, data_type=data_type, sequence=sequence)
    return packets


def describe(
    header: NDArray[np.void],
    flat: NDArray[np.float32],
    ids: TensorId,
    *,
    per_packet: int,
    data_type: DataType,
    sequence: int = 0,
) -> None:
    """Fill in the headers, zero before, of a flat tensor's packets, shape (packets,); see `pack`."""
    count = len(header)
    header["version_type"] = version_type(GradientType.DATA)
    header["data_type"] = data_type
    for name in ("job", "rank", "tensor", "layer", "round", "weight"):
        header[name] = getattr(ids, name)
    header["offset"] = np.arange(count) * per_packet
    header["count"] = per_packet
    header["count"][-1] = flat.size - (count - 1) * per_packet
    header["sequence"] = sequence + np.arange(count)
    if count < PROTECTED_BELOW:
        header["flags"] = GradientFlag.PROTECTED
        header["importance"] = MOST_IMPORTANT
    else:
        header["importance"] = importance(mean_magnitudes(flat, per_packet))
    header["flags"][-1] |= GradientFlag.LAST


def mean_magnitudes(flat: NDArray[np.float32], per_packet: int) -> NDArray[np.float32]:
    """Return the mean |g| of each packet of a flat tensor, shape (packets,)."""
    whole, tail = divmod(flat.size, per_packet)
    sums = np.empty(whole + bool(tail), np.float32)
    rows = flat[: whole * per_packet].reshape(whole, per_packet)
    absolute = np.empty((CACHED_PACKETS, per_packet), np.float32)
    for first in range(0, whole, CACHED_PACKETS):
        block = rows[first : first + CACHED_PACKETS]
        np.abs(block, out=absolute[: len(block)])
        absolute[: len(block)].sum(axis=1, out=sums[first : first + len(block)])
    if tail:
        sums[-1] = np.abs(flat[whole * per_packet :]).sum() * (per_packet / tail)
    return sums / per_packet


def spread(packets: Packets) -> Packets:
    """Return one tensor's packets in an order in which every stretch has important and unimportant ones alike.

    A switch can drop the least important of what it holds, but if they all passed a moment ago it must drop others; in
    the order of offsets neighbours are alike (a picture's border gives gradients of zero). Packets are placed by
    offset, so any order will do: ranks step by the golden ratio, which spreads them most evenly. Renumbers sequences.
    """
    header = packets.headers
    order = spread_order(header["importance"])
    mixed = Packets(packets.frames[order], packets.lengths[order])
    mixed.headers["sequence"] = header["sequence"]
    return mixed


def spread_order(importances: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return the order of `spread` as indices, shape (packets,)."""
    order: NDArray[np.int64] = np.argsort(importances, kind="stable")[golden_order(len(importances))]
    return order


@lru_cache(maxsize=256)
def golden_order(count: int) -> NDArray[np.int64]:
    """Return 0..count-1 in steps of the golden ratio, shape (count,): not to be written."""
    return np.argsort(np.arange(count) * GOLDEN_RATIO % 1)


def concatenate(parts: list[Packets]) -> Packets:
    """Join packets into one matrix, in order, padded to the widest."""
    stride = max(part.frames.shape[1] for part in parts)
    frames = np.zeros((sum(map(len, parts)), stride), np.uint8)
    start = 0
    for part in parts:
        frames[start : start + len(part), : part.frames.shape[1]] = part.frames
        start += len(part)
    return Packets(frames, np.concatenate([part.lengths for part in parts]))


def place(packets: Packets, out: NDArray[np.float32]) -> None:
    """Write the values of one tensor's packets into the flat array `out`, each at its own offset.

    Order and duplicates do not matter. Raises ValueError if a packet is shorter than its count says or reaches
    beyond `out`.
    """
    header = packets.headers
    counts = header["count"].astype(np.int64)
    offsets = header["offset"].astype(np.int64)
    if len(packets) and int((offsets + counts).max()) > out.size:
        raise ValueError(f"a packet reaches beyond the tensor's {out.size} values")
    for data_type in DataType:
        value_bytes = VALUE_BYTES[data_type]
        of_type = header["data_type"] == data_type
        if np.any(packets.lengths[of_type] < GRADIENT_BYTES + counts[of_type] * value_bytes):
            raise ValueError("a packet is shorter than its count of values")
        for count in np.unique(counts[of_type]):  # full packets are one group, the last of the tensor another
            chosen = np.flatnonzero(of_type & (counts == count))
            values = packets.frames[chosen, GRADIENT_BYTES : GRADIENT_BYTES + count * value_bytes]
            out[offsets[chosen, None] + np.arange(count)] = decode(values, data_type)
