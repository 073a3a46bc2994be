# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The gradient header as numbers: constants, enumerations and the numpy record that overlays its 32 bytes.

The bit layout is drawn above `gradient_t` in p4src/shared/headers.p4; traffic/header.py (scapy) and
traffic/gradient.lua (Wireshark) follow it, and tests/unit/traffic/test_header.py holds the four together.
"""

from enum import IntEnum, IntFlag

import numpy as np

GRADIENT_PORT = 18258
"""UDP destination port of gradient packets: 0x4752, "GR"."""
GRADIENT_BYTES = 32
"""Length of the header."""
GRADIENT_VERSION = 1

MTU = 1500
FULL_FRAME = MTU + 14
"""Bytes of an Ethernet frame that carries a full packet."""
IPV4_VALUES = (MTU - 20 - 8 - GRADIENT_BYTES) // 4
"""float32 values in a full packet over IPv4: 360."""
IPV6_VALUES = (MTU - 40 - 8 - GRADIENT_BYTES) // 4
"""float32 values in a full packet over IPv6: 355."""
FRAME_OVERHEAD = {4: 14 + 20 + 8, 6: 14 + 40 + 8}
"""Bytes that Ethernet, IP and UDP add to a gradient packet, by IP version: what a shaper charges beside the payload."""

BANDS = 8
"""Importance bands of the statistics: importance >> 5."""


class GradientType(IntEnum):
    """What a packet is; the transport's control types start at START."""

    DATA = 1
    TRIMMED = 2
    START = 3
    FINISH = 4
    STOP = 5
    REQUEST = 6
    ACK = 7
    REPORT = 8


class GradientFlag(IntFlag):
    """Bits of the `flags` field."""

    RETRANSMISSION = 0x01
    LAST = 0x02
    PROTECTED = 0x04


class DataType(IntEnum):
    """How a value is stored in the payload, little-endian."""

    FLOAT32 = 0
    FLOAT16 = 1
    BFLOAT16 = 2


VALUE_BYTES = {DataType.FLOAT32: 4, DataType.FLOAT16: 2, DataType.BFLOAT16: 2}

HEADER = np.dtype(
    [
        ("version_type", "u1"),  # version in the high four bits, type in the low four
        ("flags", "u1"),
        ("data_type", "u1"),
        ("importance", "u1"),
        ("job", ">u2"),
        ("rank", ">u2"),
        ("tensor", ">u2"),
        ("layer", ">u2"),
        ("round", ">u4"),
        ("offset", ">u4"),
        ("count", ">u2"),
        ("path", "u1"),
        ("reserved", "u1"),
        ("weight", ">u4"),
        ("sequence", ">u4"),
    ]
)
"""The header as a numpy record; numpy has no fields narrower than a byte, so version and type share one."""


def version_type(kind: GradientType) -> int:
    """Return the header's first byte for packets of this type."""
    return GRADIENT_VERSION << 4 | kind
