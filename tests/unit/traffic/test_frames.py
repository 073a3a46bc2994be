# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Frames of a capture get two hosts' addresses with right checksums, and are known again behind routers."""

import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import ICMP, IP, TCP, UDP
from scapy.layers.inet6 import ICMPv6EchoRequest, IPv6
from scapy.layers.l2 import ARP, Dot1Q, Ether
from scapy.packet import Packet, Raw
from scapy.utils import PcapNgWriter, wrpcap

from topologies.errors import UsageError
from traffic.header import Gradient
from traffic.replay.frames import (
    LINK_COOKED,
    LINK_COOKED2,
    LINK_ETHERNET,
    Station,
    gradient_header,
    identity,
    ip_packet,
    read_capture,
    readdressed,
    trimmed_identity,
)
from traffic.replay.sources import capture_stream
from traffic.wire import GRADIENT_PORT, GradientType

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
SOURCE = Station("02:00:0a:00:01:01", "02:00:00:00:fe:01", "10.0.1.1", "fd00:0:0:1::1")
SINK = Station("02:00:0a:00:02:01", "02:00:00:00:fe:02", "10.0.2.1", "fd00:0:0:2::1")

OLD4 = IP(src="192.0.2.1", dst="198.51.100.7", ttl=3, tos=0x2E, id=7)
OLD6 = IPv6(src="2001:db8::1", dst="2001:db8::2", hlim=3, tc=0x2E)
BODIES = [
    UDP(sport=4000, dport=5000) / Raw(b"odd length body"),
    TCP(sport=4000, dport=80, flags="PA", seq=1) / Raw(b"x" * 20),
]


def built(packet: Packet) -> Packet:
    return packet.__class__(bytes(packet))


@pytest.mark.parametrize("packet", [*(OLD4 / body for body in [*BODIES, ICMP() / Raw(b"ping")]),
                                    *(OLD6 / body for body in [*BODIES, ICMPv6EchoRequest(data=b"ping")])])  # fmt: skip
def test_readdressed_packets_have_the_hosts_addresses_and_right_checksums(packet: Packet) -> None:
    frame = Ether(readdressed(bytes(packet), SOURCE, SINK))
    assert (frame.src, frame.dst) == (SOURCE.mac, SOURCE.gateway_mac)
    layer = frame[IP] if IP in frame else frame[IPv6]
    wanted = (SOURCE.ipv4, SINK.ipv4) if IP in frame else ("fd00:0:0:1::1", "fd00:0:0:2::1")
    assert (layer.src, layer.dst) == wanted
    recomputed = packet.copy()
    recomputed.src, recomputed.dst = wanted
    assert bytes(layer) == bytes(built(recomputed))


@given(st.binary(min_size=0, max_size=60))
@settings(deadline=None)
def test_udp_checksums_are_right_for_any_payload(payload: bytes) -> None:
    packet = OLD4 / UDP(sport=1, dport=2) / Raw(payload)
    frame = Ether(readdressed(bytes(packet), SOURCE, SINK))
    packet.src, packet.dst = SOURCE.ipv4, SINK.ipv4
    assert bytes(frame[IP]) == bytes(packet)


def test_a_udp_packet_without_checksum_stays_without() -> None:
    packet = OLD4 / UDP(sport=1, dport=2, chksum=0) / Raw(b"abc")
    assert Ether(readdressed(bytes(packet), SOURCE, SINK))[UDP].chksum == 0


def test_later_fragments_keep_their_bytes() -> None:
    packet = IP(src="192.0.2.1", dst="192.0.2.2", frag=10, proto=17) / Raw(bytes(range(32)))
    assert Ether(readdressed(bytes(packet), SOURCE, SINK))[IP].payload.load == bytes(range(32))


@pytest.mark.parametrize(
    "packet", [b"", b"\x45", bytes(OLD4 / BODIES[0])[:-1], bytes(OLD6 / BODIES[0])[:-1], b"\x00" * 40]
)
def test_what_is_no_whole_ip_packet_is_left_out(packet: bytes) -> None:
    assert readdressed(packet, SOURCE, SINK) is None


def test_the_ip_packet_is_found_behind_every_link_type() -> None:
    ip, ip6 = bytes(OLD4 / BODIES[0]), bytes(OLD6 / BODIES[0])
    ether = b"\x02" * 12
    assert ip_packet(LINK_ETHERNET, ether + b"\x08\x00" + ip) == ip
    assert ip_packet(LINK_ETHERNET, bytes(ETHER / Dot1Q(vlan=3) / Dot1Q(vlan=4) / OLD6 / BODIES[0])) == ip6
    assert ip_packet(LINK_COOKED, bytes(14) + b"\x08\x00" + ip) == ip
    assert ip_packet(LINK_COOKED2, b"\x86\xdd" + bytes(18) + ip6) == ip6
    assert ip_packet(101, ip6) == ip6
    assert ip_packet(LINK_ETHERNET, bytes(ETHER / ARP())) is None
    assert ip_packet(LINK_ETHERNET, b"short") is None
    assert ip_packet(999, ip) is None


def routed(frame: bytes) -> bytes:
    """Do to a frame what routers do: other MACs, one hop less, CE marked, padding."""
    changed = Ether(frame)
    changed.src, changed.dst = "02:00:00:00:00:07", "02:00:00:00:00:08"
    if IP in changed:
        changed[IP].ttl -= 1
        changed[IP].tos |= 3
        del changed[IP].chksum
    else:
        changed[IPv6].hlim -= 1
        changed[IPv6].tc |= 3
    return bytes(changed) + bytes(5)


@pytest.mark.parametrize("packet", [OLD4 / BODIES[0], OLD6 / BODIES[1]])
def test_routing_leaves_a_packets_identity(packet: Packet) -> None:
    frame = readdressed(bytes(packet), SOURCE, SINK)
    assert identity(routed(frame)) == identity(frame)
    assert identity(frame[:-1] + bytes([frame[-1] ^ 1])) != identity(frame)


def gradient(ip: Packet, kind: GradientType, payload: bytes, **fields: int) -> bytes:
    packet = ip / UDP(sport=7, dport=GRADIENT_PORT) / Gradient(type=kind, **fields) / Raw(payload)
    return readdressed(bytes(packet), SOURCE, SINK)


@pytest.mark.parametrize("ip", [OLD4, OLD6])
def test_a_trimmed_gradient_packet_is_known_by_its_header(ip: Packet) -> None:
    whole = gradient(ip, GradientType.DATA, b"v" * 40, layer=3, sequence=9, count=10)
    cut = gradient(ip, GradientType.TRIMMED, b"", layer=3, sequence=9, count=10)
    other = gradient(ip, GradientType.TRIMMED, b"", layer=3, sequence=10, count=10)
    assert trimmed_identity(routed(cut)) == trimmed_identity(whole) != trimmed_identity(other)
    assert identity(cut) != identity(whole)
    assert Gradient(gradient_header(whole)).layer == 3


def test_ordinary_packets_and_fragments_have_no_gradient_header() -> None:
    assert gradient_header(readdressed(bytes(OLD4 / BODIES[0]), SOURCE, SINK)) is None
    fragment = OLD4.copy()
    fragment.flags = "MF"
    assert gradient_header(gradient(fragment, GradientType.DATA, b"")) is None
    short = readdressed(bytes(OLD4 / UDP(dport=GRADIENT_PORT) / Raw(bytes(31))), SOURCE, SINK)
    assert gradient_header(short) is None


PACKETS = [ETHER / OLD4 / BODIES[0], ETHER / ARP(), ETHER / OLD6 / BODIES[1], ETHER / OLD4 / Raw(bytes(2000))]


def test_a_capture_becomes_frames_and_tells_what_it_skipped(tmp_path: Path) -> None:
    old, new = tmp_path / "capture.pcap", tmp_path / "capture.pcapng"
    wrpcap(str(old), PACKETS)
    writer = PcapNgWriter(str(new))
    for packet in PACKETS:
        writer.write(packet)
    writer.close()
    for path in (old, new):
        capture = capture_stream(path, SOURCE, SINK)
        assert capture.skipped == 2
        assert not capture.stream.gradient
        assert [Ether(row).dst for row in capture.stream.packets.rows()] == [SOURCE.gateway_mac] * 2


def one_line(path: Path) -> str:
    with pytest.raises(UsageError) as raised:
        capture_stream(path, SOURCE, SINK)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_capture_that_is_not_one_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "not.pcap"
    magic = b"\xd4\xc3\xb2\xa1"
    for content in (
        b"",
        b"hello, world",
        magic,
        magic + bytes(3),
        b"\x0a\x0d\x0d\x0a",
        b"\x0a\x0d\x0d\x0a" + bytes(30),
    ):
        path.write_bytes(content)
        one_line(path)
    assert "no such file" in one_line(tmp_path / "none.pcap")
    assert "cannot read" in one_line(tmp_path)


def test_a_capture_without_ip_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "arp.pcap"
    wrpcap(str(path), [ETHER / ARP()])
    assert "no IP packet" in one_line(path)


def test_a_capture_that_was_cut_off_gives_its_whole_packets(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    wrpcap(str(path), [ETHER / OLD4 / BODIES[0]] * 2)
    path.write_bytes(path.read_bytes()[:-3])
    assert len(list(read_capture(path))) >= 1
    assert len(capture_stream(path, SOURCE, SINK).stream) == 1


def test_garbage_after_the_magic_is_told_in_one_line_or_read_as_packets(tmp_path: Path) -> None:
    path = tmp_path / "garbage.pcap"
    for seed in range(200):
        body = struct.pack("<I", seed * 2654435761 % 2**32) * 20
        for magic in (b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\xc3\xd4", b"\x0a\x0d\x0d\x0a"):
            path.write_bytes(magic + body)
            one_line(path)
