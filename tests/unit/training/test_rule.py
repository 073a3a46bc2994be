# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The update rule: rate by batch, momentum, decay."""

import numpy as np
import pytest

from traffic.training.rule import Rule, Scaling, State
from traffic.training.share import Share, Total


def total(gradient: float, samples: float) -> Total:
    return Total(Share.of(np.full(2, gradient * samples, np.float32), samples))


@pytest.mark.parametrize(
    ("scaling", "rate"), [(Scaling.CONSTANT, 0.1), (Scaling.LINEAR, 0.4), (Scaling.SQUARE_ROOT, 0.2)]
)
def test_the_rate_follows_the_batch_that_arrived(scaling: Scaling, rate: float) -> None:
    rule = Rule(0.1, scaling=scaling, reference=8)
    assert rule.rate_of(32) == pytest.approx(rate)
    moved = rule.step(State(np.zeros(2, np.float32)), total(1.0, 32))
    np.testing.assert_allclose(moved.weights, -rate, rtol=1e-6)
    assert (moved.updates, moved.samples) == (1, 32)


def test_momentum_and_decay_follow_their_formulas() -> None:
    rule = Rule(0.5, momentum=0.9, decay=0.1)
    state, weight, velocity = State(np.full(2, 2.0, np.float32)), 2.0, 0.0
    for gradient in (1.0, -3.0, 0.5):
        state = rule.step(state, total(gradient, 4))
        velocity = 0.9 * velocity + gradient + 0.1 * weight
        weight -= 0.5 * velocity
        np.testing.assert_allclose(state.weights, weight, rtol=1e-6)


def test_a_sum_of_no_samples_moves_nothing() -> None:
    state = State(np.ones(2, np.float32), np.ones(2, np.float32))
    after = Rule(0.5, momentum=0.9, decay=0.1).step(state, Total(Share.nothing(2)))
    assert after.weights is state.weights
    assert after.velocity is state.velocity
