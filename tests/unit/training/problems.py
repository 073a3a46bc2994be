# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Small problems of which everything is known."""

import numpy as np

from traffic.training.algorithms import (
    AbsSGD,
    BalancedSGD,
    DelayedAveraging,
    DelayedBalanced,
    DelayedSGD,
    SynchronousSGD,
)
from traffic.training.effects import Algorithm
from traffic.training.problem import Quadratic

ALGORITHMS: tuple[Algorithm, ...] = (
    SynchronousSGD(8),
    BalancedSGD(8),
    DelayedSGD(8),
    DelayedBalanced(8),
    DelayedAveraging(4, 2),
    AbsSGD(micro=4),
    AbsSGD(micro=4, batch=8),
    AbsSGD(micro=4, compensation=0.75),
    AbsSGD(micro=16, fitted=True),
    AbsSGD(micro=2, local=True, compensation=1.0),
)


def quadratic(values: int = 800, population: int = 256, noise: float = 1.0, seed: int = 3) -> Quadratic:
    """Return a quadratic of three chunks whose largest curvature is 1."""
    random = np.random.default_rng(seed)
    samples = noise * random.standard_normal((population, values))
    return Quadratic(
        np.linspace(0.05, 1, values).astype(np.float32),
        (samples - samples.mean(axis=0)).astype(np.float32),
        random.standard_normal(values).astype(np.float32),
    )
