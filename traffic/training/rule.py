# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How a sum of gradients moves the weights: learning rate, momentum, weight decay."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import inf, sqrt

import numpy as np

from topologies.errors import UsageError
from traffic.training.share import Floats, Share, Total


class Scaling(Enum):
    """How the learning rate follows the batch that arrived."""

    CONSTANT = "constant"
    """Not at all."""
    LINEAR = "linear"
    """In proportion (Goyal et al., arXiv 1706.02677): a sum of gradients, in effect."""
    SQUARE_ROOT = "square_root"
    """With its root (Krizhevsky, arXiv 1404.5997): the variance of the step stays the same."""


@dataclass(frozen=True, slots=True)
class State:
    """A replica: its weights and what its rule remembers. Never changed in place."""

    weights: Floats
    """Flat, shape (values,)."""
    velocity: Floats | None = None
    updates: int = 0
    samples: float = 0.0
    """Samples that all updates were made of."""


@dataclass(frozen=True, slots=True)
class Rule:
    """Stochastic gradient descent on the mean gradient g of the samples that arrived.

        v <- momentum v + (g + decay w);    w <- w - rate(samples) v

    Momentum acts on the common gradient, never on a worker's own, so that replicas stay identical. Decay uses the
    weights of the update, not the older ones at which g was taken, and is no part of the sum: losing a packet loses no
    decay twice. A chunk of which nothing arrived keeps its weights and its velocity.
    """

    rate: float
    momentum: float = 0.0
    decay: float = 0.0
    scaling: Scaling = Scaling.CONSTANT
    reference: float = 1.0
    """Samples at which the scaled rate is `rate`."""

    def __post_init__(self) -> None:
        if not (0 <= self.rate < inf and 0 <= self.momentum < 1 and 0 <= self.decay < inf and self.reference > 0):
            raise UsageError(
                f"a rule has a rate and a decay from 0, a momentum from 0 to less than 1 and a reference above 0, not "
                f"{self.rate}, {self.decay}, {self.momentum} and {self.reference}"
            )

    def rate_of(self, samples: float) -> float:
        """Return the learning rate for a gradient of so many samples."""
        if self.scaling is Scaling.LINEAR:
            return self.rate * samples / self.reference
        if self.scaling is Scaling.SQUARE_ROOT:
            return self.rate * sqrt(samples / self.reference)
        return self.rate

    def ahead(self, state: State, share: Share, trust: float) -> Floats:
        """Return the weights `trust` of the way to where they would be if a share were the whole sum."""
        there = self.step(state, Total(share)).weights
        return there if trust == 1 else state.weights + np.float32(trust) * (there - state.weights)

    def step(self, state: State, total: Total) -> State:
        """Return the replica after an update; one of no samples changes nothing but the count of updates."""
        arrived = total.samples
        updates, samples = state.updates + 1, state.samples + arrived
        if arrived == 0:
            return State(state.weights, state.velocity, updates, samples)
        direction, there = total.mean()
        if self.decay:
            direction = direction + np.float32(self.decay) * state.weights
        velocity = state.velocity
        if self.momentum:
            direction = direction if velocity is None else np.float32(self.momentum) * velocity + direction
        step = np.float32(self.rate_of(arrived)) * direction
        if there is not None:
            step *= there
            old = 0 if velocity is None else velocity
            direction = np.where(there, direction, old).astype(np.float32)
        return State(state.weights - step, direction if self.momentum else None, updates, samples)
