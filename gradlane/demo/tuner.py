# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Give TCP its best: every congestion control, least RTO and queue depth is tried under the load itself.

One trial is luck, so the best quarter is tried again (as in successive halving, arXiv 1502.07943).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from statistics import mean

from gradlane.demo.bed import TcpTuning

CONGESTION = ("cubic", "bbr")
LEAST_RTO_MS = (5, 200)
QUEUE_PACKETS = (64, 256, 1000)
TURNS = 2
"""How often the best are tried."""
KEPT = 4
"""One in so many is tried again."""

Rounds = list[float]


def candidates() -> list[TcpTuning]:
    """Return every setting, those of one queue depth together: a policy is installed less often."""
    return [
        TcpTuning(congestion, least_rto_ms, queue_packets)
        for queue_packets, congestion, least_rto_ms in product(QUEUE_PACKETS, CONGESTION, LEAST_RTO_MS)
    ]


def trials(settings: int) -> int:
    """Return how many trials so many settings take."""
    return sum(-(-settings // KEPT**turn) for turn in range(TURNS))


def best(found: Mapping[TcpTuning, Rounds]) -> TcpTuning:
    """Return the setting of the shortest mean round among those that were tried most often."""
    most = max(len(rounds) for rounds in found.values())
    return min((t for t in found if len(found[t]) == most), key=lambda tuning: mean(found[tuning]))


def tune(
    trial: Callable[[TcpTuning, int], Sequence[float]], among: Sequence[TcpTuning]
) -> tuple[TcpTuning, dict[TcpTuning, Rounds]]:
    """Try every setting; `trial`, told which turn it is, returns its rounds in seconds. Returns the best, and all."""
    found: dict[TcpTuning, Rounds] = {tuning: [] for tuning in among}
    left = list(among)
    for turn in range(TURNS):
        for tuning in left:
            found[tuning] += trial(tuning, turn)
        keep = sorted(left, key=lambda tuning: mean(found[tuning]))[: -(-len(left) // KEPT)]
        left = [tuning for tuning in left if tuning in keep]
    return best(found), found
