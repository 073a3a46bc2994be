# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How many rounds a training needs when gradients lose packets, without a network: what loss itself costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from traffic.collectives.plan import parameter_server
from traffic.exchanges.data import Dataset
from traffic.exchanges.networks import Recipe, cross_entropy
from traffic.model import Floats
from traffic.packer import PROTECTED_BELOW, mean_magnitudes
from traffic.wire import IPV4_VALUES


class Lost(Enum):
    """Which packets of a tensor get lost."""

    LEAST = "least important"
    RANDOM = "random"
    MOST = "most important"
    """The negative control."""


@dataclass(frozen=True)
class Case:
    """What gets lost of every tensor's share of a server, if that has 8 packets or more, in every round."""

    lost: Lost
    share: float
    """Of the packets of each worker's gradient."""
    feedback: bool = False
    """What was lost or left out is added to the next round's (EF-SGD, arXiv 1901.09847)."""
    left_out: float = 0.0
    """Share of the mean's packets, the least important, that nobody gets."""

    def __str__(self) -> str:
        means = f", {self.left_out:.0%} of the means left out" if self.left_out else ""
        return f"{self.share:.0%} lost, {self.lost.value}{means}{', error feedback' if self.feedback else ''}"


@dataclass(frozen=True)
class Outcome:
    """What a training came to."""

    rounds_to: dict[float, int | None]
    """By target accuracy; None: not within the rounds."""
    accuracy: float
    """The mean of the last five."""


def train(
    recipe: Recipe,
    data: Dataset,
    case: Case,
    *,
    seed: int,
    rounds: int,
    workers: int = 4,
    every: int = 2,
) -> Outcome:
    """Train as the demo's workers do, while gradients get lost, without a network."""
    network = recipe.build(seed)
    batches = [data.batches(rank, workers, recipe.batch, seed) for rank in range(workers)]
    random = np.random.default_rng((seed, 1))
    velocity = [np.zeros_like(value) for value in network.values]
    owed = [[np.zeros_like(value) for value in network.values] for _ in range(workers)]
    owed_means = [np.zeros_like(value) for value in network.values]
    accuracies: list[tuple[int, float]] = []
    for number in range(1, rounds + 1):
        totals = [np.zeros_like(value) for value in network.values]
        for rank in range(workers):
            inputs, labels = next(batches[rank])
            _, error = cross_entropy(network.forward(np.asarray(inputs)), labels)
            for layer in reversed(range(len(network.layers))):
                parts, error = network.layers[layer].backward(error)
                gradient = np.concatenate([part.reshape(-1) for part in parts]) + owed[rank][layer]
                arrived = ~_lost_values(gradient, case.lost, case.share, random)
                if case.feedback:
                    owed[rank][layer] = np.where(arrived, np.float32(0), gradient)
                totals[layer] += np.where(arrived, gradient, np.float32(0))
        for layer, (value, total, speed) in enumerate(zip(network.values, totals, velocity, strict=True)):
            mean = total / np.float32(workers) + owed_means[layer]
            arrived = ~_lost_values(mean, Lost.LEAST, case.left_out, random)
            if case.feedback:
                owed_means[layer] = np.where(arrived, np.float32(0), mean)
            speed *= np.float32(recipe.momentum)
            speed += np.where(arrived, mean, np.float32(0))
            value -= np.float32(recipe.learning_rate) * speed
        if number % every == 0:
            accuracies.append((number, network.accuracy(data.test_inputs, data.test_labels)))
    return Outcome(
        {target: next((number for number, a in accuracies if a >= target), None) for target in recipe.targets},
        float(np.mean([accuracy for _, accuracy in accuracies[-5:]])),
    )


def _lost_values(gradient: Floats, lost: Lost, share: float, random: np.random.Generator) -> NDArray[np.bool_]:
    """Return which values of a flat gradient get lost, whole packets at a time, of each server's share by itself."""
    values = np.zeros(gradient.size, np.bool_)
    for first, end in _SHARES.cut(gradient.size, IPV4_VALUES, 0).tolist():
        magnitudes = mean_magnitudes(gradient[first:end], IPV4_VALUES)
        packets = np.zeros(len(magnitudes), np.bool_)
        if len(packets) >= PROTECTED_BELOW:
            order = random.permutation(len(packets)) if lost is Lost.RANDOM else np.argsort(magnitudes, kind="stable")
            chosen = order[::-1] if lost is Lost.MOST else order
            packets[chosen[: int(share * len(packets))]] = True
        values[first:end] = np.repeat(packets, IPV4_VALUES)[: end - first]
    return values


_SHARES = parameter_server(workers=1, servers=2)
"""How the demo's tensors are cut."""
SWEEP: Sequence[Case] = (
    Case(Lost.LEAST, 0.0),
    Case(Lost.LEAST, 0.1),
    Case(Lost.LEAST, 0.2, feedback=True),
    Case(Lost.LEAST, 0.4, feedback=True),
    Case(Lost.LEAST, 0.4, feedback=True, left_out=0.3),
    Case(Lost.LEAST, 0.6),
    Case(Lost.LEAST, 0.6, feedback=True),
    Case(Lost.LEAST, 0.6, feedback=True, left_out=0.45),
    Case(Lost.LEAST, 15 / 16, feedback=True, left_out=0.75),
    Case(Lost.RANDOM, 0.6),
    Case(Lost.MOST, 0.1),
    Case(Lost.MOST, 0.6),
)
"""The last two are the negative control."""
