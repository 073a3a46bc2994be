# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How much may be lost, what stands in for it, and what is owed for it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.unit.transport.world import exchange, gradient, pair
from traffic.packer import TensorId
from traffic.transport.loss import ErrorFeedback, Fill, fill_lost
from traffic.transport.ranges import mask_of, value_ranges
from traffic.transport.tolerance import Direction, LossBudget, Tolerance
from traffic.transport.virtual import Trouble

MISSING = np.array([[1, 3], [5, 6]], np.int64)


def ones() -> NDArray[np.float32]:
    return np.ones(8, np.float32)


def test_lost_values_become_zero_the_previous_ones_or_the_rest_is_rescaled() -> None:
    values = ones()
    fill_lost(values, MISSING, Fill.ZERO)
    assert values.tolist() == [1, 0, 0, 1, 1, 0, 1, 1]
    values = ones()
    fill_lost(values, MISSING, Fill.PREVIOUS, np.arange(8, dtype=np.float32))
    assert values.tolist() == [1, 1, 2, 1, 1, 5, 1, 1]
    values = ones()
    fill_lost(values, MISSING, Fill.RESCALED)
    assert values.sum() == pytest.approx(8)
    with pytest.raises(ValueError, match="round before"):
        fill_lost(values, MISSING, Fill.PREVIOUS)


def test_a_message_of_which_everything_was_lost_is_zero() -> None:
    values = ones()
    fill_lost(values, np.array([[0, 8]]), Fill.RESCALED)
    assert not values.any()


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=50), st.integers(1, 9), st.integers(0, 8))
def test_ranges_and_masks_say_the_same(packets: list[bool], per_packet: int, short: int) -> None:
    values = len(packets) * per_packet - min(short, per_packet - 1)
    ranges = value_ranges(np.array(packets), per_packet, values)
    expected = np.repeat(packets, per_packet)[:values]
    np.testing.assert_array_equal(mask_of(ranges, values), expected)
    assert (ranges[1:, 0] > ranges[:-1, 1]).all()


def test_with_error_feedback_nothing_is_lost_for_good() -> None:
    """Sum of what arrived = sum of the gradients, less what is still owed."""
    world, feedback = pair(Trouble(least_important_loss=0.5), seed=2), ErrorFeedback()
    total, arrived = np.zeros(36_000), np.zeros(36_000)
    for number in range(6):
        step = gradient(36_000, number)
        total += step
        values = feedback.add("tensor", step)
        sent, received = exchange(world, values, tolerance=0.4, eager=False, ids=TensorId(round=number))
        assert sent.missing_values > 0
        arrived += received.values
        feedback.settle("tensor", values, sent.missing)
    owed = feedback.add("tensor", np.zeros(36_000, np.float32))
    np.testing.assert_allclose(arrived + owed, total, atol=1e-4)


def test_a_message_that_failed_is_owed_whole_and_one_that_arrived_owes_nothing() -> None:
    feedback = ErrorFeedback()
    feedback.fail("tensor", ones())
    assert feedback.add("tensor", ones()).tolist() == [2] * 8
    feedback.settle("tensor", ones(), np.zeros((0, 2), np.int64))
    assert feedback.add("tensor", ones()).tolist() == [1] * 8


def test_error_feedback_is_on_above_ten_percent() -> None:
    assert not ErrorFeedback.wanted(0.1)
    assert ErrorFeedback.wanted(0.11)


def test_tolerance_is_by_direction_class_and_schedule() -> None:
    tolerance = Tolerance(push=0.2, pull=0.01, by_class={6: 0.05}, schedule=((0, 0.0), (10, 1.0), (20, 2.0)))
    assert tolerance.of(Direction.PUSH, 3, 9) == 0
    assert tolerance.of(Direction.PUSH, 3, 10) == 0.2
    assert tolerance.of(Direction.PUSH, 0, 10) == 0.05
    assert tolerance.of(Direction.PULL, 0, 15) == 0.01
    assert tolerance.of(Direction.PUSH, 3, 25) == 0.4
    assert Tolerance(push=0.8, schedule=((0, 3.0),)).of(Direction.PUSH, 9, 0) == 1
    assert Tolerance().of(Direction.PULL, 0, 0) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"push": 1.1},
        {"pull": -0.1},
        {"by_class": {1: 2.0}},
        {"push": math.nan},
        {"schedule": ((5, 1.0), (1, 1.0))},
        {"schedule": ((0, math.nan),)},
    ],
)
def test_tolerances_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"share|schedule"):
        Tolerance(**wrong)  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.floats(0, 0.5), st.integers(1, 40), st.data())
def test_a_budget_is_never_exceeded(budget: float, rounds: int, data: st.DataObject) -> None:
    control = LossBudget(budget, rounds, window=3)
    for _ in range(rounds):
        share = data.draw(st.sampled_from([0.0, 0.5, 1.0]))
        control.observe(data.draw(st.floats(0.1, 10)), share * control.tolerance)
    assert control.spent <= budget * rounds + 1e-9


def test_a_budget_is_strict_while_gradients_change_fast_and_spent_when_they_do_not() -> None:
    control = LossBudget(0.1, 100, window=5)
    for number in range(30):
        control.observe(10 * 0.8**number, control.tolerance)
        assert control.tolerance == pytest.approx(0.025)
    for _ in range(15):
        control.observe(1.0, control.tolerance)
    assert control.tolerance > 0.1
    for _ in range(55):
        control.observe(1.0, control.tolerance)
    assert control.spent == pytest.approx(10)


def test_what_a_failed_message_took_along_is_owed_as_before() -> None:
    feedback, first = ErrorFeedback(), np.array([[0, 4]])
    feedback.settle("tensor", feedback.add("tensor", np.ones(8, np.float32), 1), first, 1)
    assert feedback.debts()["tensor"].tolist() == [1] * 4 + [0] * 4
    sent = feedback.add("tensor", np.full(8, 10, np.float32), 2)
    assert sent.tolist() == [11] * 4 + [10] * 4
    assert feedback.debts() == {}
    feedback.settle("tensor", sent, np.array([[2, 6]]), 2)
    assert feedback.debts()["tensor"].tolist() == [0, 0, 11, 11, 10, 10, 0, 0]
    assert feedback.debts(failed=2)["tensor"].tolist() == [1] * 4 + [0] * 4
    assert feedback.debts(failed=1)["tensor"].tolist() == [0, 0, 11, 11, 10, 10, 0, 0]


def test_what_is_not_finite_is_not_owed() -> None:
    """A step that overflowed is over when its round is: owed on, it would spoil every round to come."""
    feedback, sent = ErrorFeedback(), np.array([1, np.nan, np.inf, 2], np.float32)
    feedback.settle("tensor", sent, np.array([[0, 3]]))
    assert feedback.add("tensor", np.zeros(4, np.float32)).tolist() == [1, 0, 0, 0]


def test_a_tensor_that_comes_back_in_another_size_is_owed_nothing() -> None:
    feedback = ErrorFeedback()
    feedback.settle("tensor", ones(), MISSING)
    assert feedback.add("tensor", np.zeros(4, np.float32)).tolist() == [0, 0, 0, 0]
    feedback.settle("tensor", ones(), MISSING)
    feedback.settle("tensor", ones()[:4], MISSING[:1])
    assert feedback.add("tensor", np.zeros(4, np.float32)).tolist() == [0, 1, 1, 0]
