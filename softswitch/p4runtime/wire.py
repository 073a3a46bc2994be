# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Write protobuf messages field by field, where Python's protobuf would be the slow part."""

from __future__ import annotations


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
