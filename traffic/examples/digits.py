# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the examples share: scikit-learn's handwritten digits, dealt to the ranks, and errors as one line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from topologies.errors import GradlaneError
from traffic.model import WORKLOADS, Floats, Labels

TESTED = 397
"""Of 1,797 digits, those that nobody trains on."""
BATCH = 50


@dataclass(frozen=True)
class Digits:
    """A rank's share; images of shape (samples, 64) from 0 to 1."""

    images: Floats
    labels: Labels
    test_images: Floats
    test_labels: Labels

    @staticmethod
    def of(rank: int, ranks: int) -> Digits:
        """Return every so many-th digit."""
        images, labels = WORKLOADS["digits"].load()
        order = np.random.default_rng(0).permutation(len(images))
        mine, test = order[TESTED + rank :: ranks], order[:TESTED]
        whole = mine[: len(order[TESTED:]) // ranks // BATCH * BATCH]
        return Digits(images[whole], labels[whole], images[test], labels[test])

    def batches(self, epochs: int) -> Iterator[tuple[Floats, Labels]]:
        """Yield batches of 50 images and labels, in a new order every epoch."""
        random = np.random.default_rng(1)
        for _ in range(epochs):
            for chosen in random.permutation(len(self.images)).reshape(-1, BATCH):
                yield self.images[chosen], self.labels[chosen]

    def accuracy(self, logits: Floats) -> float:
        """Return the share of test digits that the logits, of shape (samples, 10), tell right."""
        return float((logits.argmax(axis=1) == self.test_labels).mean())


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Print what a user can understand as one line, and end with its exit code."""
    try:
        yield
    except GradlaneError as error:
        sys.stderr.write(f"error: {error}\n")  # in one piece: other ranks say so at the same time
        sys.exit(error.exit_code)
