# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The algorithms under the real clock: sums over the transport on loopback, or between threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from math import inf
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.unit.training.problems import ALGORITHMS, quadratic
from tests.unit.training.table import Lossy, Table
from topologies.errors import FailureError, UsageError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Job, Op
from traffic.collectives.server import Server
from traffic.training import checkpoint
from traffic.training.algorithms import AbsSGD, DelayedAveraging, SynchronousSGD
from traffic.training.effects import Algorithm
from traffic.training.membership import newest
from traffic.training.real import Flight, NotFiniteError, RealTraining, Sampler
from traffic.training.rule import Rule
from traffic.training.share import Total
from traffic.transport.tolerance import Tolerance
from traffic.wire import DataType

WORKERS = 3


def together(runs: list[RealTraining], phases: float) -> None:
    with ThreadPoolExecutor(len(runs)) as pool:
        for future in [pool.submit(run.run, phases) for run in runs]:
            future.result(timeout=100)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def trainings(algorithm: Algorithm, reducers: list[Any], **more: Any) -> list[RealTraining]:
    return [
        RealTraining(quadratic(), algorithm, Rule(0.1), rank, len(reducers), reducer, **more)
        for rank, reducer in enumerate(reducers)
    ]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: f"{algorithm.name}")
def test_every_algorithm_trains_and_its_end_loses_no_gradient(algorithm: Algorithm) -> None:
    table = Table(WORKERS)
    runs = trainings(algorithm, [table] * WORKERS)
    together(runs, 40)
    for run in runs:
        run.__exit__(None, None, None)
        np.testing.assert_array_equal(run.worker.state.weights, runs[0].worker.state.weights)
    assert quadratic().loss(runs[0].worker.state.weights) < 0.35 * quadratic().loss(quadratic().initial())
    if not isinstance(algorithm, DelayedAveraging):
        assert runs[0].worker.state.samples == sum(run.progress.samples for run in runs)


def test_a_worker_that_wants_to_end_ends_all_with_the_same_sum() -> None:
    def stop(run: RealTraining, total: Total) -> None:
        run.wants_end = run.worker.rank == 1 and run.progress.phases >= 5

    table = Table(WORKERS)
    runs = trainings(AbsSGD(micro=4), [table] * WORKERS, on_update=stop)
    together(runs, float("inf"))
    assert {run.progress.phases for run in runs} == {runs[0].progress.phases}
    assert 6 <= runs[0].progress.phases <= 9


def test_a_stalled_worker_joins_sums_with_nothing_and_holds_nobody_up() -> None:
    stall = threading.Event()

    def stuck(run: RealTraining, total: Total) -> None:
        if run.worker.rank == 2:
            run.seconds_per_sample = 0.5 if run.progress.phases == 3 else 0.0
            if run.progress.phases == 4:
                stall.set()

    table = Table(WORKERS, 0.02)
    runs = trainings(AbsSGD(micro=4, grace=1.0), [table] * WORKERS, on_update=stuck)
    began = time.monotonic()
    together(runs, 20)
    stalled = runs[2].progress
    assert stall.is_set()
    assert stalled.discarded >= 4
    assert runs[0].progress.phases == stalled.phases == 21
    assert time.monotonic() - began < 60
    np.testing.assert_array_equal(runs[0].worker.state.weights, runs[2].worker.state.weights)


@pytest.mark.parametrize(
    ("algorithm", "lost"),
    [(SynchronousSGD(8), 0.0), (AbsSGD(micro=8, fitted=True), 0.0), (AbsSGD(micro=8, fitted=True), 0.4)],
)
def test_a_training_goes_on_from_files_with_its_pending_gradients(
    algorithm: Algorithm, lost: float, tmp_path: Path
) -> None:
    def keep(run: RealTraining, total: Total) -> None:
        if run.worker.state.updates == 9:
            checkpoint.save(run.checkpoint(), tmp_path / f"{run.worker.rank}")

    def group(**more: Any) -> list[RealTraining]:
        table = Table(WORKERS, 0.002)
        return trainings(algorithm, [Lossy(table, lost, seed) for seed in range(WORKERS)], **more)

    first, second = group(on_update=keep), group()
    together(first, 20)
    kept = [checkpoint.load(tmp_path / f"{rank}") for rank in range(WORKERS)]
    for run, found in zip(second, kept, strict=True):
        run.resume(found)
    together(second, 20 - 9)
    for run in (*first, *second):
        run.__exit__(None, None, None)
    if isinstance(algorithm, SynchronousSGD):
        np.testing.assert_allclose(second[0].worker.state.weights, first[0].worker.state.weights, atol=1e-5)
    else:
        assert all(found.carried.samples for found in kept)
    pending = sum(found.carried.samples for found in kept)
    owed = sum(found.owed.samples for found in kept if found.owed is not None)
    assert bool(owed) == bool(lost)
    computed = sum(run.progress.samples for run in second)
    assert second[0].worker.state.samples == pytest.approx(kept[0].state.samples + pending + owed + computed, rel=1e-6)


def test_the_last_sum_also_brings_what_was_lost_before_and_loses_nothing() -> None:
    table = Table(WORKERS, 0.002)
    runs = trainings(AbsSGD(micro=4), [Lossy(table, 0.4, seed) for seed in range(WORKERS)])
    together(runs, 12)
    for run in runs:
        run.__exit__(None, None, None)
    computed = sum(run.progress.samples for run in runs)
    assert runs[0].worker.state.samples == pytest.approx(computed, rel=1e-6)


@pytest.mark.parametrize("counted", [False, True], ids=["failed for all", "failed for one"])
@pytest.mark.parametrize("last", [False, True], ids=["on the way", "at the end"])
def test_what_is_owed_goes_on_into_a_new_generation_once(counted: bool, last: bool) -> None:
    """The sum at which a generation ends may be there for the others: then what it brought is not brought again."""
    phases = 8
    table = Table(WORKERS, 0.002)
    lossy = [Lossy(table, 0.4, seed) for seed in range(WORKERS)]

    def fail(run: RealTraining, total: Total) -> None:
        if run.progress.phases == (phases if last else phases - 3) and (run.worker.rank == 1 or not counted):
            lossy[run.worker.rank].fails = True

    runs = trainings(AbsSGD(micro=4), lossy, on_update=fail)

    def train(rank: int) -> None:
        with suppress(FailureError):
            if counted and rank == 1:  # its future fails, and its values have arrived all the same
                given = lossy[1].all_reduce

                def told(values: Any, **more: Any) -> Any:
                    fails, lossy[1].fails = lossy[1].fails, False
                    future = given(values, **more)
                    lossy[1].fails = fails
                    if not fails:
                        return future
                    failed: Future[Any] = Future()
                    failed.set_exception(FailureError("nobody answers"))
                    return failed

                runs[1].reducer = SimpleNamespace(all_reduce=told, owed=lossy[1].owed)
            runs[rank].run(phases)

    with ThreadPoolExecutor(WORKERS) as pool:
        ends = [pool.submit(train, rank) for rank in range(WORKERS)]
        if not last and counted:  # the others have that sum, and wait in vain for the next
            ends[1].result(100)
            for worker in (0, 2):
                until(lambda worker=worker: runs[worker].worker.state.updates == phases - 2)
            table.fail()
        for end in ends:
            end.result(100)
    again = Table(WORKERS)
    anew = [Lossy(again, 0.4, 10 + seed) for seed in range(WORKERS)]

    def meet(rank: int) -> None:
        worker = runs[rank].worker
        state, worker.ending = newest(again, rank, WORKERS, worker.state, worker.rule, worker.ending)
        runs[rank].regroup(anew[rank], rank, WORKERS, state)
        runs[rank].run(runs[rank].progress.phases + 4)

    with ThreadPoolExecutor(WORKERS) as pool:
        for end in [pool.submit(meet, rank) for rank in range(WORKERS)]:
            end.result(100)
    for run in runs:
        run.__exit__(None, None, None)
        np.testing.assert_array_equal(run.worker.state.weights, runs[0].worker.state.weights)
    computed = sum(run.progress.samples for run in runs)
    assert runs[0].worker.state.samples == pytest.approx(computed, rel=1e-6)


def test_gradients_that_are_no_numbers_never_come_to_a_sum() -> None:
    broken = replace(quadratic(), samples=np.full((256, 800), np.nan, np.float32))
    table = Table(1)
    with RealTraining(broken, AbsSGD(micro=4), Rule(0.1), 0, 1, table) as run:
        with pytest.raises(NotFiniteError, match="gradients are no longer finite after update 0: the step size"):
            run.run(4)
        assert np.isfinite(run.worker.state.weights).all()


def test_a_source_that_fails_while_it_is_not_waited_for_is_heard_of_later() -> None:
    class Failing(Sampler):
        def share(self, weights: Any, samples: int) -> Any:
            if self.taken >= 40:
                time.sleep(0.2)  # longer than the grace
                raise UsageError("the disk is gone")
            return super().share(weights, samples)

    table = Table(1, 0.01)
    training = RealTraining(Failing(quadratic(), 0), AbsSGD(micro=4, grace=0.5), Rule(0.1), 0, 1, table)
    with training as run, pytest.raises(UsageError, match="the disk is gone"):
        run.run(500)


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    other = RealTraining(quadratic(values=400), AbsSGD(micro=4), Rule(0.1))
    with other, pytest.raises(UsageError, match="has 400 weights, the model 800"):
        RealTraining(quadratic(), AbsSGD(micro=4), Rule(0.1)).resume(other.checkpoint())


@pytest.mark.parametrize(
    ("tolerance", "left_out", "wire"),
    [(0.0, 0.0, DataType.FLOAT32), (0.3, 0.0, DataType.FLOAT32), (0.0, 0.0, DataType.FLOAT16),
     (0.4, 0.3, DataType.FLOAT16)],
)  # fmt: skip
@pytest.mark.parametrize("algorithm", [SynchronousSGD(8), AbsSGD(micro=4)], ids=lambda a: a.name)
def test_replicas_are_identical_over_the_transport(
    algorithm: Algorithm, tolerance: float, left_out: float, wire: DataType
) -> None:
    job = Job(
        number=77,
        workers=tuple(f"127.77.1.{rank + 1}" for rank in range(WORKERS)),
        servers=("127.77.2.1",),
        op=Op.SUM,
        tolerance=Tolerance(push=tolerance, pull=left_out),
        wire=wire,
        patience=60.0,
    )
    ready: list[Communicator] = []
    with Server(job, 0), ThreadPoolExecutor(WORKERS) as pool:
        ready = list(pool.map(lambda rank: Communicator(job, rank), range(WORKERS)))
        try:
            runs = trainings(algorithm, ready)
            together(runs, 15)
        finally:
            list(pool.map(lambda communicator: communicator.close(), ready))
    for run in runs:
        run.__exit__(None, None, None)
        np.testing.assert_array_equal(run.worker.state.weights, runs[0].worker.state.weights)
    assert quadratic().loss(runs[0].worker.state.weights) < 0.7 * quadratic().loss(quadratic().initial())
    if not tolerance:
        assert runs[0].worker.state.samples == sum(run.progress.samples for run in runs)


class Quiet(Future[Any]):
    """A future that is done and has not called back yet."""

    def add_done_callback(self, fn: Callable[..., object]) -> None:
        pass


def test_a_sum_that_has_come_has_an_end_before_its_callbacks_have_run() -> None:
    sums, notes = Quiet(), Quiet()
    flight = Flight(sums, notes, 1)
    assert not flight.over
    assert flight.ended == inf
    for future in (sums, notes):
        future.set_result(None)
    assert flight.over
    assert flight.began <= flight.ended < inf
