# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Tuning: every algorithm gets its best step size, and where asked its best batch, micro-batch and scaling too.

A grid is walked outward from a start until the best point has worse neighbours on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, log2

import numpy as np

from tests.benchmarks.abs_sgd.methods import FROZEN_BASELINES, Method, Setting
from tests.benchmarks.abs_sgd.runs import Runs
from traffic.training.rule import Scaling

TUNING_SEEDS = (0, 1)
STEPS = (0.02, 5.0)
"""Step sizes lie between these, by factors of 2 and, around the best, of its square root."""
BATCHES = (16, 4096)
"""Samples of all workers together that are tried."""
NEVER = 1e6
"""Seconds from which on a score says that the target was not reached."""
PATIENCE = 1.4
"""A run is given up that takes so many times the samples of the best so far."""


@dataclass(frozen=True)
class Tuned:
    """A method at its best step size."""

    method: Method
    step: float
    seconds: float
    """Mean over the tuning seeds."""
    interior: bool
    """Whether every tuned number has a worse neighbour on both sides, or is as small or large as it can be."""


def climb(start: int, score: Callable[[int], float], least: int, most: int) -> tuple[int, bool]:
    """Walk over whole numbers to where the score is least; also whether it is worse on both sides."""
    best, found = start, {start: score(start)}
    for direction in (1, -1):
        while least <= best + direction <= most:
            following = best + direction
            found[following] = score(following)
            if found[following] >= found[best]:
                break
            best = following
    return best, all(found.get(best + direction, -inf) >= found[best] for direction in (1, -1))


class Tuner:
    """Tunes methods in settings, starting from what was best before."""

    def __init__(self, runs: Runs, *, fine: bool = True) -> None:
        """`fine` also tries step sizes between the powers of 2."""
        self._runs, self._fine = runs, fine
        self._known: dict[tuple[Setting, Method], Tuned] = {}
        self._start: dict[tuple[str, str], float] = {}

    def step(self, setting: Setting, method: Method) -> Tuned:
        """Tune the step size alone."""
        if (setting, method) not in self._known:
            self._known[setting, method] = self._tune_step(setting, method)
        return self._known[setting, method]

    def _tune_step(self, setting: Setting, method: Method) -> Tuned:
        least = setting.cap / PATIENCE
        scores: dict[int, float] = {}

        def score(half_octave: int) -> float:
            nonlocal least
            step, limit = 2 ** (half_octave / 2), int(min(setting.cap, PATIENCE * least))
            if half_octave not in scores:
                seconds, samples = [], []
                for seed in TUNING_SEEDS:
                    seconds.append(self._runs.tta(setting, method, step, seed, limit))
                    if seconds[-1] == inf:  # what was learnt all the same tells the way
                        learnt = self._runs.curve(setting, method, step, seed, limit).accuracy
                        seconds[-1] = NEVER * (2 - max(learnt, default=0) + (limit < setting.cap))
                        break
                    samples.append(self._samples(setting, method, seconds[-1]))
                else:
                    least = min(least, max(samples))
                scores[half_octave] = max(seconds) if max(seconds) >= NEVER else float(np.mean(seconds))
            return scores[half_octave]

        low, high = (round(log2(bound)) for bound in STEPS)
        began = self._start.get((setting.model, method.family), 0.35)
        best, _ = climb(round(log2(began)), lambda octave: score(2 * octave), low, high)
        best *= 2
        if self._fine:
            best = min((best, best - 1, best + 1), key=score)
        interior = scores[best] < NEVER and all(score(best + side) >= scores[best] for side in self._sides)
        step = 2 ** (best / 2)
        if scores[best] < NEVER:
            self._start[setting.model, method.family] = step
        return Tuned(method, step, scores[best], interior)

    @property
    def _sides(self) -> tuple[int, int]:
        return (-1, 1) if self._fine else (-2, 2)

    def _samples(self, setting: Setting, method: Method, seconds: float) -> float:
        times = self._runs.times(setting, method)
        return float(np.interp(seconds, times.ends, np.cumsum(times.samples)))

    def batch(self, setting: Setting, method: Method, start: int, least: int | None = None) -> Tuned:
        """Tune a worker's batch, by powers of 2 from a start, and the step size for each."""
        low = max(1, (BATCHES[0] if least is None else least) // setting.workers)
        return self._axis(setting, start, low, BATCHES[1] // setting.workers, lambda size: replace(method, batch=size))

    def micro(self, setting: Setting, method: Method, start: int, least: int = 2, most: int = 256) -> Tuned:
        """Tune the micro-batch, by powers of 2, and the step size for each."""
        return self._axis(setting, start, least, most, lambda size: replace(method, micro=size))

    def compensation(self, setting: Setting, tuned: Tuned, start: int) -> Tuned:
        """Tune the compensation of a method that is tuned else, and the step size for each."""

        def of(place: int) -> Method:
            return replace(tuned.method, compensation=COMPENSATIONS[place])

        last = len(COMPENSATIONS) - 1
        best, interior = climb(start, lambda place: self.step(setting, of(place)).seconds, 0, last)
        found = self.step(setting, of(best))
        return replace(found, interior=found.interior and (interior or best in (0, last)))

    def samples(self, setting: Setting, method: Method) -> float:
        """Return the mean samples of an update."""
        return float(np.mean(self._runs.times(setting, method).samples[1:]))

    def _axis(self, setting: Setting, start: int, least: int, most: int, of: Callable[[int], Method]) -> Tuned:
        best, interior = climb(
            round(log2(start)), lambda octave: self.step(setting, of(2**octave)).seconds, round(log2(least)),
            round(log2(most)),
        )  # fmt: skip
        found = self.step(setting, of(2**best))
        return replace(found, interior=found.interior and (interior or best in (round(log2(least)), round(log2(most)))))


COMPENSATIONS = (1.0, 0.75, 0.5, 0.25, 0.125)


def fixed(tuner: Tuner, setting: Setting, family: str) -> list[Tuned]:
    """Tune what the comparison at a fixed batch lets one tune: the step size, and ABS-SGD's own numbers."""
    return [_fixed(tuner, setting, family)]


def free(tuner: Tuner, setting: Setting, family: str) -> list[Tuned]:
    """Tune everything. Returns the best, and what could be the best with more seeds: other batches, the fixed one."""
    best = _free(tuner, setting, family)
    found = [best, _fixed(tuner, setting, family)]
    if family in FROZEN_BASELINES:
        sizes = (best.method.batch // 2, best.method.batch * 2)
        found += [tuner.step(setting, replace(best.method, batch=size)) for size in sizes if size]
    return list({tuned.method: tuned for tuned in found}.values())


def _fixed(tuner: Tuner, setting: Setting, family: str) -> Tuned:
    if family.startswith("abs"):
        return _abs(tuner, setting, family)
    return tuner.step(setting, Method(family, setting.batch, setting.batch // 4 if family == "local_delayed" else 0))


def _free(tuner: Tuner, setting: Setting, family: str) -> Tuned:
    """Tune batch and step size; of ABS-SGD its own numbers, a target batch, and scaling by the batch."""
    if family == "local_delayed":
        return _local(tuner, setting)
    if not family.startswith("abs"):
        return tuner.batch(setting, Method(family), max(setting.batch // 4, 1))
    best = _abs(tuner, setting, family)
    if family == "abs_sgd_local":  # what a phase has beyond one micro-batch it makes use of
        return best
    if family != "abs_sgd":
        phase = tuner.samples(setting, best.method)
        start = 2 ** round(log2(max(1, 2 * phase / setting.workers)))
        with_target = tuner.batch(setting, best.method, start, least=start * setting.workers)
        best = min(best, with_target, key=lambda tuned: tuned.seconds)
    if setting.cluster == "changing":
        for scaling in (Scaling.SQUARE_ROOT, Scaling.LINEAR):
            best = min(best, tuner.step(setting, replace(best.method, scaling=scaling)), key=lambda t: t.seconds)
    return best


def _abs(tuner: Tuner, setting: Setting, family: str) -> Tuned:
    """Tune ABS-SGD's micro-batch and, where it has one, its compensation."""
    if family == "abs_sgd":
        return tuner.micro(setting, Method(family), _micro(setting))
    start = 1 if setting.workers < 8 else 2
    if family == "abs_sgd_local":
        own = tuner.micro(setting, Method(family, micro=8, compensation=COMPENSATIONS[1]), 8)
        return tuner.compensation(setting, own, 1)
    method = Method(family, compensation=COMPENSATIONS[start] if family == "abs_sgd_compensated" else 0.0)
    best = tuner.micro(setting, method, setting.batch, least=4, most=1024)
    return tuner.compensation(setting, best, start) if method.compensation else best


def _micro(setting: Setting) -> int:
    return max(2, min(16, setting.batch // 4))


def _local(tuner: Tuner, setting: Setting) -> Tuned:
    """Tune the local batch for each number of local steps, and that number, by powers of 2."""
    found: dict[int, Tuned] = {}

    def of(octave: int) -> float:
        steps = 2**octave
        best, interior = climb(
            3, lambda size: tuner.step(setting, Method("local_delayed", 2**size * steps, 2**size)).seconds, 1, 8
        )
        tuned = tuner.step(setting, Method("local_delayed", 2**best * steps, 2**best))
        found[octave] = replace(tuned, interior=tuned.interior and interior)
        return tuned.seconds

    best, interior = climb(2, of, 0, 8)
    return replace(found[best], interior=found[best].interior and (interior or best == 0))  # no fewer than one step
