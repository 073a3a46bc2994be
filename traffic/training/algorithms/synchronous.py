# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Synchronous SGD, with equal batches and with batches balanced by measured speed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from topologies.errors import UsageError
from traffic.training.effects import Compute, Start, Wait, Work, Worker


@dataclass(frozen=True)
class SynchronousSGD:
    """Every worker computes `batch` samples, then all wait for the sum.

        w_{t+1} = w_t - eta g(w_t; M),    M = workers * batch

    A phase takes as long as the slowest worker's batch and the sum (Chen et al., arXiv 1604.00981).
    """

    batch: int
    name: str = "synchronous"

    def __post_init__(self) -> None:
        at_least(1, batch=self.batch)

    def samples(self, worker: Worker) -> int:
        """Return the samples of this worker's next batch."""
        return self.batch

    def work(self, worker: Worker) -> Work:
        """Train until told to end."""
        while not worker.ending:
            share = yield Compute(self.samples(worker))
            worker.apply((yield Wait((yield Start(share)))))


@dataclass(frozen=True)
class BalancedSGD(SynchronousSGD):
    """LB-BSP: the same samples in all, divided in proportion to the workers' latest speeds.

    The update is that of synchronous SGD; a phase takes the common compute time and the sum (Chen et al., SoCC'20).
    """

    name: str = "lb_bsp"

    def samples(self, worker: Worker) -> int:
        """Return the samples of this worker's next batch."""
        return balance(self.batch * worker.size, worker.speeds, worker.size)[worker.rank]


def at_least(least: float, **given: float) -> None:
    """Raise UsageError for a number that is smaller, or none."""
    for name, number in given.items():
        if not number >= least:
            raise UsageError(f"{name} is at least {least:g}, not {number}")


def balance(samples: int, speeds: Sequence[float], size: int) -> list[int]:
    """Divide samples in proportion to speeds, to the sample (largest remainders first); equally while none is known.

    A rank without a speed (0) gets nothing, unless none has one.
    """
    weights = list(speeds) if any(speeds) else [1.0] * size
    exact = [samples * weight / sum(weights) for weight in weights]
    parts = [int(part) for part in exact]
    by_remainder = sorted(range(len(parts)), key=lambda rank: (parts[rank] - exact[rank], rank))
    for rank in by_remainder[: samples - sum(parts)]:
        parts[rank] += 1
    return parts
