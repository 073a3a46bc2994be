# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""ABS-SGD: delayed synchronous SGD with adaptive batch size (arXiv 2308.15164)."""

from __future__ import annotations

from dataclasses import dataclass

from topologies.errors import UsageError
from traffic.training.algorithms.delayed import DelayedSGD
from traffic.training.algorithms.synchronous import at_least, balance
from traffic.training.effects import Accumulate, Effect, Flight, Worker


@dataclass(frozen=True, kw_only=True)
class AbsSGD(DelayedSGD):
    """Nobody waits: a worker adds up micro-batches at frozen weights until the sum in flight has come.

        phase t:  one sum of (S_{t-1}, m_{t-1}) over the workers is under way
                  S_t, m_t = sums of per-sample gradients at w_t and their number, at least one micro-batch
                  w_{t+1} = w_t - eta (sum over workers of S_{t-1}) / (sum of m_{t-1})

    Delay exactly one, weighted by samples, never two sums under way. A phase takes max(T_sync, slowest micro-batch).

    Triggers: back to back (`batch` = 0), the next sum starts when the last has come; target batch, it waits until the
    workers' shares of `batch` * workers samples are there as well, divided by speed as in LB-BSP, so that many cheap
    updates are not made of few samples each where the network is fast.

    `compensation`: gradients are taken not at w_t but where the worker expects the weights to be when the sum in flight
    has come, judging by its own share of it: w_t - compensation * eta S^i_{t-1} / m^i_{t-1}. Less than 1, since a
    worker's own share is noisier than the sum: the less the more workers there are. The idea is
    ACCO's (arXiv 2406.02613), which estimates with half batches in a second sum; here the estimate costs no
    communication and no samples.

    `fitted`: micro-batches are of at most `micro` samples and sized, by the worker's speed and the time that the sum
    before took, so that the last one ends with the sum: as few calls of the model as may be, and no phase prolonged.

    `local`: a worker steps by itself between micro-batches, w_i <- w_i - eta S / micro, so that its gradients are those
    of a path, and goes back to the common weights with the next sum. Sums, not weights, travel. The rule then scales
    with the samples (LINEAR, `reference` = workers * micro), so that the common step is the mean of the workers' paths.
    The part of its own path that is in flight is all there: `compensation` is 1 for all of it.

    `grace`: a worker whose micro-batch takes that many times longer than the sum did joins the next sum with what it
    has, which may be nothing, so that a stalled worker does not hold the others up.
    """

    micro: int = 16
    batch: int = 0
    compensation: float = 0.0
    fitted: bool = False
    local: bool = False
    grace: float = float("inf")
    name: str = "abs_sgd"

    def __post_init__(self) -> None:
        at_least(1, micro=self.micro)
        at_least(0, batch=self.batch, compensation=self.compensation, grace=self.grace)
        if self.compensation > 1:
            raise UsageError(f"compensation is at most 1, all of the way, not {self.compensation}")

    def gather(self, worker: Worker, flight: Flight) -> Effect:
        """Return what to compute while a sum is under way."""
        least = balance(self.batch * worker.size, worker.speeds, worker.size)[worker.rank]
        ahead = worker.carried if self.compensation else None
        trust = self.compensation * (worker.size if self.local else 1)  # its path is its own, not its share of the mean
        local = worker.rule.rate if self.local else 0.0
        return Accumulate(self.micro, flight, least, self.grace, ahead, trust, self.fitted, local)
