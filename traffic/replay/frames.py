# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""IP frames of a capture: read, given the addresses of two hosts, and recognised when they come out of a fabric."""

import socket
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from topologies.errors import UsageError
from traffic.wire import GRADIENT_BYTES, GRADIENT_PORT

Identity = bytes
"""What stays the same of a packet on its way through routers."""

ETHERNET = 14
IPV4, IPV6 = 0x0800, 0x86DD
VLAN_TYPES = (0x8100, 0x88A8)
TCP, UDP, ICMPV6 = 6, 17, 58
CHECKSUM_AT = {TCP: 16, UDP: 6, ICMPV6: 2}
ECN_BITS = 3

LINK_ETHERNET, LINK_COOKED, LINK_COOKED2 = 1, 113, 276
LINKS_RAW_IP = (12, 101, 228, 229)


@dataclass(frozen=True)
class Station:
    """The addresses of a host, and the MAC address of the gateway that it sends to."""

    mac: str
    gateway_mac: str
    ipv4: str
    ipv6: str


@dataclass(frozen=True)
class Datagram:
    """Where things stand in a frame with an IP packet."""

    version: int
    end: int
    """One past the packet's last byte; a short frame is padded beyond it."""
    protocol: int
    transport: int | None
    """Where the transport header starts; None in a later fragment."""


def read_capture(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield (link type, bytes) of every packet of a pcap or pcapng, in order.

    Raises UsageError, in one line, for a file that is missing or no capture.
    """
    from scapy.error import Scapy_Exception
    from scapy.utils import RawPcapReader  # imported on use: scapy takes a second

    try:
        reader = RawPcapReader(str(path))
    except FileNotFoundError:
        raise UsageError("no such file", file=path) from None
    except (Scapy_Exception, EOFError, struct.error, ValueError):
        raise UsageError("not a pcap or pcapng capture", file=path) from None
    except OSError as error:
        raise UsageError(f"cannot read the capture: {error.strerror or error}", file=path) from None
    with reader:
        try:
            for data, about in reader:
                kind = getattr(about, "linktype", None)  # pcapng: of each interface
                yield reader.linktype if kind is None else kind, data
        except (Scapy_Exception, struct.error, ValueError) as error:
            raise UsageError(f"damaged capture ({error})", file=path) from None


def ip_packet(link_type: int, data: bytes) -> bytes | None:
    """Return the IP packet that a captured frame holds, or None."""
    if link_type in LINKS_RAW_IP:
        start, kind = 0, {4: IPV4, 6: IPV6}.get(data[0] >> 4 if data else 0)
    elif link_type == LINK_COOKED and len(data) >= 16:
        start, kind = 16, _word(data, 14)
    elif link_type == LINK_COOKED2 and len(data) >= 20:
        start, kind = 20, _word(data, 0)
    elif link_type == LINK_ETHERNET and len(data) >= ETHERNET:
        start, kind = ETHERNET, _word(data, 12)
    else:
        return None
    while kind in VLAN_TYPES and len(data) >= start + 4:
        start, kind = start + 4, _word(data, start + 2)
    return data[start:] if kind in (IPV4, IPV6) else None


def datagram(frame: bytes) -> Datagram | None:
    """Find the parts of an Ethernet frame without tags, or None if it holds no whole IP packet."""
    kind = _word(frame, 12) if len(frame) >= ETHERNET else 0
    if kind == IPV4 and len(frame) >= ETHERNET + 20:
        header = (frame[ETHERNET] & 15) * 4
        end = ETHERNET + _word(frame, ETHERNET + 2)
        first = not _word(frame, ETHERNET + 6) & 0x1FFF
        found = Datagram(4, end, frame[ETHERNET + 9], ETHERNET + header if first else None)
        return found if frame[ETHERNET] >> 4 == 4 and 20 <= header <= end - ETHERNET and end <= len(frame) else None
    if kind == IPV6 and len(frame) >= ETHERNET + 40:
        end = ETHERNET + 40 + _word(frame, ETHERNET + 4)
        found = Datagram(6, end, frame[ETHERNET + 6], ETHERNET + 40)
        return found if frame[ETHERNET] >> 4 == 6 and end <= len(frame) else None
    return None


def readdressed(packet: bytes, source: Station, destination: Station) -> bytes | None:
    """Return the Ethernet frame that carries an IP packet from one host to another, checksums mended, or None."""
    version = packet[0] >> 4 if packet else 0
    head = _mac(source.gateway_mac) + _mac(source.mac) + struct.pack("!H", IPV4 if version == 4 else IPV6)
    found = datagram(head + packet)
    if found is None:
        return None
    frame = bytearray(head + packet)[: found.end]
    if version == 4:
        start, length, family = ETHERNET + 12, 4, socket.AF_INET
        addresses = (source.ipv4, destination.ipv4)
    else:
        start, length, family = ETHERNET + 8, 16, socket.AF_INET6
        addresses = (source.ipv6, destination.ipv6)
    before = bytes(frame[start : start + 2 * length])
    after = b"".join(socket.inet_pton(family, address) for address in addresses)
    frame[start : start + 2 * length] = after
    if version == 4:
        _mend(frame, ETHERNET + 10, before, after)
    at = CHECKSUM_AT.get(found.protocol)
    if at is not None and found.transport is not None and found.transport + at + 2 <= found.end:
        place = found.transport + at
        if found.protocol != UDP or _word(frame, place):  # a UDP checksum of 0 means none
            _mend(frame, place, before, after)
            if found.protocol == UDP and not _word(frame, place):
                frame[place : place + 2] = b"\xff\xff"
    return bytes(frame)


def gradient_header(frame: bytes) -> bytes | None:
    """Return the bytes of a frame's gradient header, or None if it carries none."""
    found = datagram(frame)
    if found is None or found.protocol != UDP or found.transport is None:
        return None
    start = found.transport + 8
    if start + GRADIENT_BYTES > found.end or _word(frame, found.transport + 2) != GRADIENT_PORT:
        return None
    if found.version == 4 and _word(frame, ETHERNET + 6) & 0x2000:  # a first fragment
        return None
    return frame[start : start + GRADIENT_BYTES]


def identity(frame: bytes) -> Identity | None:
    """Return a frame's IP packet without what routers change (TTL, ECN, header checksum), or None if it has none."""
    found = datagram(frame)
    if found is None:
        return None
    packet = bytearray(frame[ETHERNET : found.end])
    if found.version == 4:
        packet[1] &= ~ECN_BITS
        packet[8] = packet[10] = packet[11] = 0
    else:
        packet[1] &= ~(ECN_BITS << 4) & 0xFF
        packet[7] = 0
    return bytes(packet)


def trimmed_identity(frame: bytes) -> Identity | None:
    """Return what stays the same when a gradient packet is trimmed to its headers: addresses, ports and header."""
    found, header = datagram(frame), gradient_header(frame)
    if found is None or found.transport is None or header is None:
        return None
    addresses = frame[ETHERNET + 12 : ETHERNET + 20] if found.version == 4 else frame[ETHERNET + 8 : ETHERNET + 40]
    return addresses + frame[found.transport : found.transport + 4] + header[1:]


def _word(data: bytes | bytearray, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def _mend(frame: bytearray, at: int, before: bytes, after: bytes) -> None:
    """Change an Internet checksum for bytes that changed under it (RFC 1624)."""
    total = ~_word(frame, at) & 0xFFFF
    total += sum(~word & 0xFFFF for word in _words(before)) + sum(_words(after))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    frame[at : at + 2] = struct.pack("!H", ~total & 0xFFFF)


def _words(data: bytes) -> Iterable[int]:
    return struct.unpack(f"!{len(data) // 2}H", data)
