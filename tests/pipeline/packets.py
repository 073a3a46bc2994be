# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Frames, built byte by byte: whole ones, and ways to spoil them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import Any

from tests.pipeline.reference import ARP, GRADIENT_PORT, IPV4, IPV6, TCP, UDP, VLAN, ones_complement

DATA, TRIMMED, START, FINISH, STOP, REQUEST, ACK, REPORT = range(1, 9)
FLOAT32, FLOAT16, BFLOAT16 = range(3)

SENDER_MAC, SWITCH_MAC = 0x020000000001, 0x02000000FE01
SENDER, RECEIVER = 0x0A000101, 0x0A000201
SENDER6, RECEIVER6 = 0xFD00 << 112 | 1 << 64 | 1, 0xFD00 << 112 | 2 << 64 | 1


@dataclass(frozen=True)
class Gradient:
    """A gradient header and its values."""

    type: int = DATA
    flags: int = 0
    data_type: int = FLOAT32
    importance: int = 128
    job: int = 1
    rank: int = 0
    tensor: int = 0
    layer: int = 0
    round: int = 0
    offset: int = 0
    count: int = 8
    path: int = 0
    weight: int = 32
    sequence: int = 0
    version: int = 1
    values: bytes | None = None  # None: as many as `count` says

    def __bytes__(self) -> bytes:
        values = self.values
        if values is None:
            size = 4 if self.data_type == FLOAT32 else 2
            values = bytes(i * 7 & 0xFF for i in range(self.count * size)) if self.type == DATA else b""
        return (
            struct.pack(
                ">BBBBHHHHIIHBBII",
                self.version << 4 | self.type, self.flags, self.data_type, self.importance, self.job, self.rank,
                self.tensor, self.layer, self.round, self.offset, self.count, self.path, 0, self.weight, self.sequence,
            )
            + values
        )  # fmt: skip


@dataclass(frozen=True)
class Frame:
    """What stands around a payload. `bytes()` of it is the frame with every length and checksum right."""

    payload: bytes = b""
    version: int = 4  # of IP
    protocol: int = UDP
    source_port: int = 40000
    destination_port: int = GRADIENT_PORT
    source: int | None = None
    destination: int | None = None
    dscp: int = 0
    ecn: int = 0
    hops: int = 64
    options: bytes = b""  # of IPv4, a multiple of 4 bytes
    fragment: int = 0  # IPv4 flags and fragment offset
    vlan: int | None = None
    source_mac: int = SENDER_MAC
    destination_mac: int = SWITCH_MAC
    padding: int = 0  # bytes behind the IP packet

    def but(self, **changes: Any) -> Frame:
        return replace(self, **changes)

    def __bytes__(self) -> bytes:
        ip = self._ipv4() if self.version == 4 else self._ipv6()
        return self.link(IPV4 if self.version == 4 else IPV6, ip + b"\0" * self.padding)

    def link(self, ether_type: int, payload: bytes) -> bytes:
        """Put Ethernet, and the tag if there is one, in front of a payload."""
        tag = struct.pack(">HH", VLAN, self.vlan) if self.vlan is not None else b""
        macs = self.destination_mac.to_bytes(6, "big") + self.source_mac.to_bytes(6, "big")
        return macs + tag + struct.pack(">H", ether_type) + payload

    def _addresses(self) -> tuple[bytes, bytes]:
        size, source, destination = (4, SENDER, RECEIVER) if self.version == 4 else (16, SENDER6, RECEIVER6)
        return (
            (source if self.source is None else self.source).to_bytes(size, "big"),
            (destination if self.destination is None else self.destination).to_bytes(size, "big"),
        )

    def _l4(self) -> bytes:
        ports = struct.pack(">HH", self.source_port, self.destination_port)
        if self.protocol == UDP:
            datagram = ports + struct.pack(">HH", 8 + len(self.payload), 0) + self.payload
            return datagram[:6] + (self._sum(datagram) or 0xFFFF).to_bytes(2, "big") + datagram[8:]
        if self.protocol == TCP:
            segment = ports + struct.pack(">IIBBHHH", 1, 2, 5 << 4, 0x10, 1000, 0, 0) + self.payload
            return segment[:16] + self._sum(segment).to_bytes(2, "big") + segment[18:]
        return self.payload

    def _sum(self, data: bytes) -> int:
        source, destination = self._addresses()
        return ones_complement(source + destination + struct.pack(">II", len(data), self.protocol) + data)

    def _ipv4(self) -> bytes:
        l4 = self._l4()
        source, destination = self._addresses()
        header = struct.pack(
            ">BBHHHBBH",
            0x45 + len(self.options) // 4, self.dscp << 2 | self.ecn, 20 + len(self.options) + len(l4), 0x1234,
            self.fragment, self.hops, self.protocol, 0,
        )  # fmt: skip
        header += source + destination + self.options
        return header[:10] + ones_complement(header).to_bytes(2, "big") + header[12:] + l4

    def _ipv6(self) -> bytes:
        l4 = self._l4()
        source, destination = self._addresses()
        word = 6 << 28 | self.dscp << 22 | self.ecn << 20 | 0xBEEF
        return struct.pack(">IHBB", word, len(l4), self.protocol, self.hops) + source + destination + l4


def gradient(header: Gradient | None = None, **around: Any) -> Frame:
    """A frame with a gradient packet in it."""
    return Frame(payload=bytes(header or Gradient())).but(**around)


def arp_request(target: int, **around: Any) -> bytes:
    """Ask who has an IPv4 address."""
    frame = Frame(destination_mac=0xFFFFFFFFFFFF).but(**around)
    body = struct.pack(">HHBBH", 1, IPV4, 6, 4, 1) + frame.source_mac.to_bytes(6, "big") + SENDER.to_bytes(4, "big")
    return frame.link(ARP, body + bytes(6) + target.to_bytes(4, "big") + b"\0" * 18)


def packet_out(frame: bytes, egress_port: int = 0, priority: int = 0) -> bytes:
    """What the controller sends through the CPU port: to a port in a class, or (port 0) to be routed."""
    return struct.pack(">H", egress_port << 7 | priority << 4) + frame


def with_byte(frame: bytes, offset: int, value: int) -> bytes:
    """Change one byte and mend nothing."""
    return frame[:offset] + bytes([value]) + frame[offset + 1 :]
