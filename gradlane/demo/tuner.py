# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Give TCP its best: every congestion control, least RTO and queue depth is tried under the load itself.

One trial is luck, of the hash draw above all, so the better ones are tried again, in other draws and for more rounds
(successive halving, arXiv 1502.07943).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import mean

from gradlane.demo.bed import TcpTuning

CONGESTION = ("cubic", "bbr")
LEAST_RTO_MS = (5, 200)
QUEUE_PACKETS = (64, 256, 1000)


@dataclass(frozen=True)
class Turn:
    """How many settings are tried, the best so far, in a hash draw of its own, and for how many rounds each."""

    settings: int
    rounds: int


Rounds = list[float]


def candidates() -> list[TcpTuning]:
    """Return every setting, those of one queue depth together: a policy is installed less often."""
    return [
        TcpTuning(congestion, least_rto_ms, queue_packets)
        for queue_packets, congestion, least_rto_ms in product(QUEUE_PACKETS, CONGESTION, LEAST_RTO_MS)
    ]


def turns(settings: int, rounds: int) -> list[Turn]:
    """Return the turns among so many settings of which the first has so many rounds of each."""
    return [Turn(settings, rounds), Turn(min(settings, 4), 2 * rounds), Turn(min(settings, 2), 4 * rounds)]


def best(found: Mapping[TcpTuning, Rounds]) -> TcpTuning:
    """Return the setting of the shortest mean round among those that were tried most often."""
    most = max(len(rounds) for rounds in found.values())
    return min((t for t in found if len(found[t]) == most), key=lambda tuning: mean(found[tuning]))


def tune(
    trial: Callable[[TcpTuning, int, int], Sequence[float]], among: Sequence[TcpTuning], rounds: int
) -> tuple[TcpTuning, dict[TcpTuning, Rounds]]:
    """Try every setting; returns the best, and the rounds of all.

    `trial`, told which turn it is and how many rounds, returns these in seconds.
    """
    found: dict[TcpTuning, Rounds] = {tuning: [] for tuning in among}
    for number, turn in enumerate(turns(len(among), rounds)):
        keep = sorted(among, key=lambda tuning: mean(found[tuning]))[: turn.settings] if number else among
        among = [tuning for tuning in among if tuning in keep]
        for tuning in among:
            found[tuning] += trial(tuning, number, turn.rounds)
    return best(found), found
