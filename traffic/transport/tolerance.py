# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How much of a message may be missing: per job, layer class and direction, fixed, scheduled, or kept to a budget."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from traffic.transport.endpoint import priority_of


class Direction(Enum):
    """Which way a message goes."""

    PUSH = "push"
    """A worker's gradient. What is lost is one worker's."""
    PULL = "pull"
    """An aggregate or parameters. Each value stands for many workers."""


@dataclass(frozen=True)
class Tolerance:
    """A job's tolerances, as shares of a message's values.

    `by_class` holds for push messages of layers of that class and comes before `push`. `schedule` scales all of it:
    pairs of (first round, factor), in order of rounds; a factor of 0 at first and 1 later is a warm-up without loss.
    """

    push: float = 0.1
    pull: float = 0.0
    by_class: Mapping[int, float] = field(default_factory=dict)
    schedule: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        for share in (self.push, self.pull, *self.by_class.values()):
            if not 0 <= share <= 1:
                raise ValueError(f"a tolerance is a share from 0 to 1, not {share}")
        if list(self.schedule) != sorted(self.schedule) or not all(0 <= by < math.inf for _, by in self.schedule):
            raise ValueError("a schedule is in the order of its rounds, and its factors are finite and not negative")

    def of(self, direction: Direction, layer: int, round_number: int) -> float:
        """Return what a message may lose."""
        share = self.pull
        if direction is Direction.PUSH:
            share = self.by_class.get(priority_of(layer), self.push)
        factor = 1.0
        for first, scheduled in self.schedule:
            if first <= round_number:
                factor = scheduled
        return min(share * factor, 1.0)


@dataclass
class LossBudget:
    """Keeps the loss of a whole training within a budget, and spends it where it hurts least.

    Losing much early, or while the gradient changes fast, costs accuracy that later rounds do not win back; what is
    saved then is spent when training is calm. A phase counts as fast where the norm of the gradient, averaged over
    `window` rounds, changed by more than the share `fast` since the window before (the critical regimes of Accordion,
    arXiv 2010.16248).

    The sum of the shares lost never exceeds `budget * rounds`, whatever the network does, as long as no message loses
    more than `tolerance` said.
    """

    budget: float
    """Mean share of the values that may be lost."""
    rounds: int
    """Length of the training."""
    most: float = 0.6
    """Of one round."""
    window: int = 10
    fast: float = 0.1
    strictness: float = 0.25
    """Share of the budget that a fast round may use."""
    spent: float = 0.0
    done: int = 0
    calm: bool = False
    _norms: list[float] = field(default_factory=list)
    _before: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.budget <= 1 or self.rounds < 1 or self.window < 1:
            raise ValueError("a budget is a share from 0 to 1 of at least one round")

    @property
    def tolerance(self) -> float:
        """What the next round may lose."""
        left = max(self.budget * self.rounds - self.spent, 0.0)
        if not self.calm:
            return min(self.budget * self.strictness, left)
        return min(left / max(self.rounds - self.done, 1), self.most, left)

    def observe(self, norm: float, lost: float) -> None:
        """Take a round's norm of the aggregated gradient, and the share of the values that was lost."""
        self.spent += lost
        self.done += 1
        self._norms.append(norm)
        if len(self._norms) == self.window:
            mean = sum(self._norms) / self.window
            if self._before:
                self.calm = abs(mean - self._before) <= self.fast * self._before
            self._before = mean
            self._norms.clear()
