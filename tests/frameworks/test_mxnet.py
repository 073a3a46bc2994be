# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""MXNet over Gradlane, several processes on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.jobs import (
    assert_a_killed_rank_is_told,
    assert_classifier_was_trained,
    assert_values_were_lost,
    needs,
    network,
    worked,
)
from topologies.errors import UsageError

needs("mxnet", "MXNet")

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("kind", ["trainer", "store"])
def test_a_step_takes_the_mean_of_all_ranks_gradients(kind: str, tmp_path: Path) -> None:
    assert_classifier_was_trained(worked("gluon_step.py", "4", kind, folder=tmp_path), ranks=2, rounds=4)


def test_replicas_are_the_same_bits_when_values_are_lost(tmp_path: Path) -> None:
    options = ("--tolerance", "0.4")
    assert_values_were_lost(worked("gluon_step.py", "4", "trainer", folder=tmp_path, options=options))


def test_a_killed_worker_ends_the_training_with_a_clear_error(tmp_path: Path) -> None:
    arguments = "500", "trainer", "kill"
    assert_a_killed_rank_is_told("gluon_step.py", *arguments, folder=tmp_path, error="CollectiveError: ")


def test_a_store_that_is_misused_says_so_in_one_line() -> None:
    import mxnet as mx

    from traffic.collectives.job import Job
    from traffic.frameworks.mxnet import Dist_Gradlane

    store = Dist_Gradlane(Job(number=1, workers=(f"{network()}.1",), collective="ring"), rank=0)
    try:
        ones, out = mx.nd.ones((3,)), mx.nd.zeros((3,))
        with pytest.raises(UsageError, match="key 'weight' is pulled, but nothing was pushed"):
            store.pull("weight", out)
        store.push("weight", ones)
        with pytest.raises(UsageError, match="key 'weight' is pushed again before it was pulled"):
            store.push("weight", ones)
        store.pull("weight", out)
        assert out.asnumpy().tolist() == [1, 1, 1]
        for _ in range(2):
            store.broadcast("weight", ones * 2, out)
        assert out.asnumpy().tolist() == [2, 2, 2]
        with pytest.raises(UsageError, match="one key at a time"):
            store.push(["weight", "bias"], [ones, ones])
    finally:
        store.close()
