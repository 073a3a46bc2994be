# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The gradient header as a scapy layer, bound to its UDP port: for tests and dissection, not for load."""

from scapy.fields import (
    BitEnumField,
    BitField,
    ByteEnumField,
    ByteField,
    FlagsField,
    IntField,
    ShortField,
)
from scapy.layers.inet import UDP
from scapy.packet import Packet, bind_bottom_up, bind_layers

from traffic.wire import GRADIENT_PORT, GRADIENT_VERSION, DataType, GradientFlag, GradientType


class Gradient(Packet):
    """One gradient packet's header; the values follow as the raw payload."""

    name = "Gradient"
    fields_desc = [  # noqa: RUF012  # scapy declares it per instance
        BitField("version", GRADIENT_VERSION, 4),
        BitEnumField("type", GradientType.DATA, 4, {kind.value: kind.name for kind in GradientType}),
        FlagsField("flags", 0, 8, [flag.name or "" for flag in GradientFlag]),
        ByteEnumField("data_type", DataType.FLOAT32, {kind.value: kind.name for kind in DataType}),
        ByteField("importance", 0),
        ShortField("job", 0),
        ShortField("rank", 0),
        ShortField("tensor", 0),
        ShortField("layer", 0),
        IntField("round", 0),
        IntField("offset", 0),
        ShortField("count", 0),
        ByteField("path", 0),
        ByteField("reserved", 0),
        IntField("weight", 0),
        IntField("sequence", 0),
    ]


bind_bottom_up(UDP, Gradient, dport=GRADIENT_PORT)
bind_layers(UDP, Gradient, dport=GRADIENT_PORT)
