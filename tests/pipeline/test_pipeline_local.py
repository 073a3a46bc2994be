# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Tables parser_fault, arp_reply and punt, and the controller's packets: fates known without a route."""

from __future__ import annotations

import pytest

from tests.pipeline.bench import NO_INDEX, Bench, cell, drop_cell
from tests.pipeline.packets import RECEIVER, Frame, Gradient, arp_request, gradient, packet_out, with_byte
from tests.pipeline.policies import ROUTED, arp_reply, gradient_class, judge, punt
from tests.pipeline.reference import CPU_PORT, FAULTS, IPV4, IPV6, REASONS, TCP, Exact, Range, Row, Ternary

IP = 14
UDP = IP + 20
HEADER = UDP + 8
WHOLE = bytes(gradient(Gradient(count=8)))

# A frame with each fault, and whether it can be routed all the same.
SPOILT = [
    ("truncated_ipv4", WHOLE[: IP + 19], False),
    ("truncated_ipv4", WHOLE[:-1], False),
    ("truncated_ipv6", bytes(gradient(version=6))[: IP + 39], False),
    ("truncated_ipv6", bytes(gradient(version=6))[:-1], False),
    ("truncated_gradient", bytes(Frame(bytes(Gradient())[:31])), True),
    ("unknown_version", bytes(gradient(Gradient(version=2))), True),
    ("unknown_type", bytes(gradient(Gradient(type=9))), True),
    ("unknown_type", bytes(gradient(Gradient(type=0))), True),
    ("bad_length", bytes(gradient(Gradient(count=8, values=b"\0" * 31))), True),
    ("bad_length", bytes(gradient(Gradient(count=0x4000, values=b""))), True),
    ("bad_length", bytes(gradient(Gradient(count=8, data_type=3))), True),
    ("bad_length", bytes(gradient(Gradient(type=2, count=8, values=b"\0" * 4))), True),
    ("bad_length", with_byte(WHOLE, UDP + 5, WHOLE[UDP + 5] - 1), True),
    ("bad_ipv4", with_byte(WHOLE, IP, 0x44), False),
    ("bad_ipv4", with_byte(WHOLE, IP, 0x65), False),
    ("bad_ipv6", with_byte(bytes(gradient(version=6)), IP, 0x40), False),
    ("truncated_other", Frame(vlan=3).link(IPV4, b"")[:17], False),
    ("truncated_other", arp_request(RECEIVER)[:41], False),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "frame", "routed"), SPOILT)
def test_a_fault_is_counted_and_the_packet_goes_on_as_ordinary_traffic(
    bench: Bench, fault: str, frame: bytes, routed: bool
) -> None:
    _skip_unless_carried(bench, frame)
    bench.install(ROUTED.with_rows(gradient_class(5), judge("drop_judged", importance=Range(0, 254), reason=1)))
    assert bool(bench.send(1, frame)) == routed
    bench.check_counts()
    assert bench.counts()["faults"] == {FAULTS[fault]: 1}
    assert bench.counts()["received"] == {cell(1, 0): 1}, "in the class of ordinary traffic"


@pytest.mark.parametrize(("fault", "frame"), [spoilt[:2] for spoilt in SPOILT])
def test_the_policy_can_drop_a_fault(bench: Bench, fault: str, frame: bytes) -> None:
    _skip_unless_carried(bench, frame)
    bench.install(ROUTED.with_rows(Row("parser_fault", {"fault": Exact(FAULTS[fault])}, "drop_malformed")))
    assert bench.send(1, frame) == []
    bench.check_counts()
    assert bench.counts()["dropped"] == {drop_cell(1, 0, REASONS["malformed"]): 1}


def _skip_unless_carried(bench: Bench, frame: bytes) -> None:
    if not bench.target.carries(frame):
        pytest.skip(f"{bench.target.name}: a veth pair does not carry this frame")


def test_tcp_and_udp_that_end_early_are_routed_without_ports(bench: Bench) -> None:
    bench.install(ROUTED)
    for protocol, length in ((17, 7), (6, 19)):
        whole = Frame(b"\0" * length, protocol=47)
        frame = bytearray(bytes(whole))
        frame[IP + 9] = protocol
        total = int.from_bytes(frame[IP + 10 : IP + 12], "big") + 47 - protocol
        frame[IP + 10 : IP + 12] = ((total & 0xFFFF) + (total >> 16)).to_bytes(2, "big")
        assert bench.send(1, bytes(frame)) != []
    bench.check_counts()
    assert bench.counts()["faults"] == {FAULTS["truncated_l4"]: 2}


def test_a_wrong_ipv4_checksum_is_never_forwarded(bench: Bench) -> None:
    bench.install(
        ROUTED.with_rows(Row("parser_fault", {"fault": Exact(FAULTS["bad_checksum"])}, "forward_as_ordinary"))
    )
    for options in (b"", b"\1" * 12):
        frame = bytes(gradient(options=options))
        assert bench.send(1, with_byte(frame, IP + 10, frame[IP + 10] ^ 0x10)) == []
    bench.check_counts()
    assert bench.counts()["faults"] == {FAULTS["bad_checksum"]: 2}
    assert bench.counts()["dropped"] == {drop_cell(1, 0, REASONS["malformed"], 128): 2}


def test_fragments_are_never_read_as_gradients(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(gradient_class(5), judge("drop_judged", importance=Range(0, 254), reason=1)))
    for fragment in (0x2000, 0x0001, 0x3FFF):
        assert bench.send(1, bytes(gradient(Gradient(importance=0), fragment=fragment))) != []
    bench.check_counts()
    assert bench.counts()["kept"] == {cell(2, 0): 3}


@pytest.mark.parametrize("tag", [None, 12])
def test_the_switch_answers_for_its_addresses_only(bench: Bench, tag: int | None) -> None:
    bench.install(ROUTED.with_rows(arp_reply(0x0A0001FE, 0x02AABBCCDDEE)))
    ((port, answer),) = bench.send(1, arp_request(0x0A0001FE, vlan=tag))
    assert port == 1
    assert answer[6:12] == bytes.fromhex("02aabbccddee")
    assert bench.send(1, arp_request(0x0A0001FD, vlan=tag)) == []
    bench.check_counts()


def test_a_punted_packet_reaches_the_controller_with_its_port(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(punt("send_to_cpu", ether_type=Ternary(0x88CC, 0xFFFF))))
    frame = Frame().link(0x88CC, b"neighbour discovery")
    assert bench.send(3, frame) == [(CPU_PORT, (3 << 7 | 1).to_bytes(2, "big") + frame)]
    bench.check_counts()
    assert bench.counts()["kept"] == {cell(NO_INDEX, 0): 1}


def test_a_copy_reaches_the_controller_as_it_arrived_while_the_packet_goes_its_way(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(punt("copy_to_cpu", protocol=Ternary(TCP, 0xFF))))
    frame = bytes(Frame(b"copied", protocol=TCP))
    left = dict(bench.send(1, frame))
    assert left[CPU_PORT] == (1 << 7 | 2).to_bytes(2, "big") + frame
    assert left[2][22] == 63
    bench.check_counts()


def test_the_policy_can_forbid_a_protocol(bench: Bench) -> None:
    rows = [
        punt("drop_by_policy", priority=1, ether_type=Ternary(IPV6, 0xFFFF)),
        punt("pass", priority=2, ether_type=Ternary(IPV6, 0xFFFF), protocol=Ternary(TCP, 0xFF)),
    ]
    bench.install(ROUTED.with_rows(*rows))
    assert bench.send(1, bytes(gradient(version=6))) == []
    assert bench.send(1, bytes(Frame(version=6, protocol=TCP))) != []
    bench.check_counts()
    assert bench.counts()["dropped"] == {drop_cell(1, 0, REASONS["policy"], 128): 1}


def test_the_controller_sends_to_a_port_in_a_class(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(judge("drop_judged", reason=3)))
    frame = Frame().link(0x88CC, b"from the controller")
    assert bench.send(CPU_PORT, packet_out(frame, 3, 6)) == [(3, frame)]
    bench.check_counts()
    assert bench.counts()["received"] == {cell(NO_INDEX, 6): 1}
    assert bench.counts()["queue_delay"] == {cell(NO_INDEX, 6): 1}


def test_the_controller_lets_the_switch_route(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(punt("send_to_cpu", ether_type=Ternary(IPV4, 0xFFFF))))
    ((port, frame),) = bench.send(CPU_PORT, packet_out(bytes(gradient()), 0))
    assert port == 2
    assert frame[22] == 63
    bench.check_counts()


def test_a_packet_out_to_nowhere_is_dropped_by_policy(bench: Bench) -> None:
    bench.install(ROUTED)
    assert bench.send(CPU_PORT, packet_out(bytes(gradient()), 511)) == []
    bench.check_counts()
    assert bench.counts()["dropped"] == {drop_cell(NO_INDEX, 0, REASONS["policy"]): 1}
