# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""MNIST-5k as the workers share it: read once, kept as arrays in a folder, dealt out by rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from traffic.model import WORKLOADS, Floats, Labels

TRAINING_SAMPLES = 4000
"""Of 5,000; the rest tells the accuracy."""
SPLIT_SEED = 20081108


@dataclass(frozen=True)
class Dataset:
    """Samples to train on, and others to tell the accuracy."""

    inputs: Floats
    labels: Labels
    test_inputs: Floats
    test_labels: Labels

    def batches(self, rank: int, workers: int, batch: int, seed: int) -> Iterator[tuple[Floats, Labels]]:
        """Yield a worker's batches for ever: its own share of the samples, in an order of its own."""
        mine = np.arange(rank, len(self.labels), workers)
        random = np.random.default_rng((seed, rank))
        while True:
            order = random.permutation(mine)
            for first in range(0, len(order) - batch + 1, batch):
                chosen = order[first : first + batch]
                yield self.inputs[chosen], self.labels[chosen]


def save(folder: Path) -> None:
    """Write MNIST-5k, shuffled the same way each time, as arrays that `load` maps."""
    folder.mkdir(parents=True, exist_ok=True)
    inputs, labels = WORKLOADS["mnist"].load()
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    np.save(folder / "inputs.npy", inputs[order])
    np.save(folder / "labels.npy", labels[order])


def load(folder: Path) -> Dataset:
    """Return the data that `save` wrote."""
    inputs = np.load(folder / "inputs.npy", mmap_mode="r")
    labels = np.load(folder / "labels.npy")
    cut = TRAINING_SAMPLES
    return Dataset(inputs[:cut], labels[:cut], inputs[cut:], labels[cut:])
