# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Queues, shapers and strict priority, under a virtual clock."""

from __future__ import annotations

from itertools import pairwise

import pytest
from engine_frames import command, report

from softswitch.switch import Switch, delay_bucket_bounds

SECOND = 10**9
START = 5 * SECOND


@pytest.fixture
def timed(switch: Switch) -> Switch:
    switch.set_clock(START)
    return switch


def fill(switch: Switch, count: int, priority: int = 0, length: int = 1000, opcode: str = "P") -> None:
    for _ in range(count):
        assert switch.send(1, command(opcode, 2, priority, length))
    switch.run()


def test_an_idle_port_sends_one_packet_at_once_and_the_next_a_packet_time_later(timed: Switch) -> None:
    timed.set_rate(2, 1_000_000)
    fill(timed, 3)
    assert len(timed.take()) == 1
    assert timed.run() == START + 8_000_000
    timed.set_clock(START + 7_999_999)
    assert timed.run() == START + 8_000_000 and timed.take() == []
    timed.set_clock(START + 8_000_000)
    timed.run()
    assert len(timed.take()) == 1


@pytest.mark.parametrize("rate", [1_000_000, 7_654_321, 100_000_000, 2_500_000_000])
@pytest.mark.parametrize("length", [64, 1000, 1500])
def test_the_mean_rate_is_exact(timed: Switch, rate: int, length: int) -> None:
    timed.set_rate(2, rate)
    timed.set_queue(2, packets=0)
    packet_ns = length * 8 * SECOND / rate
    count = 0
    horizon = min(SECOND, int(packet_ns * 2000))
    for step in range(20):
        fill(timed, 101, length=length)
        timed.run(until_ns=START + horizon * (step + 1) // 20)
        count += len(timed.take())
        timed.set_clock(timed.now)
    assert timed.stats(2).queues[0].depth_packets > 0 or horizon / packet_ns > 2000
    assert count == pytest.approx(horizon / packet_ns, abs=1.01, rel=1e-4)


def test_the_rate_holds_when_the_clock_comes_late(timed: Switch) -> None:
    timed.set_rate(2, 100_000_000)  # 80 us a packet
    timed.set_queue(2, packets=0)
    fill(timed, 2000)
    count = len(timed.take())
    for late in (3_000_000, 9_000_000, 1_000_000, 9_900_000):
        timed.set_clock(timed.now + late)
        timed.run()
        count += len(timed.take())
    assert count == pytest.approx((timed.now - START) / 80_000, abs=1.01)


def test_at_most_ten_milliseconds_are_caught_up(timed: Switch) -> None:
    timed.set_rate(2, 100_000_000)
    timed.set_queue(2, packets=0)
    fill(timed, 2000)
    timed.take()
    timed.set_clock(START + 500_000_000)
    timed.run()
    assert len(timed.take()) == pytest.approx(10_000_000 / 80_000, abs=2)


def test_a_slow_port_catches_up_two_packets(timed: Switch) -> None:
    timed.set_rate(2, 100_000)  # 80 ms a packet: more than 10 ms
    fill(timed, 10)
    timed.take()
    timed.set_clock(START + SECOND)
    timed.run()
    assert len(timed.take()) in (2, 3)


def test_idle_time_earns_no_burst(timed: Switch) -> None:
    timed.set_rate(2, 1_000_000)
    timed.set_clock(START + 100 * SECOND)
    fill(timed, 5)
    assert len(timed.take()) == 1


def test_overhead_counts_as_on_a_wire(timed: Switch) -> None:
    timed.set_rate(2, 1_000_000, overhead=24)
    fill(timed, 2, length=1000)
    assert timed.run() == START + 1024 * 8000


def test_a_rate_changes_while_packets_wait(timed: Switch) -> None:
    timed.set_rate(2, 1000)
    fill(timed, 20)
    assert len(timed.take()) == 1
    timed.set_rate(2, 8_000_000)  # 1 ms a packet; the debt of the slow rate is forgiven
    timed.run(until_ns=START + 5_500_000)
    assert len(timed.take()) == 6
    timed.set_rate(2, 0)
    timed.run()
    assert len(timed.take()) == 13


def test_the_highest_class_leaves_first(timed: Switch) -> None:
    timed.set_rate(2, 1_000_000)
    fill(timed, 1)
    for priority in (0, 3, 7, 1, 7, 0, 5):
        fill(timed, 1, priority)
    timed.take()
    timed.run(until_ns=START + SECOND)
    assert [frame[16] for _, frame in timed.take()] == [7, 7, 5, 3, 1, 0, 0]


def test_a_late_packet_of_a_high_class_overtakes_those_that_wait(timed: Switch) -> None:
    timed.set_rate(2, 1_000_000)
    fill(timed, 5, priority=1)
    timed.run(until_ns=START + 8_000_000)
    timed.take()
    fill(timed, 1, priority=6)
    timed.run(until_ns=START + 16_000_000)
    assert [frame[16] for _, frame in timed.take()] == [6]


def test_a_queue_drops_at_its_tail_by_packets(timed: Switch) -> None:
    timed.set_rate(2, 1000)
    timed.set_queue(2, 3, packets=4)
    fill(timed, 10, priority=3)
    queue = timed.stats(2).queues[3]
    assert (queue.depth_packets, queue.tail_drops_packets, queue.tail_drops_bytes) == (4, 5, 5000)
    assert timed.drops()["tail_drop"] == 5


def test_a_queue_drops_at_its_tail_by_bytes(timed: Switch) -> None:
    timed.set_rate(2, 1000)
    timed.set_queue(2, 3, bytes=2500)
    fill(timed, 5, priority=3)
    fill(timed, 1, priority=3, length=400)
    queue = timed.stats(2).queues[3]
    assert (queue.depth_packets, queue.depth_bytes, queue.tail_drops_packets) == (3, 2400, 2)
    assert (queue.max_depth_packets, queue.max_depth_bytes) == (3, 2400)


def test_limits_are_per_queue(timed: Switch) -> None:
    timed.set_rate(2, 1000)
    timed.set_queue(2, packets=2)
    for priority in range(8):
        fill(timed, 3, priority)
    assert [queue.depth_packets for queue in timed.stats(2).queues] == [2] * 8


def test_depth_is_before_the_push_and_after_the_pop(timed: Switch) -> None:
    timed.set_rate(2, 1_000_000)
    fill(timed, 5)
    timed.run(until_ns=START + SECOND)
    seen = [report(frame) for _, frame in timed.take()]
    assert [r.enq_qdepth for r in seen] == [0, 0, 1, 2, 3]
    assert [r.deq_qdepth for r in seen] == [0, 3, 2, 1, 0]
    assert [r.deq_timedelta for r in seen] == [0, 8000, 16000, 24000, 32000]


def test_an_unlimited_port_never_shows_a_queue(timed: Switch) -> None:
    fill(timed, 60)
    seen = [report(frame) for _, frame in timed.take()]
    assert len(seen) == 60 and {(r.enq_qdepth, r.deq_qdepth) for r in seen} == {(0, 0)}


@pytest.mark.parametrize(("unit", "threshold", "kept"), [(-1, 5, 5), (0, 250, 3), (6, 32, 21)])
def test_judgement_on_live_depth_overshoots_by_at_most_one_packet(
    timed: Switch, unit: int, threshold: int, kept: int
) -> None:
    timed.set_rate(2, 1000)
    timed.set_depth_unit(unit)
    fill(timed, 1, priority=7)  # the port is busy now
    for _ in range(40):
        timed.send(1, command("J", threshold, 2, length=100))
    timed.run()
    assert timed.stats(2).queues[2].depth_packets == kept
    assert timed.drops()["ingress_drop"] == 40 - kept


def test_a_starved_class_is_judged_on_its_own_depth(timed: Switch) -> None:
    timed.set_rate(2, 1_000_000)
    timed.set_queue(2, packets=0)
    for step in range(100):  # class 7 takes the whole rate
        timed.run(until_ns=START + step * 8_000_000)
        fill(timed, 1, priority=7)
        timed.send(1, command("J", 20, 0, length=1000))
        timed.run()
    assert timed.stats(2).queues[0].max_depth_packets == 20


def test_delays_are_counted_in_the_histogram(timed: Switch) -> None:
    timed.set_rate(2, 1_000_000)
    fill(timed, 4)
    timed.run(until_ns=START + SECOND)
    histogram = timed.stats(2).queues[0].delay_histogram
    assert sum(histogram) == 4 and histogram[0] == 1
    for delay in (8000, 16000, 24000):
        bucket = next(b for b in range(64) if delay_bucket_bounds(b)[0] <= delay < delay_bucket_bounds(b)[1])
        assert histogram[bucket] == 1


def test_bucket_bounds_join_without_a_gap() -> None:
    bounds = [delay_bucket_bounds(bucket) for bucket in range(64)]
    assert bounds[0] == (0, 16) and bounds[1] == (16, 20) and bounds[5] == (32, 40)
    assert all(before[1] == after[0] for before, after in pairwise(bounds))


def test_a_port_that_goes_down_drops_what_waits(timed: Switch) -> None:
    timed.set_rate(2, 1000)
    fill(timed, 6)
    timed.take()
    timed.set_port_up(2, False)
    assert timed.drops()["port_down"] == 5
    fill(timed, 1)
    assert timed.drops()["port_down"] == 6
    timed.set_port_up(2, True)
    timed.set_rate(2, 0)
    fill(timed, 1)
    assert len(timed.take()) == 1
    assert timed.port_events() == [(2, False), (2, True)]


def test_removing_a_port_drops_what_waits(timed: Switch) -> None:
    timed.set_rate(2, 1000)
    fill(timed, 6)
    timed.remove_port(2)
    assert timed.drops()["port_down"] == 5
    assert timed.run() is None
    fill(timed, 1)
    assert timed.drops()["no_port"] == 1


def test_a_new_program_drops_what_is_in_flight(timed: Switch, program) -> None:  # type: ignore[no-untyped-def]
    timed.set_rate(2, 1000)
    fill(timed, 6)
    timed.load_library(program)
    assert timed.drops()["program_change"] == 5
    timed.set_rate(2, 0)
    fill(timed, 1)
    assert len(timed.take()) == 2


def test_virtual_frames_nobody_takes_stay_in_their_queue(program) -> None:  # type: ignore[no-untyped-def]
    with Switch(frames=256) as switch:
        switch.load_library(program)
        switch.add_port(1)
        switch.add_port(2)
        switch.set_clock(START)
        fill(switch, 180)
        account = switch.account()
        assert (account.sent, account.queued) == (128, 52)
        assert len(switch.take()) == 128
        switch.run(until_ns=START + SECOND)
        assert len(switch.take()) == 52 and switch.account().queued == 0
