# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A training that was interrupted goes on as if it had not been, its pending gradients included."""

from pathlib import Path

import numpy as np
import pytest

from tests.unit.training.problems import ALGORITHMS, quadratic
from topologies.errors import UsageError
from traffic.training import checkpoint
from traffic.training.algorithms import AbsSGD
from traffic.training.cluster import changing
from traffic.training.effects import Algorithm
from traffic.training.lossy import Loss
from traffic.training.rule import Rule
from traffic.training.virtual import VirtualTraining


def training(algorithm: Algorithm) -> VirtualTraining:
    rule = Rule(0.05, momentum=0.5, decay=0.01)
    return VirtualTraining(
        quadratic(), algorithm, rule, changing(3, 8.0), lambda _: 0.7, seed=4, overhead=1, loss=Loss(0.1)
    )


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: f"{algorithm.name}")
def test_a_resumed_training_is_the_uninterrupted_one(algorithm: Algorithm, tmp_path: Path) -> None:
    whole = training(algorithm)
    for _ in range(20):
        whole.advance()
    first = training(algorithm)
    for _ in range(9):
        first.advance()
    for rank, found in enumerate(first.checkpoints()):
        checkpoint.save(found, tmp_path / f"rank{rank}.npz")
    second = training(algorithm)
    second.resume([checkpoint.load(tmp_path / f"rank{rank}.npz") for rank in range(3)])
    for _ in range(11):
        second.advance()
    np.testing.assert_array_equal(second.state.weights, whole.state.weights)
    assert second.time == pytest.approx(whole.time)
    assert second.state.samples == whole.state.samples


def test_the_pending_sum_is_part_of_it(tmp_path: Path) -> None:
    run = training(AbsSGD(micro=4))
    for _ in range(5):
        run.advance()
    for rank, found in enumerate(run.checkpoints()):
        checkpoint.save(found, tmp_path / f"rank{rank}.npz")
        assert checkpoint.load(tmp_path / f"rank{rank}.npz").carried.samples > 0
    assert not list(tmp_path.glob("*.part"))


def test_what_is_no_checkpoint_is_said_in_one_line(tmp_path: Path) -> None:
    bad = tmp_path / "bad.npz"
    bad.write_bytes(b"PK\x03\x04 no archive")
    with pytest.raises(UsageError, match="is no checkpoint"):
        checkpoint.load(bad)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        checkpoint.load(tmp_path / "none.npz")
