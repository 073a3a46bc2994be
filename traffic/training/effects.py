# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What an algorithm asks of the clock that drives it.

An algorithm is a generator for each worker: it yields one of these and is sent the answer. It knows no sockets, no time
and no model, so that the same code runs under the virtual clock and under the real one.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Protocol

from traffic.training.rule import Rule, State
from traffic.training.share import Floats, Total


class Pending(Protocol):
    """A share of which the clock may not have computed the gradients yet."""

    @property
    def samples(self) -> float:
        """Samples behind it."""


class Flight(Protocol):
    """A sum over all workers that is under way."""


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute the gradients of `samples` samples at `weights` (the replica's unless given). Answer: Pending."""

    samples: int
    weights: Floats | None = None


@dataclass(frozen=True, slots=True)
class Start:
    """Begin the sum of every worker's share, and come back at once. Answer: Flight."""

    share: Pending


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Compute micro-batches of `micro` samples until `until` is done and `least` samples are there. Answer: Pending.

    With `fitted` they are of at most `micro`, and sized so that the last one ends when the flight probably does
    (traffic/training/fitting.py). At least one, unless it takes `grace` times as long as the flight did beyond the
    flight's end: then what is there by then, be it nothing, is the answer, and that micro-batch is discarded when it is
    done. With `ahead` the gradients are taken `trust` of the way to where the replica would be if that share were all
    of the sum in flight.
    """

    micro: int
    until: Flight
    least: float = 0
    grace: float = float("inf")
    ahead: Pending | None = None
    trust: float = 1.0
    fitted: bool = False
    local: float = 0.0
    """Step size of the worker's own steps: each micro-batch is taken where the one before has led, by its sum over
    `micro`."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait for the end of a sum. Answer: Total."""

    flight: Flight


@dataclass(frozen=True, slots=True)
class Own:
    """Ask for a share's gradients as if it were the sum. Answer: Total."""

    share: Pending


@dataclass(frozen=True, slots=True)
class Offer:
    """Make a share of given values, which stand for `samples`. Answer: Pending."""

    values: Floats
    samples: float


Effect = Compute | Start | Accumulate | Wait | Own | Offer
Work = Generator[Effect, Any, None]


@dataclass
class Worker:
    """What an algorithm knows of its worker."""

    rank: int
    size: int
    """Workers at the start."""
    rule: Rule
    state: State
    carried: Pending
    """Gradients computed and not yet in a sum: the part of a checkpoint that belongs to this worker."""
    gathered: Pending | None = None
    """Gradients computed while `carried` is in a sum under way: what is left to go on from should that sum fail."""
    local: State | None = None
    """A replica of its own, where the algorithm lets workers drift apart."""
    speeds: tuple[float, ...] = ()
    """Samples per second of every worker, as the latest sum told."""
    ending: bool = False
    """Whether to begin no further phase."""

    def apply(self, total: Total) -> None:
        """Move the replica by a sum."""
        self.state = self.rule.step(self.state, total)
        self.hear(total)

    def hear(self, total: Total) -> None:
        """Take what a sum tells besides gradients."""
        self.speeds = total.speeds
        self.ending = self.ending or total.ending


class Algorithm(Protocol):
    """One way to train."""

    @property
    def name(self) -> str:
        """As results call it."""

    def work(self, worker: Worker) -> Work:
        """Train until `worker.ending`, and leave no gradient behind."""
