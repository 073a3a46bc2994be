# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What is trained: a function of flat weights whose gradients are sums over samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from traffic.model import Floats as AnyFloats
from traffic.model import Labels, Parameter
from traffic.training.share import Floats

Indices = NDArray[np.int64]


class Problem(Protocol):
    """A sum over `population` samples of functions of `values` weights."""

    values: int
    population: int

    def initial(self) -> Floats:
        """Return the weights to start from, shape (values,)."""

    def gradient_sum(self, weights: Floats, samples: Indices) -> Floats:
        """Return the sum of the gradients of these samples, shape (values,)."""


class Network(Protocol):
    """A model of `traffic.model`'s kind: tensors, and mean gradients of them."""

    values: list[AnyFloats]
    parameters: list[Parameter]

    def gradients(self, inputs: AnyFloats, labels: Labels) -> Iterator[tuple[Parameter, AnyFloats]]:
        """Yield the mean gradient of every parameter."""

    def accuracy(self, inputs: AnyFloats, labels: Labels) -> float:
        """Return the share of samples that are classified right."""


class Classification:
    """A network and the data to train it on, with a part held out."""

    def __init__(self, network: Network, inputs: AnyFloats, labels: Labels, held_out: int) -> None:
        """Hold out the last `held_out` samples; the order is the caller's."""
        self._network = network
        cut = len(labels) - held_out
        self._seen, self._held_out = (inputs[:cut], labels[:cut]), (inputs[cut:], labels[cut:])
        self.population = cut
        sizes = [parameter.size for parameter in network.parameters]
        self._places = [slice(end - size, end) for size, end in zip(sizes, np.cumsum(sizes), strict=True)]
        self.values = sum(sizes)
        self._initial: Floats = np.concatenate([value.reshape(-1) for value in network.values]).astype(np.float32)

    def initial(self) -> Floats:
        """Return the network's weights as it was given."""
        return self._initial

    def _set(self, weights: Floats) -> None:
        self._network.values[:] = [
            weights[place].reshape(parameter.shape)
            for place, parameter in zip(self._places, self._network.parameters, strict=True)
        ]

    def gradient_sum(self, weights: Floats, samples: Indices) -> Floats:
        """Return the sum of the gradients of these samples, shape (values,)."""
        self._set(weights)
        inputs, labels = self._seen
        found = np.empty(self.values, np.float32)
        for parameter, gradient in self._network.gradients(inputs[samples], labels[samples]):
            np.multiply(gradient.reshape(-1), len(samples), out=found[self._places[parameter.tensor]])
        return found

    def accuracy(self, weights: Floats) -> float:
        """Return the share of the samples held out that are classified right."""
        self._set(weights)
        return self._network.accuracy(*self._held_out)


@dataclass(frozen=True)
class Quadratic:
    """F(w) = 1/2 sum of curvature * w^2, seen through samples that lie around its minimum 0.

    Sample i has the gradient curvature * (w - x_i); the x_i average 0, so L = max(curvature) and the variance of a
    sample's gradient, `noise`, are known exactly.
    """

    curvature: Floats
    """Shape (values,)."""
    samples: Floats
    """The x_i, shape (population, values), of mean 0."""
    start: Floats

    @property
    def values(self) -> int:
        """Weights."""
        return self.curvature.size

    @property
    def population(self) -> int:
        """Samples."""
        return len(self.samples)

    @property
    def smoothness(self) -> float:
        """L, the largest curvature."""
        return float(self.curvature.max())

    @property
    def noise(self) -> Floats:
        """Variance of a sample's gradient, for each value: shape (values,)."""
        variance: Floats = ((self.curvature * self.samples) ** 2).mean(axis=0)
        return variance

    def initial(self) -> Floats:
        """Return the weights to start from."""
        return self.start

    def loss(self, weights: Floats) -> float:
        """Return F(w), whose least value is 0."""
        return float(0.5 * (self.curvature * weights**2).sum(dtype=np.float64))

    def gradient(self, weights: Floats) -> Floats:
        """Return the gradient of F."""
        gradient: Floats = self.curvature * weights
        return gradient

    def gradient_sum(self, weights: Floats, samples: Indices) -> Floats:
        """Return the sum of the gradients of these samples."""
        found: Floats = self.curvature * (len(samples) * weights - self.samples[samples].sum(axis=0))
        return found


@dataclass(frozen=True)
class Timing:
    """No model at all: for a run of which only the times and the numbers of samples are of interest."""

    values: int = 0
    population: int = 1

    def initial(self) -> Floats:
        """Return no weights."""
        return np.zeros(0, np.float32)

    def gradient_sum(self, weights: Floats, samples: Indices) -> Floats:
        """Return no gradient."""
        return np.zeros(0, np.float32)


class Stream:
    """Samples in random order: epoch after epoch, or independent draws."""

    def __init__(self, population: int, seed: int, *, independent: bool = False) -> None:
        self._population, self._seed, self._independent = population, seed, independent
        self.taken = 0
        self._epoch = -1
        self._order = np.zeros(0, np.int64)

    def take(self, samples: int) -> Indices:
        """Return the next samples' indices, shape (samples,)."""
        if self._population == 1:
            self.taken += samples
            return np.zeros(0, np.int64)
        parts = []
        while samples:
            epoch, place = divmod(self.taken, self._population)
            if epoch != self._epoch:
                random = np.random.default_rng((self._seed, epoch))
                draw = random.integers(0, self._population, self._population) if self._independent else None
                self._order = random.permutation(self._population) if draw is None else draw
                self._epoch = epoch
            part = self._order[place : place + samples]
            parts.append(part)
            samples -= len(part)
            self.taken += len(part)
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
