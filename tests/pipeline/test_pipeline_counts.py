# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Counters: rows that decide, and the balance of what came and what became of it."""

from __future__ import annotations

from random import Random

from tests.pipeline.bench import Bench
from tests.pipeline.packets import RECEIVER, RECEIVER6, Gradient, gradient
from tests.pipeline.policies import ROUTED, gradient_class, judge, route4, route6
from tests.pipeline.reference import CPU_PORT, Range
from tests.pipeline.test_pipeline_model import random_packet, random_policy


def test_rows_that_decide_are_counted(bench: Bench) -> None:
    front, judged = gradient_class(6, layer=Range(0, 3)), judge("keep", importance=Range(100, 255))
    to4, to6 = route4(RECEIVER, 32, next_hop=2), route6(RECEIVER6, 128, next_hop=2)
    bench.install(ROUTED.with_rows(front, judged, to4, to6))
    for layer, importance, version in ((0, 10, 4), (1, 200, 4), (2, 200, 6), (9, 200, 4)):
        bench.send(1, bytes(gradient(Gradient(layer=layer, importance=importance), version=version)))
    assert [bench.target.row_counts(row) for row in (front, judged, to4, to6)] == [3, 3, 3, 1]


def test_what_was_received_was_kept_marked_trimmed_or_dropped(bench: Bench) -> None:
    random = Random(2026)
    bench.install(random_policy(random))
    for _ in range(80):
        port, frame = random_packet(random)
        if port == CPU_PORT or bench.target.carries(frame):
            bench.target.send(port, frame)
    sums = {name: sum(cells.values()) for name, cells in bench.counts().items()}
    assert sums["received"] == sums["kept"] + sums["marked"] + sums["trimmed"] + sums["dropped"]
    assert sums["kept_band"] == sums["kept"] + sums["marked"]
