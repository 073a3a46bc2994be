# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Give TCP its best: a short trial of every congestion control, least RTO and queue depth under the load itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product

from gradlane.demo.bed import TcpTuning

CONGESTION = ("cubic", "bbr")
LEAST_RTO_MS = (5, 200)
QUEUE_PACKETS = (64, 256, 1000)


def candidates() -> list[TcpTuning]:
    """Return every setting, those of one queue depth together: a policy is installed less often."""
    return [
        TcpTuning(congestion, least_rto_ms, queue_packets)
        for queue_packets, congestion, least_rto_ms in product(QUEUE_PACKETS, CONGESTION, LEAST_RTO_MS)
    ]


def best(trials: Mapping[TcpTuning, float]) -> TcpTuning:
    """Return the setting of the shortest mean round."""
    return min(trials, key=lambda tuning: trials[tuning])


def tune(trial: Callable[[TcpTuning], float], among: Sequence[TcpTuning]) -> tuple[TcpTuning, dict[TcpTuning, float]]:
    """Try every setting; `trial` returns its mean round in seconds. Returns the best, and what each took."""
    trials = {tuning: trial(tuning) for tuning in among}
    return best(trials), trials
