# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Packet-in and packet-out: the controller header in front of a frame as P4Runtime metadata (section 16.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from softswitch.p4runtime import wire
from softswitch.p4runtime.data import canonical
from softswitch.p4runtime.p4info import HeaderField
from softswitch.p4runtime.status import Code, StatusError


def packet_in(frame: bytes, header: Sequence[HeaderField]) -> bytes:
    """Return a frame from the CPU port as a serialized StreamMessageResponse."""
    bits = sum(field.bits for field in header)
    size = bits // 8
    value = int.from_bytes(frame[:size], "big")
    parts = [wire.data(1, frame[size:])]
    for field in header:
        bits -= field.bits
        number = value >> bits & ((1 << field.bits) - 1)
        content = canonical(number.to_bytes((field.bits + 7) // 8, "big"))
        parts.append(wire.data(2, wire.number(1, field.id) + wire.data(2, content)))
    return wire.data(2, b"".join(parts))


def packet_out(packet: Any, header: Sequence[HeaderField]) -> bytes:
    """Return a PacketOut as a frame for the CPU port; raises StatusError when its metadata do not fit the header."""
    given: dict[int, bytes] = {}
    for metadata in packet.metadata:
        if metadata.metadata_id in given:
            raise StatusError(Code.INVALID_ARGUMENT, f"metadata {metadata.metadata_id} is given twice")
        given[metadata.metadata_id] = metadata.value
    value = 0
    for field in header:
        content = given.pop(field.id, None)
        if content is None:
            raise StatusError(Code.INVALID_ARGUMENT, f"metadata {field.id} ({field.name}) is missing")
        number = int.from_bytes(content, "big")
        if not content or number >> field.bits:
            raise StatusError(
                Code.OUT_OF_RANGE, f"metadata {field.id} ({field.name}) does not fit in {field.bits} bits"
            )
        value = value << field.bits | number
    if given:
        raise StatusError(Code.INVALID_ARGUMENT, f"the packet-out header has no metadata {min(given)}")
    return value.to_bytes(sum(field.bits for field in header) // 8, "big") + bytes(packet.payload)
