# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Local SGD whose averaging is delayed."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traffic.training.algorithms.synchronous import at_least
from traffic.training.effects import Compute, Offer, Own, Start, Wait, Work, Worker
from traffic.training.share import Floats


@dataclass(frozen=True)
class DelayedAveraging:
    """Every worker steps by its own gradients; the average of the workers' weights arrives `steps` local steps late.

        x_i <- x_i - eta g(x_i; batch)        `steps` times, while the average a of the x_i at their start travels
        x_i <- a + (x_i - x_i at the start)

    (Overlap-Local-SGD, arXiv 2002.09539; DaSGD, arXiv 2006.00441.) The replica is the average. A phase takes
    max(T_sync, the slowest worker's steps). Momentum is each worker's own. A chunk of the average that nobody delivered
    keeps its weights, common and own.
    """

    batch: int
    steps: int
    name: str = "local_delayed"

    def __post_init__(self) -> None:
        at_least(1, batch=self.batch, steps=self.steps)

    def work(self, worker: Worker) -> Work:
        """Train until told to end."""
        local = worker.local or worker.state
        while not worker.ending:
            begun = local.weights
            flight = yield Start((yield Offer(begun, self.batch * self.steps)))
            for _ in range(self.steps):
                share = yield Compute(self.batch, local.weights)
                local = worker.rule.step(local, (yield Own(share)))
            total = yield Wait(flight)
            average, there = total.mean()
            moved = local.weights - begun
            worker.local = local = replace(local, weights=_where(there, average, begun) + moved)
            worker.state = replace(
                worker.state,
                weights=_where(there, average, worker.state.weights),
                updates=worker.state.updates + 1,
                samples=worker.state.samples + total.samples,
            )
            worker.hear(total)
        total = yield Wait((yield Start((yield Offer(local.weights, self.batch * self.steps)))))
        average, there = total.mean()
        worker.state = replace(worker.state, weights=_where(there, average, worker.state.weights))


def _where(there: NDArray[np.bool_] | None, average: Floats, else_: Floats) -> Floats:
    """Return the average where there is one."""
    return average if there is None else np.where(there, average, else_)
