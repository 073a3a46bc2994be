# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The gate: updates on arrival, layers that wait for their own tensors only, and the barrier's very bits."""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import permutations

import numpy as np
import pytest

from tests.unit.frameworks.reducers import Aggregate, Floats, Meeting, Rank
from topologies.errors import FailureError
from traffic.frameworks import compute
from traffic.frameworks.compute import ComputeTime
from traffic.frameworks.gate import Gate
from traffic.model import MLP

LONG = 60


def test_a_layer_may_compute_while_later_layers_are_on_their_way() -> None:
    meeting, updated = Meeting(1), []
    with Gate(Rank(meeting, 0), [0, 0, 1], lambda tensor, _: updated.append(tensor)) as gate:
        for tensor in (2, 1, 0):
            gate.send(tensor, np.ones(4, np.float32))
        meeting.deliver(1)
        meeting.deliver(0)
        gate.wait(0)
        assert updated == [1, 0]
        meeting.deliver(2)
        gate.wait(1)
        assert updated == [1, 0, 2]
        assert set(gate.waited) == {0, 1}
    assert meeting.layers == {0: 0, 1: 0, 2: 1}


def test_behind_a_barrier_the_first_layer_waits_for_the_last() -> None:
    meeting, passed = Meeting(1), threading.Event()
    with Gate(Rank(meeting, 0), [0, 1], lambda *_: None, gated=False) as gate:

        def first_layer() -> None:
            gate.wait(0)
            passed.set()

        for tensor in (1, 0):
            gate.send(tensor, np.ones(4, np.float32))
        meeting.deliver(0)
        thread = threading.Thread(target=first_layer)
        thread.start()
        assert 0 not in gate.waited and not passed.is_set()
        meeting.deliver(1)
        assert passed.wait(LONG)
        thread.join()


def train(gated: bool, order: tuple[int, ...], rounds: int = 4) -> list[Floats]:
    """Train two ranks on different data; aggregates come in `order` within each round."""
    random = np.random.default_rng(1)
    batches = [
        [(random.standard_normal((8, 6)).astype(np.float32), random.integers(0, 3, 8)) for _ in range(rounds)]
        for _ in range(2)
    ]
    meeting = Meeting(2)
    models = [MLP((6, 5, 3), seed=7) for _ in range(2)]

    def worker(rank: int) -> None:
        model = models[rank]

        def update(tensor: int, aggregate: Floats) -> None:
            model.values[tensor] -= np.float32(0.3) * aggregate

        layers = [parameter.layer for parameter in model.parameters]
        with Gate(Rank(meeting, rank), layers, update, gated=gated) as gate:
            for inputs, labels in batches[rank]:
                fed = [inputs]
                for layer in range(model.layers):
                    gate.wait(layer)
                    fed.append(model.forward_layer(layer, fed[-1]))
                for parameter, gradient in model.backward(fed, labels):
                    gate.send(parameter.tensor, gradient, weight=len(labels))

    with ThreadPoolExecutor(2) as pool:
        workers = [pool.submit(worker, rank) for rank in range(2)]
        for _ in range(rounds):
            for tensor in order:
                meeting.deliver(tensor)
        for done in workers:
            done.result(LONG)
    for one, other in zip(models[0].values, models[1].values, strict=True):
        np.testing.assert_array_equal(one, other)
    return models[0].values


def test_whatever_the_order_of_arrival_the_gate_gives_the_barriers_bits() -> None:
    expected = train(gated=False, order=(3, 2, 1, 0))
    fresh = MLP((6, 5, 3), seed=7).values
    assert not any(np.array_equal(one, other) for one, other in zip(expected, fresh, strict=True))
    for order in list(permutations(range(4)))[::5]:
        for one, other in zip(train(gated=True, order=order), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_failed_aggregate_is_raised_where_training_stands() -> None:
    meeting = Meeting(1)
    gate = Gate(Rank(meeting, 0), [0, 1], lambda *_: None)
    gate.send(0, np.ones(4, np.float32))
    meeting.fail(FailureError("rank 1 (127.0.0.2) is lost"))
    with pytest.raises(FailureError, match="rank 1"):
        gate.wait(0)
    with pytest.raises(FailureError, match="rank 1"):
        gate.send(1, np.ones(4, np.float32))
    with pytest.raises(FailureError, match="rank 1"):
        gate.finish()
    gate.close()


def test_an_update_that_fails_is_raised_too() -> None:
    def update(tensor: int, aggregate: Floats) -> None:
        raise ArithmeticError("no such step")

    meeting = Meeting(1)
    with pytest.raises(ArithmeticError, match="no such step"), Gate(Rank(meeting, 0), [0], update) as gate:
        gate.send(0, np.ones(4, np.float32))
        meeting.deliver(0)


def test_a_second_gradient_before_the_update_is_refused() -> None:
    meeting = Meeting(1)
    gate = Gate(Rank(meeting, 0), [0], lambda *_: None)
    gate.send(0, np.ones(4, np.float32))
    with pytest.raises(ValueError, match="before it was updated"):
        gate.send(0, np.ones(4, np.float32))
    gate.close()


def test_a_round_without_a_gradient_is_not_made_up_for_by_the_next_rounds() -> None:
    """Of another rank's point of view: its gradient of that round waits, and is not added to a later one."""
    rounds: list[tuple[int, int]] = []

    class Numbered:
        def all_reduce(
            self, values: Floats, *, tensor: int, layer: int, round: int, weight: int = 1
        ) -> Future[Aggregate]:
            rounds.append((round, tensor))
            future: Future[Aggregate] = Future()
            future.set_result(Aggregate(values))
            return future

    with Gate(Numbered(), [0, 1, 1], lambda *_: None) as gate:
        for tensors in ((2, 1, 0), (2, 0), (2, 1, 0)):
            gate.wait(0)
            gate.wait(1)
            for tensor in tensors:
                gate.send(tensor, np.ones(4, np.float32))
        gate.send(1, np.ones(0, np.float32))
        gate.finish()
        gate.send(0, np.ones(4, np.float32))
        gate.finish()
    assert rounds == [(0, 2), (0, 1), (0, 0), (1, 2), (1, 0), (2, 2), (2, 1), (2, 0), (3, 0)]


def test_declared_compute_time_sleeps_what_computing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(compute.time, "monotonic", lambda: 10.0)
    monkeypatch.setattr(compute.time, "sleep", slept.append)
    declared = ComputeTime.even(layers=4, seconds=1.2)
    compute.sleep_until(9.96 + declared.forward_seconds(0))
    compute.sleep_until(9.7 + declared.backward_seconds(3))
    compute.sleep_until(10 + declared.forward_seconds(4))
    assert slept == pytest.approx([0.06])
    assert sum(declared.forward) + sum(declared.backward) == pytest.approx(1.2)
