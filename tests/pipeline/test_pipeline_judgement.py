# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Table judge: keep, mark, trim or drop, by class, importance and the depth of the egress queue."""

from __future__ import annotations

import pytest

from tests.pipeline.bench import Bench, cell, drop_cell
from tests.pipeline.packets import ACK, BFLOAT16, DATA, TRIMMED, Frame, Gradient, gradient
from tests.pipeline.policies import PORT_MAC, RECEIVER_MAC, ROUTED, gradient_class, judge
from tests.pipeline.reference import PROTECTED, REASONS, RETRANSMISSION, Range, Ternary, ones_complement

IMPORTANCE, FULL, NOT_ECT = REASONS["importance"], REASONS["full"], REASONS["not_ect"]


def _routed(frame: Frame) -> bytes:
    return bytes(frame.but(hops=63, source_mac=PORT_MAC + 2, destination_mac=RECEIVER_MAC + (2 << 8)))


def test_the_least_important_are_dropped_and_counted_by_band(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(judge("drop_judged", importance=Range(0, 99), reason=IMPORTANCE)))
    for importance in (0, 40, 99, 100, 255):
        left = bench.send(1, bytes(gradient(Gradient(importance=importance))))
        assert bool(left) == (importance >= 100)
    bench.check_counts()
    counts = bench.counts()
    assert counts["dropped"] == {drop_cell(2, 0, IMPORTANCE, band): 1 for band in (0, 40, 99)}
    assert counts["kept_band"] == {cell(2, 0) * 8 + 3: 1, cell(2, 0) * 8 + 7: 1}


@pytest.mark.parametrize("spared", [
    Gradient(importance=0, flags=RETRANSMISSION), Gradient(importance=0, flags=PROTECTED),
    Gradient(importance=0, type=ACK), Gradient(importance=0, type=TRIMMED, count=8),
])  # fmt: skip
def test_retransmissions_protected_packets_and_messages_are_worth_most(bench: Bench, spared: Gradient) -> None:
    bench.install(ROUTED.with_rows(judge("drop_judged", importance=Range(0, 254), reason=IMPORTANCE)))
    sent = gradient(spared)
    assert bench.send(1, bytes(sent)) == [(2, _routed(sent))]
    assert bench.send(1, bytes(Frame(b"ordinary", destination_port=5001))) != []
    assert bench.send(1, bytes(gradient(Gradient(importance=0)))) == []
    bench.check_counts()


def test_ordinary_traffic_is_judged_at_the_top_importance(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(judge("drop_judged", importance=Range(255, 255), reason=FULL)))
    assert bench.send(1, bytes(Frame(b"ordinary", destination_port=5001))) == []
    bench.check_counts()
    assert bench.counts()["dropped"] == {drop_cell(2, 0, FULL): 1}


def test_a_class_is_judged_by_its_own_rows(bench: Bench) -> None:
    rows = [
        gradient_class(6, priority=2, layer=Range(0, 0)),
        gradient_class(1, priority=1),
        judge("drop_judged", traffic_class=Ternary(1, 7), reason=IMPORTANCE),
    ]
    bench.install(ROUTED.with_rows(*rows))
    assert bench.send(1, bytes(gradient(Gradient(layer=0)))) != []
    assert bench.send(1, bytes(gradient(Gradient(layer=1)))) == []
    bench.check_counts()


def test_the_row_of_higher_priority_judges(bench: Bench) -> None:
    rows = [judge("drop_judged", priority=1, reason=FULL), judge("keep", priority=2, importance=Range(200, 255))]
    bench.install(ROUTED.with_rows(*rows))
    assert bench.send(1, bytes(gradient(Gradient(importance=200)))) != []
    assert bench.send(1, bytes(gradient(Gradient(importance=199)))) == []
    bench.check_counts()


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("ecn", [1, 2, 3])
@pytest.mark.parametrize("action", ["mark_or_keep", "mark_or_drop"])
def test_a_sender_that_understands_marks_is_told(bench: Bench, version: int, ecn: int, action: str) -> None:
    bench.install(ROUTED.with_rows(judge(action)))
    sent = gradient(version=version, ecn=ecn)
    assert bench.send(1, bytes(sent)) == [(2, _routed(sent.but(ecn=3)))]
    bench.check_counts()
    assert bench.counts()["marked"] == {cell(2, 0): 1}


@pytest.mark.parametrize("version", [4, 6])
def test_one_that_does_not_is_kept_or_dropped_as_the_action_says(bench: Bench, version: int) -> None:
    rows = [judge("mark_or_keep", importance=Range(0, 9)), judge("mark_or_drop", importance=Range(10, 19))]
    bench.install(ROUTED.with_rows(*rows))
    kept = gradient(Gradient(importance=5), version=version)
    assert bench.send(1, bytes(kept)) == [(2, _routed(kept))]
    assert bench.send(1, bytes(gradient(Gradient(importance=15), version=version))) == []
    bench.check_counts()
    assert bench.counts()["kept"] == {cell(2, 0): 1}
    assert bench.counts()["dropped"] == {drop_cell(2, 0, NOT_ECT, 15): 1}


@pytest.mark.parametrize("options", [b"", b"\1" * 8])
@pytest.mark.parametrize("tag", [None, 9])
def test_trimming_over_ipv4_leaves_headers_that_are_right(bench: Bench, tag: int | None, options: bytes) -> None:
    bench.install(ROUTED.with_rows(judge("trim", trim_class=7)))
    header = Gradient(count=300, importance=3, sequence=77)
    sent = gradient(header, vlan=tag, options=options)
    trimmed = gradient(Gradient(type=TRIMMED, count=300, importance=3, sequence=77), vlan=tag, options=options)
    expected = bytearray(_routed(trimmed))
    expected[-34:-32] = b"\0\0"  # no UDP checksum
    assert bench.send(1, bytes(sent)) == [(2, bytes(expected))]
    bench.check_counts()
    assert bench.counts()["trimmed"] == {cell(2, 0): 1}
    assert bench.counts()["queue_delay"] == {cell(2, 7): 1}


def test_trimming_over_ipv6_renews_the_udp_checksum(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(judge("trim", trim_class=7)))
    sent = gradient(Gradient(count=13, data_type=BFLOAT16), version=6)
    trimmed = gradient(Gradient(type=TRIMMED, count=13, data_type=BFLOAT16), version=6)
    assert bench.send(1, bytes(sent)) == [(2, _routed(trimmed))]
    bench.check_counts()


def test_a_udp_checksum_of_zero_is_sent_in_its_other_form_over_ipv6(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(judge("trim", trim_class=7)))
    trimmed = bytes(gradient(Gradient(type=TRIMMED, count=4), version=6))
    # Let the sequence number make up what the sum lacks.
    lacking = int.from_bytes(trimmed[60:62], "big")
    sent = gradient(Gradient(count=4, sequence=lacking), version=6)
    ((_, got),) = bench.send(1, bytes(sent))
    assert got[60:62] == b"\xff\xff"
    pseudo = got[22:54] + (40).to_bytes(4, "big") + b"\0\0\0\x11"
    assert ones_complement(pseudo + got[54:]) == 0


@pytest.mark.parametrize("frame", [
    gradient(Gradient(count=0)), gradient(Gradient(type=ACK)), Frame(b"ordinary", destination_port=5001),
    gradient(Gradient(type=DATA, count=8, values=b"odd")),
])  # fmt: skip
def test_what_has_no_values_to_cut_is_dropped_instead(bench: Bench, frame: Frame) -> None:
    bench.install(ROUTED.with_rows(judge("trim", trim_class=7)))
    assert bench.send(1, bytes(frame)) == []
    bench.check_counts()
    assert sum(bench.counts()["dropped"].values()) == 1


def test_a_judged_drop_without_a_reason_counts_as_importance(bench: Bench) -> None:
    bench.install(ROUTED.with_rows(judge("drop_judged", reason=0)))
    assert bench.send(1, bytes(gradient())) == []
    bench.check_counts()
    assert bench.counts()["dropped"] == {drop_cell(2, 0, IMPORTANCE, 128): 1}


# Depth. Time stands still on the softswitch, so queues behind a slow port only fill.


def _slow(bench: Bench, *rows: object) -> Bench:
    bench.install(ROUTED.with_rows(*rows))  # type: ignore[arg-type]
    bench.target.switch.set_rate(2, 1_000_000)
    return bench


@pytest.mark.parametrize("threshold", [0, 40, 500])
def test_a_burst_overshoots_its_threshold_by_at_most_one_packet(softswitch_bench: Bench, threshold: int) -> None:
    bench = _slow(softswitch_bench, judge("drop_judged", depth=Range(threshold, 0xFFFF), reason=IMPORTANCE))
    frame = bytes(gradient(Gradient(count=300)))
    deepest = 0
    for _ in range(60):
        bench.target.send(1, frame)
        deepest = max(deepest, bench.target.switch.stats(2).queues[0].depth_bytes)
    assert threshold * 64 <= deepest <= threshold * 64 + 64 + len(frame)
    assert sum(bench.counts()["dropped"].values()) > 0


def test_a_starved_lower_class_is_still_judged(softswitch_bench: Bench) -> None:
    bench = _slow(
        softswitch_bench,
        gradient_class(7, priority=2, layer=Range(0, 0)),
        gradient_class(1, priority=1),
        judge("drop_judged", traffic_class=Ternary(1, 7), depth=Range(100, 0xFFFF), reason=IMPORTANCE),
    )
    high, low = (bytes(gradient(Gradient(layer=layer, count=100))) for layer in (0, 5))
    for _ in range(100):
        bench.target.send(1, high)
    for _ in range(100):
        bench.target.send(1, low)
    counts = bench.counts()
    kept, dropped = counts["kept"][cell(2, 1)], counts["dropped"][drop_cell(2, 1, IMPORTANCE, 128)]
    assert kept + dropped == 100
    assert (kept - 1) * len(low) < 100 * 64 + 64, "not one of them has left, and yet they are judged"
    assert bench.target.switch.stats(2).queues[1].sent_packets == 0


def test_the_depth_judged_is_that_of_the_packets_own_queue(softswitch_bench: Bench) -> None:
    bench = _slow(
        softswitch_bench,
        gradient_class(6, priority=2, layer=Range(0, 0)),
        gradient_class(1, priority=1),
        judge("drop_judged", depth=Range(50, 0xFFFF), reason=FULL),
    )
    for _ in range(50):
        bench.target.send(1, bytes(gradient(Gradient(layer=3, count=100))))
    assert bench.counts()["dropped"]
    before = sum(bench.counts()["dropped"].values())
    bench.target.send(1, bytes(gradient(Gradient(layer=0, count=100))))
    assert sum(bench.counts()["dropped"].values()) == before


def test_random_depths_are_judged_as_the_model_says(softswitch_bench: Bench) -> None:
    bench = _slow(
        softswitch_bench,
        judge("trim", priority=4, importance=Range(0, 90), depth=Range(20, 60), trim_class=5),
        judge("mark_or_drop", priority=3, importance=Range(0, 180), depth=Range(40, 0xFFFF)),
        judge("drop_judged", priority=2, depth=Range(120, 0xFFFF), reason=FULL),
    )
    expected: dict[str, int] = {"kept": 0, "marked": 0, "trimmed": 0, "dropped": 0}
    for i in range(200):
        frame = bytes(gradient(Gradient(importance=i * 37 % 256, count=20 + i % 50), ecn=i % 3))
        (outcome,) = bench._reference.process(1, frame, bench.depth)
        bench.target.send(1, frame)
        for (name, _), count in outcome.counted.items():
            if name in expected:
                expected[name] += count
    counts = bench.counts()
    assert {name: sum(counts[name].values()) for name in expected} == expected
    assert all(expected.values())


def test_bmv2_judges_a_starved_class_by_what_it_has_kept(bmv2_bench: Bench) -> None:
    target = bmv2_bench.target
    if missing := target.cannot_slow_down():
        pytest.skip(missing)
    rows = [gradient_class(1), judge("drop_judged", depth=Range(20, 0xFFFF), reason=IMPORTANCE)]
    bmv2_bench.install(ROUTED.with_rows(*rows))
    target.slow_down(2)
    target.send_together(1, [bytes(gradient(Gradient(sequence=i))) for i in range(60)])
    counts = bmv2_bench.counts()
    kept, dropped = counts["kept"][cell(2, 1)], counts["dropped"][drop_cell(2, 1, IMPORTANCE, 128)]
    assert kept + dropped == 60
    assert 20 <= kept <= 25, "the queue is served once a second, and yet it is judged"
