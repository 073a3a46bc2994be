# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Workers of unequal speed under a virtual clock: how long samples take, on each of several kinds of cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Speed:
    """A worker's speed over time, in samples per second: constant in segments that repeat for ever."""

    seconds: NDArray[np.float64]
    """Length of each segment, shape (segments,)."""
    rates: NDArray[np.float64]
    """Speed in each segment, shape (segments,), all above 0."""
    _ends: NDArray[np.float64] = field(init=False, repr=False)
    _done: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if len(self.seconds) != len(self.rates) or not (self.seconds > 0).all() or not (self.rates > 0).all():
            raise ValueError("a speed needs as many segments as rates, all of them above 0")
        object.__setattr__(self, "_ends", np.concatenate([[0.0], np.cumsum(self.seconds)]))
        object.__setattr__(self, "_done", np.concatenate([[0.0], np.cumsum(self.seconds * self.rates)]))

    @staticmethod
    def constant(rate: float) -> Speed:
        """Return a speed that never changes."""
        return Speed(np.ones(1), np.full(1, rate))

    def done(self, time: float) -> float:
        """Return the samples that fit into the time from 0 on."""
        if len(self.rates) == 1:
            return time * float(self.rates[0])
        periods, rest = divmod(time, float(self._ends[-1]))
        return periods * float(self._done[-1]) + float(np.interp(rest, self._ends, self._done))

    def finish(self, start: float, samples: float) -> float:
        """Return when so many samples are done that were begun at `start`."""
        if len(self.rates) == 1:
            return start + samples / float(self.rates[0])
        periods, rest = divmod(self.done(start) + samples, float(self._done[-1]))
        return periods * float(self._ends[-1]) + float(np.interp(rest, self._done, self._ends))


@dataclass(frozen=True)
class Machine:
    """A worker's machine: its speed, and what happens to it."""

    speed: Speed
    joins: float = 0.0
    """When it is there, seconds."""
    dies: float = inf


@dataclass(frozen=True)
class Cluster:
    """Machines that train together. The unit of speed is up to the caller."""

    name: str
    machines: tuple[Machine, ...]

    @staticmethod
    def of(name: str, rates: list[float]) -> Cluster:
        """Make a cluster of constant speeds, in samples per second."""
        return Cluster(name, tuple(Machine(Speed.constant(rate)) for rate in rates))


def homogeneous(workers: int, rate: float) -> Cluster:
    """Return machines that all have the full rate."""
    return Cluster.of("homogeneous", [rate] * workers)


def ladder(workers: int, rate: float) -> Cluster:
    """Return machines whose rates go down in even steps to a quarter."""
    return Cluster.of("ladder", [float(share) * rate for share in np.linspace(1, 0.25, workers)])


def straggler(workers: int, rate: float) -> Cluster:
    """Return machines one of which has half the rate."""
    return Cluster.of("straggler", [rate] * (workers - 1) + [rate / 2])


def changing(workers: int, rate: float, mean_seconds: float = 5.0, seed: int = 0) -> Cluster:
    """Return machines each of which draws a new rate, a quarter to all of `rate`, at times of its own.

    The time between draws is exponential with the mean `mean_seconds`.
    """
    random = np.random.default_rng(seed)
    speeds = (
        Speed(random.exponential(mean_seconds, 512) + 1e-3, rate * random.uniform(0.25, 1, 512)) for _ in range(workers)
    )
    return Cluster("changing", tuple(Machine(speed) for speed in speeds))


CLUSTERS: dict[str, Callable[[int, float], Cluster]] = {
    "homogeneous": homogeneous,
    "ladder": ladder,
    "straggler": straggler,
    "changing": changing,
}
"""By name: machines of full rate, and the three kinds of heterogeneous cluster."""
