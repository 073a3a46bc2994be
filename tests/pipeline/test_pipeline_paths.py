# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Tables path_mode, pinned_path, path_group and path_group_alternative: which member of a group a packet takes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.pipeline.bench import Bench, drop_cell
from tests.pipeline.packets import RECEIVER, Frame, Gradient, gradient
from tests.pipeline.policies import GROUP, SPRAYED, gradient_class, path_mode, pinned_path, route4
from tests.pipeline.reference import REASONS, TCP, Member, Policy, Range


def _shares(bench: Bench, packets: int, **around: Any) -> Counter[int]:
    return Counter(bench.send(1, bytes(gradient(**around)))[0][0] for _ in range(packets))


def test_a_flow_keeps_to_one_member_and_flows_differ(bench: Bench) -> None:
    bench.install(SPRAYED)
    used: set[int] = set()
    for flow in range(12):
        for version in (4, 6):
            shares = _shares(bench, 4, source_port=1000 + 77 * flow, version=version)
            assert len(shares) == 1, f"flow {flow} over IPv{version}"
            used |= shares.keys()
    assert used == {2, 3, 4}
    bench.check_counts()


def test_fragments_of_one_datagram_keep_together(bench: Bench) -> None:
    bench.install(SPRAYED)
    first = _shares(bench, 1, fragment=0x2000, source_port=1)
    assert first == _shares(bench, 1, fragment=0x2040, source_port=2) == _shares(bench, 1, fragment=0x0080)
    bench.check_counts()


def test_round_robin_takes_turns(bench: Bench) -> None:
    bench.install(SPRAYED.with_rows(path_mode(0, "round_robin")))
    turns = [bench.send(1, bytes(gradient()))[0][0] for _ in range(9)]
    assert sorted(turns[:3]) == [2, 3, 4]
    assert turns == turns[:3] * 3
    bench.check_counts()


def test_every_class_takes_its_own_turns(bench: Bench) -> None:
    rows = [path_mode(0, "round_robin"), path_mode(5, "round_robin"), gradient_class(5)]
    bench.install(SPRAYED.with_rows(*rows))
    shares: Counter[tuple[bool, int]] = Counter()
    for turn in range(24):
        ordinary = turn % 2 == 0
        frame = Frame(destination_port=5001) if ordinary else gradient()
        shares[ordinary, bench.send(1, bytes(frame))[0][0]] += 1
    assert set(shares.values()) == {4}
    bench.check_counts()


@pytest.mark.parametrize("mode", ["random_member", "shallower_of_two"])
def test_a_random_choice_uses_every_member(bench: Bench, mode: str) -> None:
    bench.install(SPRAYED.with_rows(path_mode(0, mode)))
    assert _shares(bench, 60).keys() == {2, 3, 4}
    bench.check_counts()


def test_each_class_has_its_own_mode(bench: Bench) -> None:
    bench.install(SPRAYED.with_rows(path_mode(3, "round_robin"), gradient_class(3)))
    assert _shares(bench, 6) == {2: 2, 3: 2, 4: 2}
    ordinary = {bench.send(1, bytes(Frame(protocol=TCP)))[0][0] for _ in range(6)}
    assert len(ordinary) == 1
    bench.check_counts()


def test_weights_are_kept_exactly_in_turns(bench: Bench) -> None:
    policy = replace(SPRAYED, groups={GROUP: (Member(2, 2, 3), Member(3, 3, 1))})
    bench.install(policy.with_rows(path_mode(0, "round_robin")))
    assert _shares(bench, 40) == {2: 30, 3: 10}
    bench.check_counts()


def test_a_packet_takes_the_path_its_header_names_where_the_policy_has_it(bench: Bench) -> None:
    rows = [path_mode(0, "round_robin"), pinned_path(GROUP, 1, 2), pinned_path(GROUP, 3, 4)]
    bench.install(SPRAYED.with_rows(*rows))
    assert _pinned(bench, 1) == {2}
    assert _pinned(bench, 3) == {4}
    assert _pinned(bench, 2) == {2, 3, 4}, "no row: a free choice"
    assert _pinned(bench, 0) == {2, 3, 4}
    bench.check_counts()


def _pinned(bench: Bench, path: int) -> set[int]:
    return {bench.send(1, bytes(gradient(Gradient(path=path))))[0][0] for _ in range(6)}


def test_a_group_that_is_not_there_is_no_route(bench: Bench) -> None:
    bench.install(Policy((route4(RECEIVER, 24, group=77),)))
    assert bench.send(1, bytes(gradient())) == []
    bench.check_counts()
    assert bench.counts()["dropped"] == {drop_cell(63, 0, REASONS["no_route"], 128): 1}


def test_a_member_is_left_out_while_its_port_is_down(softswitch_bench: Bench) -> None:
    bench = softswitch_bench.install(SPRAYED.with_rows(path_mode(0, "round_robin")))
    bench.target.switch.set_port_up(3, False)
    assert _shares(bench, 8) == {2: 4, 4: 4}
    bench.target.switch.set_port_up(3, True)
    assert _shares(bench, 9) == {2: 3, 3: 3, 4: 3}


def test_a_group_without_living_members_is_no_route(softswitch_bench: Bench) -> None:
    bench = softswitch_bench.install(SPRAYED)
    for port in (2, 3, 4):
        bench.target.switch.set_port_up(port, False)
    assert bench.target.send(1, bytes(gradient())) == []
    assert bench.counts()["dropped"] == {drop_cell(1, 0, REASONS["no_route"], 128): 1}


def test_the_shallower_of_two_queues_is_taken(softswitch_bench: Bench) -> None:
    bench = softswitch_bench
    two = replace(SPRAYED, groups={GROUP: (Member(2, 2), Member(3, 3))})
    bench.install(two.with_rows(path_mode(0, "shallower_of_two"), route4(0xC0000200, 24, next_hop=2)))
    for port in (2, 3):
        bench.target.switch.set_rate(port, 1_000_000)
    for _ in range(20):
        bench.target.send(1, bytes(gradient(Gradient(count=300), destination=0xC0000201)))
    deep = bench.depth(2, 0)
    assert deep > 300
    for _ in range(10):
        bench.target.send(1, bytes(gradient(Gradient(count=100))))
    assert bench.depth(2, 0) == deep
    assert bench.depth(3, 0) > 0


def test_queues_that_are_served_before_count_as_depth_and_later_ones_do_not(softswitch_bench: Bench) -> None:
    bench = softswitch_bench
    two = replace(SPRAYED, groups={GROUP: (Member(2, 2), Member(3, 3))})
    classes = (gradient_class(6, priority=2, layer=Range(0, 0)), gradient_class(1, priority=1))
    modes = (path_mode(number, "shallower_of_two") for number in (1, 6))
    elsewhere = 0xC0000201
    bench.install(two.with_rows(*classes, *modes, route4(elsewhere & ~0xFF, 24, next_hop=2)))
    for port in (2, 3):
        bench.target.switch.set_rate(port, 1_000_000)

    def send(packets: int, layer: int, **around: int) -> None:
        for _ in range(packets):
            bench.target.send(1, bytes(gradient(Gradient(layer=layer, count=300), **around)))

    send(20, 0, destination=elsewhere)
    send(10, 3)
    assert bench.depth(2, 1) == 0
    assert bench.depth(3, 1) > 100
    send(40, 3, destination=elsewhere)
    deep = bench.depth(2, 6)
    send(2 * deep // 20 + 20, 0)
    assert bench.depth(2, 6) > deep
