# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What is compared: algorithms with their batch and options, on a model, on a cluster."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from tests.benchmarks.abs_sgd.compiled import CompiledClassification
from traffic.convolution import ResidualCNN, pool
from traffic.model import MLP, WORKLOADS, Floats, Labels
from traffic.training.algorithms import (
    AbsSGD,
    BalancedSGD,
    DelayedAveraging,
    DelayedBalanced,
    DelayedSGD,
    SynchronousSGD,
)
from traffic.training.cluster import CLUSTERS, Cluster
from traffic.training.effects import Algorithm
from traffic.training.problem import Classification, Network
from traffic.training.rule import Rule, Scaling

SAMPLES = 256
"""Of all workers together at the batch as published; what a worker of full speed does of it takes one second."""
HELD_OUT = 1000
OVERHEAD = 2.0
"""What a call of the model costs besides its samples, in samples."""
LOCAL_STEPS = 4
CAP = 50_000
"""Samples after which a run is given up, 12 epochs and a half, where T_sync is at most T_compute."""

MODELS: dict[str, Callable[[int], Network]] = {
    "mlp": lambda seed: MLP((196, 64, 32, 10), seed),
    "cnn": lambda seed: ResidualCNN(8, seed),
}
TARGETS = {"mlp": 0.90, "cnn": 0.90}
"""Accuracy on the samples held out."""


@cache
def _images() -> tuple[Floats, Labels]:
    images, labels = WORKLOADS["mnist"].load()
    pooled = pool(images)
    return (pooled - pooled.mean()) / pooled.std(), labels


@cache
def problem(model: str, seed: int) -> Classification:
    """Return MNIST-5k, pooled to 14x14 pixels and standardised, with a model; the seed decides weights and split."""
    images, labels = _images()
    order = np.random.default_rng((7, seed)).permutation(len(labels))
    return CompiledClassification(model, MODELS[model](seed), images[order], labels[order], HELD_OUT)


@dataclass(frozen=True)
class Setting:
    """Where training runs."""

    model: str
    workers: int
    cluster: str
    ratio: float
    """T_sync over T_compute, the time that a worker of full speed needs for its part of SAMPLES."""
    modelled: bool = False
    """Whether each sum takes as long as the transport model says, with that ratio on average; else all the same."""

    @property
    def batch(self) -> int:
        """Return a worker's batch as published."""
        return SAMPLES // self.workers

    @property
    def cap(self) -> int:
        """Return the samples after which a run is given up: where phases are long, updates are few a sample."""
        return round(CAP * max(1.0, self.ratio))

    def machines(self) -> Cluster:
        """Return the cluster; one without a name of its own is named by its speeds: "1 1 0.5 0.25"."""
        if self.cluster not in CLUSTERS:
            return Cluster.of(self.cluster, [float(self.batch) * float(share) for share in self.cluster.split()])
        return CLUSTERS[self.cluster](self.workers, float(self.batch))


@dataclass(frozen=True)
class Method:
    """An algorithm and its numbers, but for the step size. `batch` is a worker's."""

    family: str
    batch: int = 0
    micro: int = 0
    compensation: float = 0.0
    scaling: Scaling = Scaling.CONSTANT

    def algorithm(self) -> Algorithm:
        """Return the algorithm."""
        match self.family:
            case "synchronous":
                return SynchronousSGD(self.batch)
            case "lb_bsp":
                return BalancedSGD(self.batch)
            case "delayed":
                return DelayedSGD(self.batch)
            case "delayed_balanced":
                return DelayedBalanced(self.batch)
            case "local_delayed":
                return DelayedAveraging(self.micro, max(1, self.batch // self.micro))
            case "abs_sgd":
                return AbsSGD(micro=self.micro)
            case "abs_sgd_fitted" | "abs_sgd_compensated":
                return AbsSGD(micro=self.micro, batch=self.batch, compensation=self.compensation, fitted=True)
            case "abs_sgd_local":
                return AbsSGD(micro=self.micro, compensation=self.compensation, local=True, fitted=True)
        raise ValueError(self.family)

    def rule(self, step: float, workers: int) -> Rule:
        """Return the update rule at a step size, which is that of SAMPLES where it scales with the batch.

        Of workers that step by themselves it is the step of a micro-batch, and the common step the mean of their paths.
        """
        if self.family == "abs_sgd_local":
            return Rule(step, scaling=Scaling.LINEAR, reference=workers * self.micro)
        return Rule(step, scaling=self.scaling, reference=SAMPLES)

    @property
    def alone(self) -> bool:
        """Whether what a worker computes depends on its own part of the batch, not only on the whole."""
        return self.family in ("local_delayed", "abs_sgd_compensated", "abs_sgd_local")


FROZEN_BASELINES = ("synchronous", "lb_bsp", "delayed", "delayed_balanced")
"""Baselines whose workers compute a phase's gradients at the same weights."""
BASELINES = (*FROZEN_BASELINES, "local_delayed")
"""What ABS-SGD is compared with."""
FROZEN_OURS = ("abs_sgd", "abs_sgd_fitted", "abs_sgd_compensated")
OURS = (*FROZEN_OURS, "abs_sgd_local")
