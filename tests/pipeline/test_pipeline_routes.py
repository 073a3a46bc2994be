# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Tables ipv4_route, ipv6_route and next_hop: where a packet goes, and what is rewritten on the way."""

from __future__ import annotations

import pytest

from tests.pipeline.bench import Bench, drop_cell
from tests.pipeline.packets import RECEIVER, RECEIVER6, Frame, Gradient, gradient
from tests.pipeline.policies import PORT_MAC, RECEIVER_MAC, ROUTED, next_hop, port_index, route4, route6
from tests.pipeline.reference import REASONS, Policy


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("tag", [None, 42])
def test_a_routed_packet_gets_new_addresses_and_one_hop_less(bench: Bench, version: int, tag: int | None) -> None:
    bench.install(ROUTED)
    sent = gradient(Gradient(count=20), version=version, vlan=tag, hops=9)
    expected = sent.but(hops=8, source_mac=PORT_MAC + 2, destination_mac=RECEIVER_MAC + (2 << 8))
    assert bench.send(1, bytes(sent)) == [(2, bytes(expected))]
    bench.check_counts()


def test_ipv4_options_and_padding_survive_with_a_good_checksum(bench: Bench) -> None:
    bench.install(ROUTED)
    sent = gradient(options=bytes.fromhex("8307040a000001000000000000000000"), padding=5)
    expected = sent.but(hops=63, source_mac=PORT_MAC + 2, destination_mac=RECEIVER_MAC + (2 << 8))
    assert bench.send(1, bytes(sent)) == [(2, bytes(expected))]


def test_the_longest_prefix_wins(bench: Bench) -> None:
    rows = [
        route4(0x0A000000, 8, next_hop=1),
        route4(RECEIVER, 32, next_hop=3),
        route4(RECEIVER, 16, next_hop=2),
        route6(RECEIVER6, 16, next_hop=1),
        route6(RECEIVER6, 128, next_hop=3),
        route6(0, 0, next_hop=2),
    ]
    bench.install(Policy((*(next_hop(port, port) for port in (1, 2, 3)), *rows)))
    out = [
        bench.send(4, bytes(Frame(version=version, destination=destination)))[0][0]
        for version, destination in (
            (4, RECEIVER), (4, RECEIVER + 1), (4, 0x0AFF0001), (6, RECEIVER6), (6, RECEIVER6 + 1), (6, 1),
        )
    ]  # fmt: skip
    assert out == [3, 2, 1, 3, 1, 2]
    bench.check_counts()


@pytest.mark.parametrize("hops", [0, 1])
@pytest.mark.parametrize("version", [4, 6])
def test_a_packet_at_its_last_hop_is_dropped_for_that_reason(bench: Bench, version: int, hops: int) -> None:
    bench.install(ROUTED)
    assert bench.send(1, bytes(gradient(version=version, hops=hops))) == []
    bench.check_counts()
    assert bench.counts()["dropped"] == {drop_cell(2, 0, REASONS["ttl"], 128): 1}


def test_what_has_no_route_or_no_next_hop_is_dropped_for_that_reason(bench: Bench) -> None:
    bench.install(Policy((port_index(1, 1), route4(RECEIVER, 24, next_hop=99))))
    for frame in (Frame(destination=0xC0000201), Frame(version=6), Frame()):
        assert bench.send(1, bytes(frame)) == []
    assert bench.send(1, Frame().link(0x88CC, b"neighbour")) == []
    bench.check_counts()
    assert bench.counts()["dropped"] == {drop_cell(1, 0, REASONS["no_route"]): 4}


def test_a_route_can_forbid(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(route4(RECEIVER, 32), route6(RECEIVER6, 128)))
    assert bench.send(1, bytes(gradient())) == []
    assert bench.send(1, bytes(gradient(version=6))) == []
    bench.check_counts()
    assert bench.counts()["dropped"] == {drop_cell(1, 0, REASONS["policy"], 128): 2}
