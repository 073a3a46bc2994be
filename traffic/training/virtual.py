# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The virtual clock: real gradients on real data, time from declared speeds. Deterministic.

A worker's generator runs ahead on its own clock until it needs a sum that not every worker has begun. When all have,
the sum's end is known: the latest beginning and T_sync. Gradients are computed then, those that were taken at the same
weights all at once, and replicas that are equal are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import Any

import numpy as np

from topologies.errors import FailureError, UsageError
from traffic.training.checkpoint import Checkpoint
from traffic.training.cluster import Cluster, Machine
from traffic.training.effects import (
    Accumulate,
    Algorithm,
    Compute,
    Effect,
    Offer,
    Own,
    Pending,
    Start,
    Wait,
    Work,
    Worker,
)
from traffic.training.fitting import PART, fitted, smoothed
from traffic.training.lossy import Loss, deliver
from traffic.training.problem import Problem, Stream
from traffic.training.rule import Rule, State
from traffic.training.share import Floats, Share, Total, chunks_of

ROUNDING = 1e-9
"""Seconds that floating-point clocks may be off by."""


class WorkerLostError(FailureError):
    """A worker died, and training was told to stop if one does."""


@dataclass(eq=False)
class Batch:
    """Gradients that are computed when a sum needs them."""

    samples: float
    state: State
    """The replica that they are taken at."""
    weights: Floats | None = None
    """Other weights to take them at."""
    ahead: Batch | None = None
    trust: float = 1.0
    steps: tuple[int, ...] = ()
    """Samples of each micro-batch, where the worker steps by itself between them."""
    local: float = 0.0
    """The step size of that, over a micro-batch's samples."""
    value: Share | None = None


@dataclass(eq=False)
class Sum:
    """A sum under way."""

    number: int
    begun: dict[int, float] = field(default_factory=dict)
    """When each rank began it."""
    batches: dict[int, Batch] = field(default_factory=dict)
    last: bool = False
    """Whether training ends with it: then nothing of it is lost."""
    done: float | None = None
    total: Total | None = None


@dataclass(frozen=True)
class Lockstep(Rule):
    """A rule that computes a step that every replica takes once."""

    _last: list[Any] = field(default_factory=list, compare=False, repr=False)

    def step(self, state: State, total: Total) -> State:
        """Return the replica after an update."""
        if not (self._last and self._last[0] is state and self._last[1] is total):
            self._last[:] = [state, total, super().step(state, total)]
        stepped: State = self._last[2]
        return stepped


@dataclass(eq=False)
class Runner:
    """One worker under the clock."""

    worker: Worker
    machine: Machine
    work: Work | None = None
    time: float = 0.0
    since: float = 0.0
    """When its latest sum was over: where its present phase began."""
    waited: float = 0.0
    computed: float = 0.0
    busy: float = 0.0
    """Until when it is stuck in a micro-batch that was given up."""
    speed: float = 0.0
    """Samples per second, as it tells the others."""
    rate: float = 0.0
    """Of the best micro-batch of its latest phase: of small ones the call is the larger part."""
    flight: float = 0.0
    """Seconds that it expects a sum to take since it began it."""
    sums: int = 0
    blocked: Effect | None = None
    ended: bool = False


class VirtualTraining:
    """One training job on one cluster."""

    def __init__(
        self,
        problem: Problem,
        algorithm: Algorithm,
        rule: Rule,
        cluster: Cluster,
        sync: Callable[[int], float],
        *,
        seed: int = 0,
        overhead: float = 0.0,
        loss: Loss | None = None,
        feedback: bool = False,
        patience: float = inf,
        stop_on_death: bool = False,
        independent: bool = False,
    ) -> None:
        """Set out from the problem's weights.

        `sync` returns T_sync of a sum by its number, seconds; `overhead` is what every call of the model costs besides
        its samples, in samples; `feedback` is error feedback under `loss`; `patience` is how long others wait for a
        worker that has died before they go on without it (or raise WorkerLostError); `independent` draws samples with
        replacement.
        """
        self.problem, self.algorithm = problem, algorithm
        self.rule = Lockstep(rule.rate, rule.momentum, rule.decay, rule.scaling, rule.reference)
        self._sync, self._overhead, self._loss = sync, overhead, loss
        self._patience, self._stop_on_death = patience, stop_on_death
        self.stream = Stream(problem.population, seed, independent=independent)
        self._empty = Share.nothing(problem.values)
        self.owed: list[Share] | None = [self._empty] * len(cluster.machines) if loss and feedback else None
        state = State(problem.initial())
        self.runners: list[Runner] = []
        for rank, machine in enumerate(cluster.machines):
            worker = Worker(rank, len(cluster.machines), self.rule, state, Batch(0, state, value=self._empty))
            self.runners.append(Runner(worker, machine))
        self.finished: list[Sum] = []
        """The sums that are over, in order; only the counts of old ones are kept."""
        self._current = Sum(0)
        self._taken = 0
        """Samples drawn when the latest sum was over."""
        self._begin(min((machine.joins for machine in cluster.machines), default=0.0))

    @property
    def active(self) -> list[Runner]:
        """Workers that are there and have not ended."""
        return [runner for runner in self.runners if runner.work is not None and not runner.ended]

    @property
    def time(self) -> float:
        """When every worker has applied the latest sum, seconds; of those who do not live that long, none has."""
        there = [runner for runner in self.runners if runner.work is not None]
        living = [runner for runner in there if runner.since <= runner.machine.dies]
        return max((runner.since for runner in living or there), default=0.0)

    @property
    def state(self) -> State:
        """The replica, which every worker holds."""
        return next(runner for runner in self.runners if runner.work is not None).worker.state

    def advance(self) -> bool:
        """Run until every worker has applied one more sum; False when training has ended."""
        for runner in self.active:
            self._run(runner)
        if not self.active:
            return False
        self._finish(self._current)
        for runner in self.active:
            self._run(runner)
        self._begin(self.finished[-1].done or 0.0)
        return True

    def end(self) -> None:
        """Let every worker end cleanly: sums that are under way and gradients that are in none are applied."""
        for runner in self.active:
            runner.worker.ending = True
        while self.advance():
            pass

    def checkpoints(self) -> list[Checkpoint]:
        """Return what every worker goes on from, by rank, once a sum is over and before the next.

        Pending gradients that no sum has needed yet are not computed for that: nobody's samples come in another order.
        """
        return [self._checkpoint(runner) for runner in self.runners]

    def _checkpoint(self, runner: Runner) -> Checkpoint:
        there, rank = runner.work is not None and not runner.ended, runner.worker.rank
        batch = _batch(runner.worker.carried) if there else Batch(0, runner.worker.state, value=self._empty)
        return Checkpoint(
            runner.worker.state,
            batch.value or Share.of(np.zeros(self.problem.values, np.float32), batch.samples),
            None if batch.value is not None or not batch.samples else self._weights(runner, batch),
            batch.steps,
            batch.local,
            None if self.owed is None else self.owed[rank],
            runner.worker.local,
            runner.worker.speeds,
            taken=self._taken,
            time=runner.since,
            busy=runner.busy,
            there=there,
            speed=runner.speed,
            sums=self._current.number,
            rate=runner.rate,
            flight=runner.flight,
        )

    def resume(self, checkpoints: Sequence[Checkpoint]) -> None:
        """Go on from there, before the first sum. Raises UsageError for checkpoints of another training."""
        if len(checkpoints) != len(self.runners):
            raise UsageError(f"there are {len(checkpoints)} checkpoints of {len(self.runners)} workers")
        first = next((found for found in checkpoints if found.there), checkpoints[0])
        for found in checkpoints:
            found.check(self.problem.values)
            if found.there and (found.sums, found.state.updates) != (first.sums, first.state.updates):
                raise UsageError(f"one checkpoint is of sum {first.sums}, another of sum {found.sums}")
        common, shared = first.state, first.uncomputed
        for runner, found in zip(self.runners, checkpoints, strict=True):
            worker = runner.worker
            worker.state, worker.local, worker.speeds = common, found.local, found.speeds
            weights = found.uncomputed
            if weights is not None and shared is not None and np.array_equal(weights, shared):
                weights = shared  # computed together, as they would have been
            value = found.carried if weights is None else None
            worker.carried = Batch(
                found.carried.samples, common, weights, steps=found.steps, local=found.step, value=value
            )  # fmt: skip
            runner.time = runner.since = found.time
            runner.busy, runner.speed, runner.rate, runner.flight = found.busy, found.speed, found.rate, found.flight
            runner.ended = not found.there and runner.machine.joins <= first.time
            runner.work = self.algorithm.work(worker) if found.there else None
        if self.owed is not None:
            self.owed = [found.owed or self._empty for found in checkpoints]
        self.stream.taken = self._taken = first.taken
        self._current = Sum(first.sums)

    def _begin(self, time: float) -> None:
        """Let workers begin whose time to join has come, with the replica of those who are there."""
        there = [runner for runner in self.runners if runner.work is not None]
        for runner in self.runners:
            if runner.work is None and not runner.ended and runner.machine.joins <= time:
                if there:
                    worker = there[0].worker
                    runner.worker.state, runner.worker.speeds = worker.state, worker.speeds
                    runner.worker.ending = worker.ending
                    runner.sums = there[0].sums - (there[0].blocked is not None)
                runner.time = runner.since = time
                runner.work = self.algorithm.work(runner.worker)

    def _run(self, runner: Runner) -> None:
        """Run a worker until it needs a sum that is not over."""
        assert runner.work is not None
        answer: Any = None
        if runner.blocked is not None:
            effect, runner.blocked = runner.blocked, None
        else:
            effect = None
        while True:
            try:
                if effect is None:
                    effect = runner.work.send(answer)
            except StopIteration:
                runner.ended = True
                return
            answer = self._answer(runner, effect)
            if answer is None:
                runner.blocked = effect
                return
            effect = None

    def _answer(self, runner: Runner, effect: Effect) -> Any:
        """Do what a worker asks for; None if it has to wait for others first."""
        worker = runner.worker
        match effect:
            case Compute(samples, weights):
                self._compute(runner, runner.machine.speed.finish(runner.time, samples + self._overhead), samples)
                return Batch(samples, worker.state, weights)
            case Offer(values, samples):
                return Batch(samples, worker.state, value=Share.of(values * np.float32(samples), samples))
            case Own(Batch() as batch):
                return Total(self._value(runner, batch))
            case Start(Batch() as batch):
                flight = self._current
                flight.begun[worker.rank], flight.batches[worker.rank] = runner.time, batch
                flight.last = flight.last or worker.ending
                runner.sums += 1
                return flight
            case Accumulate(until=Sum(done=float())):
                return self._accumulate(runner, effect)
            case Wait(Sum(done=float(done), total=total) as flight):
                runner.waited += max(done - runner.time, 0.0)
                runner.flight = smoothed(runner.flight, done - flight.begun[worker.rank])
                runner.time = runner.since = max(runner.time, done)
                return total
            case Accumulate() | Wait():
                return None
        raise TypeError(f"the virtual clock does not know {effect}")

    def _compute(self, runner: Runner, end: float, samples: float, idle: float = 0.0) -> None:
        seconds = end - runner.time - idle
        if seconds > 0 and samples:
            runner.speed = samples / seconds
        runner.computed += seconds
        runner.waited += idle
        runner.time = end

    def _accumulate(self, runner: Runner, effect: Accumulate) -> Batch:
        flight, speed = effect.until, runner.machine.speed
        assert isinstance(flight, Sum) and flight.done is not None
        expected = flight.begun[runner.worker.rank] + runner.flight
        deadline = flight.done + effect.grace * (flight.done - max(flight.begun.values()))
        time, samples, best, idle = max(runner.time, runner.busy), 0, 0.0, 0.0
        steps: list[int] = []
        while not samples or samples < effect.least or time < flight.done - ROUNDING:
            size = effect.micro
            if effect.fitted and time >= flight.done - ROUNDING:
                size = max(1, min(size, ceil(effect.least) - samples))
            elif effect.fitted:
                size = fitted(size, best or runner.rate, runner.flight, expected - time)
                if not size:
                    until = min(flight.done, expected + PART * runner.flight)
                    idle, time = idle + until - time, until
                    continue
            end = speed.finish(time, size + self._overhead)
            if end > deadline + ROUNDING:
                runner.busy = end if time < deadline else runner.busy
                time = deadline
                break
            best = max(best, size / (end - time))
            time, samples = end, samples + size
            steps.append(size)
        runner.rate = best or runner.rate
        self._compute(runner, time, samples, idle)
        assert effect.ahead is None or isinstance(effect.ahead, Batch)
        local = effect.local / effect.micro
        return Batch(
            samples, runner.worker.state, ahead=effect.ahead, trust=effect.trust, steps=tuple(steps) if local else (),
            local=local,
        )  # fmt: skip

    def _finish(self, flight: Sum) -> None:
        """End a sum that every worker has begun: its time, then its gradients."""
        self._bury(flight)
        flight.done = max(flight.begun.values()) + self._sync(flight.number)
        there = [self.runners[rank] for rank in sorted(flight.batches)]
        speeds = [0.0] * len(self.runners)
        for runner in there:
            speeds[runner.worker.rank] = runner.speed
        flight.total = Total(self._add(flight, there), tuple(speeds))
        self.finished.append(flight)
        self._taken = self.stream.taken
        self._current = Sum(flight.number + 1)
        if len(self.finished) > 1:  # what is over and heard needs its memory no more
            self.finished[-2].batches.clear()
            self.finished[-2].total = None

    def _bury(self, flight: Sum) -> None:
        """Take the dead out of a sum, which begins when the others have noticed."""
        while True:
            tentative = max(flight.begun.values()) + self._sync(flight.number)
            dead = [runner for runner in self.active if runner.machine.dies < tentative]
            if not dead:
                return
            if self._stop_on_death:
                raise WorkerLostError(
                    f"worker {dead[0].worker.rank} died at {dead[0].machine.dies:g} s, in sum {flight.number}"
                )
            for runner in dead:
                runner.ended, runner.work = True, None
                flight.begun.pop(runner.worker.rank)
                flight.batches.pop(runner.worker.rank)
            if not flight.begun:
                raise WorkerLostError("every worker has died")
            noticed = max(runner.machine.dies for runner in dead) + self._patience
            for rank in flight.begun:
                flight.begun[rank] = max(flight.begun[rank], noticed)

    def _add(self, flight: Sum, there: Sequence[Runner]) -> Share:
        batches = [flight.batches[runner.worker.rank] for runner in there]
        alone = any(isinstance(runner.blocked, Accumulate) and runner.blocked.ahead for runner in there)
        if self._loss or alone or any(batch.ahead or batch.steps for batch in batches):
            shares = [self._value(runner, batch) for runner, batch in zip(there, batches, strict=True)]
            if self._loss is None:
                return sum(shares[1:], shares[0])
            ranks = [runner.worker.rank for runner in there]
            mask = self._loss.arrived(flight.number, len(self.runners), chunks_of(self.problem.values))[ranks]
            mask |= flight.last
            owed = None if self.owed is None else [self.owed[rank] for rank in ranks]
            total, late = deliver(shares, mask, owed)
            for rank, share in zip(ranks, late, strict=False):
                assert self.owed is not None
                self.owed[rank] = share
            return total
        total = self._empty
        together: dict[int, list[Batch]] = {}
        for batch in batches:
            if batch.value is not None:
                total = total + batch.value if batch.value.samples else total
            elif batch.samples:
                weights = batch.state.weights if batch.weights is None else batch.weights
                together.setdefault(id(weights), []).append(batch)
        for group in together.values():
            weights = group[0].state.weights if group[0].weights is None else group[0].weights
            samples = round(sum(batch.samples for batch in group))
            share = Share.of(self.problem.gradient_sum(weights, self.stream.take(samples)), samples)
            total = total + share if total is not self._empty else share
        return total

    def _value(self, runner: Runner, batch: Batch) -> Share:
        """Compute a worker's gradients, once."""
        if batch.value is None:
            if not batch.samples:
                batch.value = self._empty
                return batch.value
            weights = self._weights(runner, batch)
            sums = np.zeros(self.problem.values, np.float32)
            for samples in batch.steps or (round(batch.samples),):
                part = self.problem.gradient_sum(weights, self.stream.take(samples))
                sums += part
                if batch.local:
                    weights = weights - np.float32(batch.local) * part
            batch.value = Share.of(sums, batch.samples)
            batch.ahead = None
        return batch.value

    def _weights(self, runner: Runner, batch: Batch) -> Floats:
        """Return the weights at which a worker takes a batch's gradients, or the first of them."""
        if batch.ahead is not None:
            return runner.worker.rule.ahead(batch.state, self._value(runner, batch.ahead), batch.trust)
        return batch.state.weights if batch.weights is None else batch.weights


def _batch(pending: Pending) -> Batch:
    assert isinstance(pending, Batch)
    return pending
