# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Read and write protobuf messages field by field, where Python's protobuf would be the slow part."""

from __future__ import annotations

from collections.abc import Iterator


def varint(value: int) -> bytes:
    """Return a non-negative number (or a negative int64) as a varint."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Return a scalar field; proto3 leaves zero out."""
    return varint(field << 3) + varint(value) if value else b""


def data(field: int, content: bytes) -> bytes:
    """Return a bytes, string or message field."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: (number, varint or bytes); raises ValueError when it is malformed."""
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        match key & 7:
            case 0:
                value, place = _read_varint(message, place)
                yield key >> 3, value
            case 2:
                length, place = _read_varint(message, place)
                if length > len(message) - place:
                    raise ValueError("a field is cut short")
                yield key >> 3, message[place : place + length]
                place += length
            case 1 | 5 as kind:
                place += 8 if kind == 1 else 4
            case _:
                raise ValueError("a group, or no message at all")


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(message) and shift < 64:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
        shift += 7
    raise ValueError("a number is cut short")
