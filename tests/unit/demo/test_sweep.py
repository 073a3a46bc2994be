# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest

from traffic.exchanges.data import Dataset
from traffic.exchanges.networks import Recipe
from traffic.exchanges.sweep import Case, Lost, train

RECIPE = Recipe((40, 240, 4), batch=32, learning_rate=0.03, targets=(0.9,))


@pytest.fixture(scope="module")
def data() -> Dataset:
    random = np.random.default_rng(0)
    centres = random.normal(size=(4, 40)) * 0.5
    labels = random.integers(0, 4, 1200)
    inputs = (centres[labels] + random.normal(size=(1200, 40))).astype(np.float32)
    return Dataset(inputs[:1000], labels[:1000], inputs[1000:], labels[1000:])


def outcome(data: Dataset, lost: Lost, share: float, *, feedback: bool = False) -> float:
    return train(RECIPE, data, Case(lost, share, feedback), seed=1, rounds=12).accuracy


def test_losing_the_least_important_costs_less_than_losing_the_most_important(data: Dataset) -> None:
    whole = outcome(data, Lost.LEAST, 0.0)
    least = outcome(data, Lost.LEAST, 0.5, feedback=True)
    most = outcome(data, Lost.MOST, 0.9)
    assert whole > 0.75
    assert least > whole - 0.03
    assert most < least


def test_nothing_lost_is_the_same_whichever_would_be(data: Dataset) -> None:
    assert outcome(data, Lost.LEAST, 0.0) == outcome(data, Lost.RANDOM, 0.0) == outcome(data, Lost.MOST, 0.0)


def test_a_target_that_is_not_reached_is_none(data: Dataset) -> None:
    short = train(RECIPE, data, Case(Lost.LEAST, 0.0), seed=1, rounds=2)
    assert short.rounds_to == {0.9: None}


def test_of_a_servers_share_of_few_packets_nothing_is_lost(data: Dataset) -> None:
    small = Recipe((40, 96, 4), batch=32, learning_rate=0.1)
    whole, lossy = (train(small, data, Case(Lost.MOST, share), seed=1, rounds=4).accuracy for share in (0.0, 0.9))
    assert whole == lossy
