# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Virtual time whose sums take as long as the transport model says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.collectives.world import job
from tests.unit.training.problems import quadratic
from topologies.errors import FailureError
from traffic.collectives.job import Job, Op
from traffic.training.algorithms import AbsSGD
from traffic.training.cluster import ladder
from traffic.training.modelled import ModelledSync
from traffic.training.rule import Rule
from traffic.training.share import CHUNK_VALUES
from traffic.training.virtual import VirtualTraining
from traffic.transport.tolerance import Tolerance
from traffic.transport.virtual import Port, Trouble

VALUES = 60 * CHUNK_VALUES
BITS = 60 * (CHUNK_VALUES + 1) * 4 * 8
"""Of a share's values."""


def through_a_server(tolerance: float = 0.0, **more: object) -> Job:
    return job(4, 1, "ps", op=Op.SUM, tolerance=Tolerance(push=tolerance), **more)


def test_a_sum_takes_what_the_servers_link_takes_and_the_start_of_a_rate_more() -> None:
    """Four shares come in by the server's link, one after the other; four sums go out by it."""
    sync = ModelledSync(through_a_server(), VALUES, port=Port(rate=100e6))
    seconds = [sync(number) for number in range(12)]
    least = 8 * BITS / 100e6 / 2  # at best half of what comes in overlaps with half of what goes out
    assert all(least < each < 10 * least for each in seconds)
    half = ModelledSync(through_a_server(line_rate=50e6), VALUES, port=Port(rate=50e6))
    assert 1.8 < np.mean([half(number) for number in range(12)][4:]) / np.mean(seconds[4:]) < 5


def test_it_is_the_same_every_time_and_in_any_order_of_asking() -> None:
    first, second = (ModelledSync(through_a_server(0.2), VALUES, trouble=Trouble(loss=0.1), seed=3) for _ in range(2))
    late = second(5)
    assert [first(number) for number in range(6)] == [second(number) for number in range(5)] + [late]
    assert len({first(number) for number in range(6)}) > 1


def test_packets_that_may_be_lost_are_not_waited_for() -> None:
    seconds = {}
    for tolerance in (0.0, 0.3):
        sync = ModelledSync(through_a_server(tolerance), VALUES, trouble=Trouble(loss=0.1))
        seconds[tolerance] = np.mean([sync(number) for number in range(10)])
    assert seconds[0.3] < 0.9 * seconds[0.0]


def test_phases_of_abs_sgd_last_as_long_as_the_modelled_sums() -> None:
    problem = quadratic()
    sync = ModelledSync(through_a_server(0.2), problem.values, trouble=Trouble(loss=0.1), port=Port(rate=2e6))
    run = VirtualTraining(problem, AbsSGD(micro=1), Rule(0.1), ladder(4, 2000.0), sync)
    ends = []
    for _ in range(10):
        run.advance()
        ends.append(run.time)
    np.testing.assert_allclose(np.diff(ends), [sync(number) for number in range(1, 10)], atol=2 / 500)


def test_a_network_that_lets_nothing_through_is_one_clear_line() -> None:
    sync = ModelledSync(
        through_a_server(patience=1.0, timeout=2.0), VALUES, trouble=Trouble(loss=1.0, control_loss=1.0)
    )
    with pytest.raises(FailureError):
        sync(0)
