# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Algorithms under the virtual clock: their update rules, their times, and that no gradient is lost."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.training.problems import ALGORITHMS, quadratic
from topologies.errors import UsageError
from traffic.training.algorithms import (
    AbsSGD,
    BalancedSGD,
    DelayedAveraging,
    DelayedBalanced,
    DelayedSGD,
    SynchronousSGD,
)
from traffic.training.algorithms.synchronous import balance
from traffic.training.cluster import Cluster, Machine, Speed, changing, homogeneous, ladder, straggler
from traffic.training.effects import Algorithm
from traffic.training.lossy import Loss
from traffic.training.problem import Stream, Timing
from traffic.training.rule import Rule, Scaling
from traffic.training.virtual import VirtualTraining, WorkerLostError


def training(
    algorithm: Algorithm, cluster: Cluster | None = None, sync: float = 1.0, **more: object
) -> VirtualTraining:
    arguments: dict[str, object] = {"seed": 5, **more}
    return VirtualTraining(
        quadratic(),
        algorithm,
        Rule(0.1),
        cluster or ladder(4, 8.0),
        lambda _: sync,
        **arguments,  # type: ignore[arg-type]
    )


def phase_length(algorithm: Algorithm, cluster: Cluster, sync: float) -> float:
    run = VirtualTraining(Timing(), algorithm, Rule(1.0), cluster, lambda _: sync)
    times = []
    for _ in range(12):
        run.advance()
        times.append(run.time)
    return (times[-1] - times[1]) / (len(times) - 2)


@pytest.mark.parametrize(
    ("algorithm", "seconds"),
    [  # speeds 8, 6, 4, 2 samples a second, T_sync 1.5 s
        (SynchronousSGD(8), 8 / 2 + 1.5),
        (BalancedSGD(10), 40 / 20 + 1.5),
        (DelayedSGD(8), 8 / 2),
        (DelayedBalanced(10), 40 / 20),
        (DelayedBalanced(5), 1.5),
        (DelayedAveraging(4, 2), 8 / 2),
        (AbsSGD(micro=1), 1.5),
        (AbsSGD(micro=4), 4 / 2),
        (AbsSGD(micro=1, batch=10), 2.0),
        (AbsSGD(micro=64, fitted=True), 1.5),
    ],
)
def test_a_phase_takes_as_long_as_its_formula_says(algorithm: Algorithm, seconds: float) -> None:
    assert phase_length(algorithm, ladder(4, 8.0), 1.5) == pytest.approx(seconds, rel=0.02)


def test_fitted_micro_batches_are_few_and_prolong_no_phase() -> None:
    computed = {}
    for algorithm in (AbsSGD(micro=4), AbsSGD(micro=64, fitted=True)):
        run = VirtualTraining(Timing(), algorithm, Rule(1.0), ladder(4, 32.0), lambda _: 1.0, overhead=1.0)
        for _ in range(40):
            run.advance()
        computed[algorithm.fitted] = sum(batch.samples for batch in run.finished[-1].batches.values())
        assert run.time == pytest.approx(40 if algorithm.fitted else 40 * 1.25, rel=0.02)
    assert computed[True] == 80 - 4  # a call costs a sample, and each of the workers makes one
    assert computed[False] < 1.25 * 0.9 * computed[True]


def test_nobody_waits_in_abs_sgd_while_synchronous_workers_do() -> None:
    ours, theirs = training(AbsSGD(micro=2)), training(SynchronousSGD(8))
    for run in (ours, theirs):
        for _ in range(30):
            run.advance()
    assert all(runner.waited < 0.35 * ours.time for runner in ours.runners)
    assert min(runner.waited for runner in theirs.runners[:3]) > 0.35 * theirs.time


def test_the_synchronous_update_is_that_of_one_machine_with_all_samples() -> None:
    problem, run = quadratic(), training(SynchronousSGD(8))
    stream, weights = Stream(problem.population, 5), problem.initial()
    for _ in range(6):
        run.advance()
        weights = weights - np.float32(0.1) * (problem.gradient_sum(weights, stream.take(32)) / np.float32(32))
        np.testing.assert_allclose(run.state.weights, weights, atol=1e-6)


def test_the_delayed_update_takes_gradients_one_step_old_weighted_by_samples() -> None:
    problem, run = quadratic(), training(AbsSGD(micro=2))
    stream = Stream(problem.population, 5)
    old, weights, gradient = problem.initial(), problem.initial(), None
    for phase in range(6):
        run.advance()
        if phase:
            samples = round(run.finished[-1].total.samples)  # type: ignore[union-attr]
            gradient = problem.gradient_sum(old, stream.take(samples)) / np.float32(samples)
            old, weights = weights, weights - np.float32(0.1) * gradient
        np.testing.assert_allclose(run.state.weights, weights, atol=1e-5)


def test_a_compensated_worker_looks_ahead_by_its_own_share() -> None:
    """On a quadratic without noise all shares agree, so looking ahead undoes the delay."""
    problem = replace(quadratic(), samples=np.zeros((4, 800), np.float32))
    run = VirtualTraining(problem, AbsSGD(micro=2, compensation=1.0), Rule(0.5), ladder(4, 8.0), lambda _: 1.0)
    weights = problem.initial()
    for phase in range(8):
        run.advance()
        if phase:
            weights = weights - np.float32(0.5) * problem.gradient(weights)
        np.testing.assert_allclose(run.state.weights, weights, atol=1e-5)


def test_workers_that_step_by_themselves_follow_one_path_where_nothing_is_random() -> None:
    """Each looks ahead by all of its own path in flight, so the common weights are those of gradient descent."""
    problem = replace(quadratic(), samples=np.zeros((4, 800), np.float32))
    rule = Rule(0.2, scaling=Scaling.LINEAR, reference=3 * 2)
    algorithm = AbsSGD(micro=2, local=True, compensation=1.0)
    run = VirtualTraining(problem, algorithm, rule, homogeneous(3, 8.0), lambda _: 1.0)
    weights = problem.initial()
    for phase in range(8):
        run.advance()
        for _ in range(4 if phase else 0):  # micro-batches in a phase
            weights = weights - np.float32(0.2) * problem.gradient(weights)
        np.testing.assert_allclose(run.state.weights, weights, atol=1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: f"{algorithm.name}")
def test_a_run_is_the_same_every_time(algorithm: Algorithm) -> None:
    runs = [training(algorithm, changing(4, 8.0)) for _ in range(2)]
    for run in runs:
        for _ in range(10):
            run.advance()
    np.testing.assert_array_equal(runs[0].state.weights, runs[1].state.weights)
    assert runs[0].time == runs[1].time


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: f"{algorithm.name}")
@pytest.mark.parametrize("cluster", [homogeneous(3, 8.0), straggler(3, 8.0), changing(3, 8.0)], ids=lambda c: c.name)
def test_training_converges_and_its_end_loses_no_gradient(algorithm: Algorithm, cluster: Cluster) -> None:
    run = training(algorithm, cluster, independent=True)
    before = quadratic().loss(run.state.weights)
    for _ in range(60):
        run.advance()
    run.end()
    assert quadratic().loss(run.state.weights) < 0.2 * before
    if not isinstance(algorithm, DelayedAveraging):
        assert run.state.samples == run.stream.taken
    assert not run.advance()


def test_with_error_feedback_the_end_also_sends_what_was_lost() -> None:
    for algorithm in (DelayedSGD(8), AbsSGD(micro=4), AbsSGD(micro=2, local=True, compensation=1.0)):
        run = training(algorithm, loss=Loss(0.4), feedback=True)
        for _ in range(20):
            run.advance()
        assert run.owed is not None
        assert all(share.sums.any() for share in run.owed)
        run.end()
        assert run.state.samples == pytest.approx(run.stream.taken, rel=1e-6)
        assert not any(share.sums.any() for share in run.owed)


@pytest.mark.parametrize("loss", [0.2, 0.9])
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: f"{algorithm.name}")
def test_replicas_stay_identical_under_loss(algorithm: Algorithm, loss: float) -> None:
    run = training(algorithm, loss=Loss(loss))
    for step in range(20):
        if step == 19:
            run.end()
        run.advance()
        first = run.runners[0].worker.state
        for runner in run.runners[1:]:
            np.testing.assert_array_equal(runner.worker.state.weights, first.weights)


@pytest.mark.parametrize("feedback", [False, True])
def test_a_fifth_lost_costs_little(feedback: bool) -> None:
    losses = []
    for loss in (None, Loss(0.2)):
        run = training(AbsSGD(micro=4), loss=loss, feedback=feedback)
        for _ in range(80):
            run.advance()
        losses.append(quadratic().loss(run.state.weights))
    assert losses[1] < 1.5 * losses[0]


def test_a_dead_worker_is_left_behind_after_the_patience() -> None:
    machines = [Machine(Speed.constant(8.0)), Machine(Speed.constant(8.0)), Machine(Speed.constant(8.0), dies=5.3)]
    run = training(AbsSGD(micro=4), Cluster("dying", tuple(machines)), patience=0.5)
    times = []
    while run.time < 12:
        run.advance()
        times.append(run.time)
    assert max(np.diff(times)) <= 0.5 + 2 * 1.0 + 0.5
    assert len(run.active) == 2
    assert run.state.updates == len(times)


def test_a_death_stops_training_where_told_to() -> None:
    machines = (Machine(Speed.constant(8.0)), Machine(Speed.constant(8.0), dies=5.3))
    run = training(AbsSGD(micro=4), Cluster("dying", machines), patience=0.5, stop_on_death=True)
    with pytest.raises(WorkerLostError, match=r"worker 1 died at 5\.3 s"):
        for _ in range(20):
            run.advance()


def test_a_late_worker_joins_with_the_replica_of_the_others() -> None:
    machines = (Machine(Speed.constant(8.0)), Machine(Speed.constant(8.0), joins=4.2))
    run = training(AbsSGD(micro=4), Cluster("joining", machines))
    while run.time < 10:
        run.advance()
    assert len(run.active) == 2
    first, late = (runner.worker.state for runner in run.runners)
    np.testing.assert_array_equal(first.weights, late.weights)
    assert late.updates == first.updates
    assert run.runners[1].computed > 4


def test_training_begins_with_the_first_worker() -> None:
    machines = (Machine(Speed.constant(8.0), joins=3.0), Machine(Speed.constant(8.0), joins=1.5))
    run = training(AbsSGD(micro=4), Cluster("late", machines))
    assert run.advance()
    assert 1.5 < run.time < 3
    while run.time < 8:
        assert run.advance()
    assert len(run.active) == 2


def test_a_worker_that_dies_in_a_long_micro_batch_takes_no_time_along() -> None:
    machines = (Machine(Speed.constant(8.0)), Machine(Speed.constant(0.1), dies=5.0))
    run = training(AbsSGD(micro=4), Cluster("dying", machines), patience=0.5)
    times = []
    for _ in range(12):
        run.advance()
        times.append(run.time)
    assert (np.diff(times) > 0).all()
    assert times[-1] < 20  # the micro-batch would have taken 40 s


def test_a_worker_that_stalls_holds_nobody_up() -> None:
    stalling = Speed(np.array([5.0, 20.0, 1000.0]), np.array([8.0, 0.08, 8.0]))
    machines = (Machine(Speed.constant(8.0)), Machine(stalling))
    lengths = {}
    for grace in (0.5, float("inf")):
        run = training(AbsSGD(micro=4, grace=grace), Cluster("stalling", machines))
        times = []
        while run.time < 30:
            run.advance()
            times.append(run.time)
        lengths[grace] = max(np.diff(times))
        assert run.state.updates == len(times)
    assert lengths[0.5] <= 1.5 + 0.5
    assert lengths[float("inf")] > 15


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: AbsSGD(micro=0), "micro is at least 1, not 0"),
        (lambda: AbsSGD(batch=-1), "batch is at least 0, not -1"),
        (lambda: AbsSGD(grace=float("nan")), "grace is at least 0, not nan"),
        (lambda: AbsSGD(compensation=1.5), "compensation is at most 1, all of the way, not 1.5"),
        (lambda: SynchronousSGD(0), "batch is at least 1, not 0"),
        (lambda: DelayedBalanced(-8), "batch is at least 1, not -8"),
        (lambda: DelayedAveraging(8, 0), "steps is at least 1, not 0"),
        (lambda: Rule(float("nan")), "a rule has a rate and a decay from 0"),
        (lambda: Rule(0.1, momentum=1.0), "not 0.1, 0.0, 1.0 and 1.0"),
    ],
)
def test_numbers_that_make_no_sense_are_one_clear_line(make: Callable[[], object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        make()


def test_batches_are_balanced_to_the_sample() -> None:
    assert balance(10, (4.0, 2.0, 0.0, 1.0), 4) == [6, 3, 0, 1]
    assert sum(balance(101, (1.0, 1.0, 1.0), 3)) == 101
    assert balance(8, (), 4) == [2, 2, 2, 2]


def test_speeds_and_their_inverse_agree_across_segments_and_periods() -> None:
    speed = Speed(np.array([1.0, 2.0]), np.array([4.0, 1.0]))
    assert speed.done(3.0) == pytest.approx(6.0)
    assert speed.done(7.5) == pytest.approx(12 + 4 + 0.5)
    for start in (0.0, 0.9, 2.5, 7.1):
        for samples in (0.5, 3.0, 20.0):
            assert speed.done(speed.finish(start, samples)) - speed.done(start) == pytest.approx(samples)


RATES = (0.5, 2.0, 8.0, 100.0)
"""Samples per second: a micro-batch may take 160 times as long as a sum."""
times = st.one_of(st.just(0.0), st.floats(0, 8))
machines = st.builds(
    Machine,
    st.one_of(
        st.sampled_from(RATES).map(Speed.constant),
        st.sampled_from(RATES).map(lambda rate: Speed(np.array([2.0, 3.0, 99.0]), np.array([rate, rate / 50, rate]))),
    ),
    joins=times,
    dies=st.one_of(st.just(float("inf")), times),
)
GRACEFUL = (
    AbsSGD(micro=4, grace=0.0),
    AbsSGD(micro=4, batch=30, grace=1.0),
    AbsSGD(micro=16, fitted=True, grace=1.0, compensation=0.75),
    AbsSGD(micro=8, local=True, fitted=True, compensation=1.0, grace=2.0),
)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(machines, min_size=1, max_size=5),
    st.sampled_from((*ALGORITHMS, *GRACEFUL)),
    st.sampled_from((0.0, 0.02, 1.0)),
    st.sampled_from((None, Loss(0.2), Loss(0.9))),
    st.booleans(),
    st.sampled_from((0.0, 0.5, 5.0)),
)
def test_whatever_becomes_of_workers_those_that_are_left_train_on_as_one(
    workers: list[Machine], algorithm: Algorithm, sync: float, loss: Loss | None, feedback: bool, patience: float
) -> None:
    cluster = Cluster("eventful", tuple(workers))
    run = training(algorithm, cluster, sync, loss=loss, feedback=feedback, patience=patience)
    time = 0.0
    try:
        for _ in range(15):
            assert run.advance()
            assert time <= run.time < float("inf")
            time = run.time
            first, *others = [runner.worker.state for runner in run.active]
            for other in others:
                np.testing.assert_array_equal(first.weights, other.weights)
                assert (first.updates, first.samples) == (other.updates, other.samples)
        run.end()
        assert not run.advance()
    except WorkerLostError as error:
        assert str(error) == "every worker has died"
        over = run.finished[-1].done if run.finished else -1.0
        assert over is not None
        assert all(worker.dies < float("inf") or worker.joins > over for worker in workers)
    else:
        assert np.isfinite(run.state.weights).all()
        if loss is None and not isinstance(algorithm, DelayedAveraging) and all(w.dies > 1e9 for w in workers):
            assert run.state.samples == run.stream.taken
