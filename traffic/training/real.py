# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The real clock: one worker's process, real gradients in real time, sums over a real network."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from math import ceil, inf
from types import TracebackType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from topologies.errors import FailureError
from traffic.collectives.names import EXACT
from traffic.training.checkpoint import Checkpoint
from traffic.training.effects import Accumulate, Algorithm, Compute, Effect, Offer, Own, Start, Wait, Worker
from traffic.training.fitting import PART, fitted, smoothed
from traffic.training.problem import Problem, Stream
from traffic.training.rule import Rule, State
from traffic.training.share import CHUNK_VALUES, Floats, Share, Total, chunks_of

SUMS, NOTES, LAST = 0, EXACT, EXACT + 1
"""Tensors of a round: the share, of which packets may be lost; what goes with it, of which none may; the share of a
training's last sum, of which none may either."""

FIRST_ROUND = 1
"""Of a group's training: in round 0 the workers agree on where to begin."""


class Reduced(Protocol):
    """What a sum gives."""

    @property
    def values(self) -> Floats:
        """The sum, of the shape of what was given."""


class Reducer(Protocol):
    """Adds up tensors over the workers: `traffic.collectives.Communicator` with Op.SUM is one."""

    def all_reduce(self, values: Floats, *, tensor: int, layer: int = 0, round: int, weight: int = 1) -> Future[Any]:
        """Begin the sum of a tensor; the future holds Reduced."""

    def owed(self, tensor: int, size: int, *, failed: int | None = None) -> Floats | None:
        """Return what error feedback owes to a tensor of so many values, as Communicator.owed does."""


class NotFiniteError(FailureError):
    """A worker's gradients are no numbers: it must not bring them to a sum, nor come back with them."""


@runtime_checkable
class Keeper(Protocol):
    """A rule that remembers more than a State holds, or a source that remembers more than its place."""

    def kept(self) -> bytes:
        """Return what it remembers."""

    def keep(self, kept: bytes) -> None:
        """Go on from what it remembered, or another worker's did."""


@runtime_checkable
class Source(Protocol):
    """Where a worker's gradients come from."""

    values: int
    taken: int
    """Samples drawn until now; a resumed training sets it, where it can be set."""

    def initial(self) -> Floats:
        """Return the weights to start from, shape (values,)."""

    def share(self, weights: Floats, samples: int) -> Share:
        """Compute the gradients of the next samples; about so many, if it is the source that decides."""


class Sampler:
    """Draws a problem's samples at random."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self._problem, self._stream = problem, Stream(problem.population, seed)
        self.values = problem.values

    @property
    def taken(self) -> int:
        """Samples drawn until now."""
        return self._stream.taken

    @taken.setter
    def taken(self, samples: int) -> None:
        self._stream.taken = samples

    def initial(self) -> Floats:
        """Return the weights to start from."""
        return self._problem.initial()

    def share(self, weights: Floats, samples: int) -> Share:
        """Compute the gradients of the next samples."""
        return Share.of(self._problem.gradient_sum(weights, self._stream.take(samples)), samples)


@dataclass
class Progress:
    """Where a worker's time and samples went."""

    phases: int = 0
    computed: float = 0.0
    """Seconds of computing."""
    waited: float = 0.0
    """Seconds of waiting for sums."""
    samples: int = 0
    discarded: int = 0
    """Samples of micro-batches that were given up because they took too long."""
    seconds: float = 0.0


class Flight:
    """A sum under way."""

    def __init__(self, sums: Future[Any], notes: Future[Any], values: int) -> None:
        self._futures, self._values = (sums, notes), values
        self.began, self._ended = time.monotonic(), inf
        for future in self._futures:
            future.add_done_callback(lambda _: self.ended)

    @property
    def over(self) -> bool:
        """Whether it has come."""
        return all(future.done() for future in self._futures)

    @property
    def ended(self) -> float:
        """When it came, or infinity. A future is done before it calls back: whoever sees that first notes the time."""
        if self._ended == inf and self.over:
            self._ended = time.monotonic()
        return self._ended

    @property
    def missing(self) -> list[Future[Any]]:
        """What has not come."""
        return [future for future in self._futures if not future.done()]

    def total(self, size: int) -> Total:
        """Wait for the sum. Raises what the reducer raises."""
        sums, notes = (future.result().values for future in self._futures)
        share = Share.decode(sums, self._values)
        return Total(share, tuple(map(float, notes[:size])), ending=bool(notes[size] > 0))


class RealTraining:
    """One worker of a job; a context manager, which ends its thread."""

    def __init__(
        self,
        problem: Problem | Source,
        algorithm: Algorithm,
        rule: Rule,
        rank: int = 0,
        size: int = 1,
        reducer: Reducer | None = None,
        *,
        seed: int = 0,
        seconds_per_sample: float = 0.0,
        state: State | None = None,
        on_update: Callable[[RealTraining, Total], None] = lambda training, total: None,
    ) -> None:
        """Set out from `state`, by default the problem's weights; who else trains may also be told by `regroup`.

        The worker draws samples of its own: `seed` and rank decide. With `seconds_per_sample` computing takes at least
        that long, as on a slower machine. `on_update` is called after every sum, once it is applied.
        """
        self.reducer = reducer
        self._source = problem if isinstance(problem, Source) else Sampler(problem, seed * 65_537 + rank)
        self._values = self._source.values
        replica = state or State(self._source.initial())
        self.worker = Worker(rank, size, rule, replica, Share.nothing(self._values))
        self.algorithm = algorithm
        self.progress = Progress()
        self.seconds_per_sample = seconds_per_sample
        self.wants_end = False
        """Whether this worker asks all to end; they do so with the same sum."""
        self.round = FIRST_ROUND
        self._on_update = on_update
        self._speed = self._rate = self._expected = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gradients")
        self._stuck: Future[Share] | None = None
        self._settled = False
        """Whether training has ended, and every gradient is in a sum."""
        self._owed: Share | None = None
        """Of error feedback: what is to go with the next sum, of a generation before or a checkpoint."""
        self._sent: Share | None = None
        """The same, of the sum under way."""
        self._flying: int | None = None
        """The round of the sum under way."""
        self._last = False
        """Whether that is the training's last one, which brings what was owed besides."""

    def __enter__(self) -> RealTraining:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown(wait=True, cancel_futures=True)

    def run(self, phases: float = inf) -> Progress:
        """Train for so many sums, the same number at every worker, or until one wants to end; then end cleanly.

        Raises what the reducer raises; `regroup` is then the way to go on.
        """
        began = time.monotonic()
        work = self.algorithm.work(self.worker)
        effect = next(work, None)
        try:
            while effect is not None:
                answer = self._answer(effect)
                summed = isinstance(effect, Wait)
                if summed:
                    self._sent = self._flying = None
                    self.progress.phases += 1
                    self.worker.ending = self.worker.ending or self.progress.phases >= phases
                try:
                    effect = work.send(answer)
                except StopIteration:
                    effect, self._settled = None, True
                if summed:
                    self._on_update(self, answer)
            return self.progress
        finally:
            work.close()
            self.progress.seconds += time.monotonic() - began

    def regroup(self, reducer: Reducer, rank: int, size: int, newest: State) -> None:
        """Go on with other workers after a sum that failed, from the state of whoever had applied the most sums.

        Of this worker's gradients what is in no sum that counts goes into the next one. A sum that others have applied
        and this worker has not heard of holds what it had sent.
        """
        worker = self.worker
        heard = newest.updates == worker.state.updates
        carried = Share.nothing(self._values)
        for share, counts in ((worker.carried, heard and not self._settled), (worker.gathered, True)):
            if isinstance(share, Share) and counts:
                carried = carried + share
        self._owed, self._sent, self._flying = self._debt(failed=heard), None, None
        worker.carried, worker.gathered, worker.state = carried, None, newest
        worker.rank, worker.size, worker.speeds = rank, size, ()
        self.reducer, self.round = reducer, FIRST_ROUND

    def _debt(self, *, failed: bool) -> Share | None:
        """Return what error feedback owes of this worker's; `failed`: no worker has the sum that was under way."""
        if self._settled or (self._flying is not None and self._last and not failed):
            return None  # it was in the last sum
        owed = [share for share in (self._owed, self._sent if failed else None) if share is not None]
        size = chunks_of(self._values) * (CHUNK_VALUES + 1)
        late = self.reducer.owed(SUMS, size, failed=self._flying if failed else None) if self.reducer else None
        if late is not None:
            owed.append(Share.decode(late, self._values))
        return sum(owed[1:], owed[0]) if owed else None

    def checkpoint(self) -> Checkpoint:
        """Return what this worker goes on from; for `on_update` to call."""
        worker, rule, source = self.worker, self.worker.rule, self._source
        carried = Share.nothing(self._values) if self._settled else worker.carried
        assert isinstance(carried, Share)
        return Checkpoint(
            worker.state,
            carried,
            owed=self._debt(failed=False),
            local=worker.local,
            speeds=worker.speeds,
            kept=rule.kept() if isinstance(rule, Keeper) else b"",
            source=source.kept() if isinstance(source, Keeper) else b"",
            taken=source.taken,
            speed=self._speed,
            sums=self.round,
            rate=self._rate,
            flight=self._expected,
        )

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from there, before `run`: the same rank, of as many workers. Raises UsageError for another model's."""
        worker, rule, source = self.worker, self.worker.rule, self._source
        checkpoint.check(self._values)
        worker.state, worker.carried, worker.local = checkpoint.state, checkpoint.carried, checkpoint.local
        worker.speeds, self._owed = checkpoint.speeds, checkpoint.owed
        source.taken = checkpoint.taken
        for kept, keeper in ((checkpoint.kept, rule), (checkpoint.source, source)):
            if isinstance(keeper, Keeper) and kept:
                keeper.keep(kept)
        self._speed, self._rate, self._expected = checkpoint.speed, checkpoint.rate, checkpoint.flight

    def _answer(self, effect: Effect) -> Any:
        match effect:
            case Compute(samples, weights):
                return self._compute(samples, self.worker.state.weights if weights is None else weights)
            case Accumulate(until=Flight() as flight):
                return self._accumulate(effect, flight)
            case Offer(values, samples):
                return Share.of(values * np.float32(samples), samples)
            case Own(Share() as share):
                return Total(share)
            case Start(Share() as share):
                return self._start(share)
            case Wait(Flight() as flight):
                began = time.monotonic()
                total = flight.total(self.worker.size)
                self.progress.waited += time.monotonic() - began
                self._expected = smoothed(self._expected, flight.ended - flight.began)
                return total
        raise TypeError(f"the real clock does not know {effect}")

    def _start(self, share: Share) -> Flight:
        assert self.reducer is not None, "nobody has told who trains"
        size = self.worker.size
        notes = np.zeros(size + 1, np.float32)
        notes[self.worker.rank], notes[size] = self._speed, self.wants_end
        last = self.worker.ending
        late, self._sent = self._debt(failed=False) if last else self._owed, self._owed
        if late is not None:
            share = share + late
        number, self.round, self._owed = self.round, self.round + 1, None
        self._flying, self._last = number, last
        samples = round(share.samples)
        return Flight(
            self.reducer.all_reduce(share.encode(), tensor=LAST if last else SUMS, round=number, weight=samples),
            self.reducer.all_reduce(notes, tensor=NOTES, round=number),
            self._values,
        )

    # ---- computing

    def _gradients(self, samples: int, weights: Floats) -> Share:
        """Compute gradients, in the thread that does, as slowly as this worker is declared to be."""
        began = time.monotonic()
        share = self._source.share(weights, samples)
        if not np.isfinite(share.sums).all():
            raise NotFiniteError(
                f"this worker's gradients are no longer finite after update {self.worker.state.updates}: "
                "the step size may be too large, or a sample is broken"
            )
        time.sleep(max(0.0, began + share.samples * self.seconds_per_sample - time.monotonic()))
        return share

    def _count(self, share: Share, seconds: float) -> Share:
        self.progress.computed += seconds
        self.progress.samples += round(share.samples)
        if seconds and share.samples:
            self._speed = share.samples / seconds
        return share

    def _compute(self, samples: int, weights: Floats) -> Share:
        began = time.monotonic()
        if not samples:
            return Share.nothing(self._values)
        share = self._thread.submit(self._gradients, samples, weights).result()
        return self._count(share, time.monotonic() - began)

    def _accumulate(self, effect: Accumulate, flight: Flight) -> Share:
        began = time.monotonic()
        weights = self.worker.state.weights
        if isinstance(effect.ahead, Share):
            weights = self.worker.rule.ahead(self.worker.state, effect.ahead, effect.trust)
        share, best, idle = Share.nothing(self._values), 0.0, 0.0
        while not (flight.over and share.samples >= max(effect.least, 1)):
            now = time.monotonic()
            size = self._size(effect, flight, share.samples, best or self._rate, now)
            if not size:
                until = flight.began + (1 + PART) * self._expected
                wait(flight.missing, timeout=max(0.0, until - now))
                idle += time.monotonic() - now
                continue
            future = self._stuck or self._thread.submit(self._gradients, size, weights)
            if not _in_time(future, flight, effect.grace):
                if future is not self._stuck:
                    self.progress.discarded += size
                self._stuck = future
                break
            if future is self._stuck:  # gradients at weights long gone
                self._stuck = None
                future.result()
            else:
                part = future.result()
                share = share + part
                if effect.local:
                    weights = weights - np.float32(effect.local / effect.micro) * part.sums
                best = max(best, part.samples / (time.monotonic() - now))
        self._rate = best or self._rate
        self.progress.waited += idle
        return self._count(share, time.monotonic() - began - idle)

    def _size(self, effect: Accumulate, flight: Flight, samples: float, rate: float, now: float) -> int:
        """Return the samples of the next micro-batch; 0: none before the flight is over, or overdue."""
        if not effect.fitted or self._stuck:
            return effect.micro
        if flight.over:
            return max(1, min(effect.micro, ceil(effect.least - samples)))
        return fitted(effect.micro, rate, self._expected, flight.began + self._expected - now)


def _in_time(future: Future[Share], flight: Flight, grace: float) -> bool:
    """Wait for a micro-batch; False if it takes `grace` times as long as the flight did beyond the flight's end."""
    if grace == inf:
        wait([future])
        return True
    while not future.done() and not flight.over:
        wait([future, *flight.missing], return_when=FIRST_COMPLETED)
    if not future.done():
        patience = flight.ended + grace * (flight.ended - flight.began) - time.monotonic()
        wait([future], timeout=max(0.0, patience))
    return future.done()
