# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradlane.demo import statistics
from gradlane.demo.statistics import TOGETHER, Segment, Training

FAIR = {"goodput_bps": 1e6, "delivered": 0.98, "complete": 0.9, "completion_p50_s": 0.05, "completion_p99_s": 0.1}


def segment(rounds: list[float], accuracies: list[tuple[int, float]], **loss: Any) -> Segment:
    cpu = {"worker": 0.1, "server": 0.1, "switches": 0.2}
    return Segment(np.array(rounds), accuracies, 1e6, loss, dict(FAIR), cpu, True)


def training(method: str, seed: int, seconds: float) -> Training:
    first = segment([seconds] * 3, [(2, 0.5), (3, 0.91)])
    return Training(method, "heavy", seed, [first, segment([2 * seconds] * 2, [(5, 0.93)])])


def test_time_to_accuracy_is_the_sum_of_the_rounds_until_it_was_first_reached() -> None:
    one = training("gloo", 1, 1.0)
    assert one.seconds_to(0.9) == pytest.approx(3.0)
    assert one.seconds_to(0.92) == pytest.approx(7.0)
    assert one.seconds_to(0.95) is None


def test_a_round_ends_when_the_slowest_worker_has_ended_it() -> None:
    answers = [
        {"begin": 10.0, "ends": [11.0, 12.0], "accuracies": [], "bytes": 4, "lost": {}, "cpu": 0.1, "digest": "a"},
        {"begin": 10.5, "ends": [11.5, 14.0], "accuracies": [], "bytes": 8, "lost": {}, "cpu": 0.3, "digest": "a"},
    ]
    joined = Segment.of(answers, [{"cpu": 0.2}, {}], {}, 0.5, 2)
    assert joined.rounds.tolist() == [1.0, 2.5]
    assert joined.bytes_per_round == 3.0
    assert joined.cpu == {"worker": 0.3, "server": 0.2, "switches": 0.5, TOGETHER: pytest.approx(0.8)}
    assert joined.same


def test_a_target_that_most_seeds_miss_has_no_time() -> None:
    row = statistics.row([training("gloo", seed, 1.0) for seed in (1, 2, 3)], (0.9, 0.95))
    assert row["tta_s"] == {"0.9": pytest.approx(3.0), "0.95": None}
    assert row["rounds_to"]["0.9"] == 3
    assert row["round_s"]["p50"] == pytest.approx(1.0)
    assert row["accuracy"]["std"] == pytest.approx(0.0)


def test_a_sampled_method_takes_the_rounds_of_an_exact_one() -> None:
    few = Training("ps", "heavy", 1, [segment([2.0, 4.0], [(2, 0.4)])])
    row = statistics.row([few], (0.9, 0.95), reference=[training("p3", 1, 1.0)])
    assert row["composed"]
    assert row["tta_s"] == {"0.9": pytest.approx(9.0), "0.95": None}
    assert row["accuracy"]["mean"] > 0.7


def test_losses_are_added_up_over_segments() -> None:
    parts = [segment([1.0], [(1, 0.5)], by_layer=[[10, 1], [5, 0]], by_importance=[[1, 1]] * 8) for _ in range(2)]
    row = statistics.row([Training("gradlane", "heavy", 1, parts)], (0.9,))
    assert row["loss"]["by_layer"] == [[20, 2], [10, 0]]
    assert row["loss"]["by_importance"] == [[2, 2]] * 8


def test_the_best_ratio_is_the_one_against_the_fastest_baseline() -> None:
    rows = [
        statistics.row([training(name, 1, seconds)], (0.9, 0.92))
        for name, seconds in (("gloo", 4.0), ("p3", 2.0), ("topk", 1.5), ("gradlane", 1.0))
    ]
    ratios = statistics.ratios(rows, "gradlane", ("gloo", "ps", "p3"), ("topk",))
    assert ratios["tta"]["heavy"] == {
        "gloo": pytest.approx(4.0),
        "p3": pytest.approx(2.0),
        "topk": pytest.approx(1.5),
    }
    assert ratios["best"] == pytest.approx(2.0)
    assert ratios["p99"]["heavy"]["p3"] == pytest.approx(2.0)


def test_background_counts_the_bursts_that_were_due_in_time() -> None:
    answers = [
        {"sent": [(0, 10, 1.0), (1, 10, 2.0), (2, 10, 2.1), (3, 10, 9.0)], "arrived": []},
        {"sent": [], "arrived": [(0, 10, 1.1), (1, 5, 2.3), (2, 10, 2.3), (3, 10, 9.1)]},
    ]
    figures = statistics.background_figures(answers, 0.5, 2.5)
    assert figures["delivered"] == pytest.approx(25 / 30)
    assert figures["goodput_bps"] == pytest.approx(25 * 1440 * 8 / 2.0)
    assert figures["complete"] == pytest.approx(2 / 3)
    assert figures["completion_p50_s"] == pytest.approx(0.2)
    assert figures["completion_p99_s"] == float("inf")


def test_background_that_falls_behind_by_more_than_a_tenth_is_unfair() -> None:
    assert statistics.unfair(FAIR, FAIR) == []
    slower = FAIR | {"completion_p99_s": 0.13}
    assert statistics.unfair(slower, FAIR) == ["completion_p99_s 130 ms instead of 100 ms"]
    assert len(statistics.unfair(FAIR | {"delivered": 0.8}, FAIR)) == 1
    assert statistics.unfair({}, FAIR) == statistics.unfair(FAIR, {}) == []
