# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Delayed synchronous SGD: the sum of one phase's gradients travels while the next phase's are computed."""

from __future__ import annotations

from dataclasses import dataclass

from traffic.training.algorithms.synchronous import at_least, balance
from traffic.training.effects import Compute, Effect, Flight, Start, Wait, Work, Worker


@dataclass(frozen=True)
class DelayedSGD:
    """Batches of a fixed size, updates one phase late.

        w_{t+1} = w_t - eta g(w_{t-1}; M),    M = workers * batch

    A phase takes max(T_sync, the slowest worker's batch) (Pipe-SGD, arXiv 1811.03619; AMB-DG, arXiv 2012.08616, is the
    same update with batches of a fixed time). The end adds the last gradients to a sum of their own.
    """

    batch: int
    name: str = "delayed"

    def __post_init__(self) -> None:
        at_least(1, batch=self.batch)

    def gather(self, worker: Worker, flight: Flight) -> Effect:
        """Return what to compute while a sum is under way."""
        return Compute(self.batch)

    def work(self, worker: Worker) -> Work:
        """Train until told to end."""
        while not worker.ending:
            flight = yield Start(worker.carried)
            worker.gathered = share = yield self.gather(worker, flight)
            total = yield Wait(flight)
            worker.carried, worker.gathered = share, None
            worker.apply(total)
        worker.apply((yield Wait((yield Start(worker.carried)))))


@dataclass(frozen=True)
class DelayedBalanced(DelayedSGD):
    """The same samples in all, divided in proportion to the workers' latest speeds as in LB-BSP (Chen et al., SoCC'20).

        w_{t+1} = w_t - eta g(w_{t-1}; M),    M = workers * batch

    A phase takes max(T_sync, the common compute time).
    """

    name: str = "delayed_balanced"

    def gather(self, worker: Worker, flight: Flight) -> Effect:
        """Return what to compute while a sum is under way."""
        return Compute(balance(self.batch * worker.size, worker.speeds, worker.size)[worker.rank])
