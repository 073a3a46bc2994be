# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The convergence statement of docs/abs_sgd.md, measured on a quadratic of which every constant is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.unit.training.problems import quadratic
from traffic.training.algorithms import AbsSGD, SynchronousSGD
from traffic.training.cluster import changing, homogeneous, ladder
from traffic.training.effects import Algorithm
from traffic.training.lossy import Loss
from traffic.training.problem import Quadratic
from traffic.training.rule import Rule
from traffic.training.share import chunks_of, spread
from traffic.training.virtual import VirtualTraining

UPDATES, SEEDS = 60, 12


@pytest.mark.parametrize("loss", [0.0, 0.2])
@pytest.mark.parametrize("step", [0.05, 0.3, 0.618])
@pytest.mark.parametrize("cluster", [ladder(3, 8.0), changing(3, 8.0)], ids=lambda cluster: cluster.name)
def test_the_measured_gradients_stay_under_the_bound(cluster, step: float, loss: float) -> None:  # type: ignore[no-untyped-def]
    problem = quadratic()
    smoothness, noise = problem.smoothness, problem.noise
    left, right = [], []
    for seed in range(SEEDS):
        run = VirtualTraining(
            problem, AbsSGD(micro=2), Rule(step), cluster, lambda _: 1.0,
            seed=seed, independent=True, loss=Loss(loss, seed) if loss else None,
        )  # fmt: skip
        run.advance()  # phase 0 has no sum: w_1 = w_0
        norms, variances = [], []
        for _ in range(UPDATES):
            norms.append(float((problem.gradient(run.state.weights) ** 2).sum()))
            run.advance()
            total = run.finished[-1].total
            assert total is not None
            counts = spread(total.share.counts, problem.values)
            variances.append(float((noise[counts > 0] / counts[counts > 0]).sum()))
        gone = loss ** len(cluster.machines)
        eta_l = step * smoothness
        start = 2 * problem.loss(problem.initial()) / (step * UPDATES * (1 - gone))
        right.append(start + (eta_l / (1 - gone) + eta_l**2) * float(np.mean(variances)))
        left.append(float(np.mean(norms)))
    assert np.mean(left) <= np.mean(right)
    assert np.mean(left) > 0.05 * np.mean(right)  # and the bound is no idle one


def grows(algorithm: Algorithm, step: float) -> bool:
    problem: Quadratic = replace(quadratic(), samples=np.zeros((8, 800), np.float32))
    run = VirtualTraining(problem, algorithm, Rule(step), homogeneous(2, 8.0), lambda _: 1.0)
    for _ in range(300):
        run.advance()
    return problem.loss(run.state.weights) > problem.loss(problem.initial())


@pytest.mark.parametrize(
    ("algorithm", "limit"),
    [(SynchronousSGD(4), 2.0), (AbsSGD(micro=4), 1.0), (AbsSGD(micro=4, compensation=1.0), 2.0)],
    ids=["synchronous", "delayed", "compensated"],
)
def test_the_stability_limit_is_where_predicted(algorithm: Algorithm, limit: float) -> None:
    """Steps times L: 2 without delay; 1 with a delay of one; 2 again where workers look ahead and agree."""
    assert not grows(algorithm, 0.95 * limit)
    assert grows(algorithm, 1.05 * limit)


def test_counts_are_by_chunk() -> None:
    assert chunks_of(quadratic().values) == 3
