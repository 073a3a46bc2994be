# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The two comparisons over all settings, as rows and speedups."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from math import inf, sqrt
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from scipy import stats

from tests.benchmarks.abs_sgd.methods import (
    BASELINES,
    CAP,
    FROZEN_BASELINES,
    FROZEN_OURS,
    OURS,
    SAMPLES,
    Method,
    Setting,
)
from tests.benchmarks.abs_sgd.runs import Curve, Runs, Times
from tests.benchmarks.abs_sgd.tuning import STEPS, Tuned, Tuner, fixed, free
from traffic.training.cluster import CLUSTERS

SEEDS = (0, 1, 2, 3, 4)
ALL_SEEDS, CLOSE = tuple(range(15)), 1.1
"""Seeds of the best of both sides where neither is so many times faster than the other."""
SURE_AFTER, SURELY = 3, 1.1
"""Seeds after which something so many times slower than the best is run no further."""
CHANCE, CURVE_POINTS = 0.1, 80
FIXED, ALL = "fixed_batch", "all_tuned"
COMPARISONS: dict[str, Callable[[Tuner, Setting, str], list[Tuned]]] = {FIXED: fixed, ALL: free}
HEADLINE = 1.0
"""The ratio T_sync/T_compute of the speedups without a ratio in their name."""
RATIOS = (0.25, 0.5, 1.0, 2.0, 4.0)


def settings(full: bool) -> Iterator[Setting]:
    """Yield what is measured: by default the main settings, else all."""
    clusters = list(CLUSTERS)
    yield from (Setting("mlp", 4, cluster, HEADLINE) for cluster in clusters)
    yield from (Setting("mlp", 4, "ladder", ratio) for ratio in (0.25, 4.0))
    if full:
        for cluster in ("ladder", "changing", "straggler", "homogeneous"):
            yield from (Setting("mlp", 16, cluster, HEADLINE), Setting("cnn", 4, cluster, HEADLINE))
        yield from (Setting("mlp", 4, "ladder", ratio) for ratio in (0.5, 2.0))
        yield from (Setting("mlp", 4, cluster, HEADLINE, modelled=True) for cluster in ("ladder", "homogeneous"))
        others = ("changing", "homogeneous", "straggler")
        yield from (Setting("mlp", 4, cluster, ratio) for cluster in others for ratio in (0.25, 4.0, 0.5, 2.0))


@dataclass(frozen=True)
class Row:
    """One algorithm at its best in one setting and comparison."""

    setting: Setting
    comparison: str
    tuned: Tuned
    seconds: tuple[float, ...]
    """To the target accuracy, by seed."""
    samples_per_s: float
    updates_per_s: float
    waiting: float
    curve: tuple[list[float], list[float]]
    """Times and accuracies, means over seeds."""

    @property
    def family(self) -> str:
        """Return the algorithm's name."""
        return self.tuned.method.family

    @property
    def mean(self) -> float:
        """Return the mean seconds to the target."""
        return float(np.mean(self.seconds))

    def as_dict(self) -> dict[str, Any]:
        """Return a row of the results file."""
        setting, method = self.setting, self.tuned.method
        return {
            "cluster": setting.cluster,
            "workers": setting.workers,
            "model": setting.model,
            "sync_over_compute": setting.ratio,
            "sync_modelled": setting.modelled,
            "comparison": self.comparison,
            "algorithm": self.family,
            "step_size": round(self.tuned.step, 4),
            "batch_per_worker": method.batch or None,
            "micro_batch": method.micro or None,
            "compensation": method.compensation or None,
            "scaling": method.scaling.value,
            "interior": self.tuned.interior,
            "tta": {"mean": _finite(self.mean), "ci95": _finite(_ci95(self.seconds)), "runs": len(self.seconds)},
            "samples_per_s": round(self.samples_per_s, 1),
            "samples_per_update": round(self.samples_per_s / self.updates_per_s, 1),
            "updates_per_s": round(self.updates_per_s, 3),
            "waiting": round(self.waiting, 4),
        }


def _finite(figure: float) -> float | None:
    return round(figure, 3) if figure < inf else None


def _ci95(values: tuple[float, ...]) -> float:
    """Return half the width of the 95 % confidence interval of a mean (Student's t)."""
    if inf in values:
        return inf
    return float(stats.t.ppf(0.975, len(values) - 1) * np.std(values, ddof=1) / sqrt(len(values)))


def _score(seconds: tuple[float, ...]) -> tuple[int, float]:
    """Return what is less for better: first the seeds that did not come to the target, then the others' mean."""
    reached = [each for each in seconds if each < inf]
    return len(seconds) - len(reached), float(np.mean(reached)) if reached else inf


def _seconds(
    runs: Runs, setting: Setting, method: Method, step: float, best: tuple[float, ...] | None = None
) -> tuple[float, ...] | None:
    """Return the seconds to the target with every seed; None if the first seeds show no less than `best`."""
    seconds: tuple[float, ...] = ()
    for seed in SEEDS:
        seconds += (runs.tta(setting, method, step, seed),)
        if best is None or inf in best or len(seconds) < SURE_AFTER:
            continue
        if _score(seconds) > (0, SURELY * float(np.mean(best[: len(seconds)]))):
            return None
    return seconds


def settle(
    runs: Runs, setting: Setting, tuned: Tuned, best: tuple[float, ...] | None = None
) -> tuple[Tuned, tuple[float, ...]] | None:
    """Lower a step that few seeds have tuned while that is better with all; returns their seconds to the target too.

    None if they are surely not less than the best, those of something else.
    """
    method, step = tuned.method, tuned.step
    seconds = _seconds(runs, setting, method, step, best)
    if seconds is None:
        return None
    while step > STEPS[0]:
        lower = _seconds(runs, setting, method, step / sqrt(2), seconds)
        if lower is None or _score(lower) >= _score(seconds):
            break
        step, seconds = step / sqrt(2), lower
    return replace(tuned, step=step), seconds


def measure(runs: Runs, tuner: Tuner, setting: Setting, comparison: str, family: str) -> Row:
    """Tune one algorithm, then run it with every seed.

    Few seeds have tuned the step: with all of them the next smaller one is tried too, and so on while that is better.
    """
    first, *others = COMPARISONS[comparison](tuner, setting, family)
    found = settle(runs, setting, first)
    assert found is not None
    for other in others:
        settled = settle(runs, setting, other, found[1])
        if settled is not None and _score(settled[1]) < _score(found[1]):
            found = settled
    tuned, seconds = found
    method, step = tuned.method, tuned.step
    times = runs.times(setting, method)
    phases = slice(1, None) if times.samples[0] == 0 else slice(None)
    samples = float(times.samples[phases].mean())
    length = float(times.ends[-1] - times.ends[0]) / (len(times.ends) - 1)
    curve = _mean_curve(times, [runs.curve(setting, method, step, seed) for seed in SEEDS])
    return Row(setting, comparison, tuned, seconds, samples / length, 1 / length, times.waiting, curve)


def confirm(runs: Runs, rows: list[Row]) -> list[Row]:
    """Return one comparison's rows with all seeds for the best of both sides, where these are close."""
    rows = list(rows)
    while True:
        found = speedup(rows)
        best = [at for at, row in enumerate(rows) if row is found.ours or row is found.baseline]
        short = [at for at in best if len(rows[at].seconds) < len(ALL_SEEDS)]
        if not short or not 1 / CLOSE < found.value < CLOSE:
            return rows
        for at in short:
            row = rows[at]
            seconds = (runs.tta(row.setting, row.tuned.method, row.tuned.step, seed) for seed in ALL_SEEDS)
            rows[at] = replace(row, seconds=tuple(seconds))


def _mean_curve(times: Times, curves: list[Curve]) -> tuple[list[float], list[float]]:
    """Return times and the mean over runs of the accuracy by then, itself the mean of three evaluations.

    A run's last accuracy counts from its end on: it ends when it has reached the target.
    """
    runs = []
    for curve in curves:
        at = times.ends[np.array(curve.updates[1:-1], np.int64) - 1]
        accuracy = np.convolve(curve.accuracy, np.ones(3) / 3, "valid")
        runs.append((np.append(0.0, at), np.append(CHANCE, accuracy[: len(at)])))
    grid = np.linspace(0.0, max(at[-1] for at, _ in runs), CURVE_POINTS)
    return grid.tolist(), np.mean([np.interp(grid, at, accuracy) for at, accuracy in runs], 0).tolist()


@dataclass(frozen=True)
class Speedup:
    """How much sooner ABS-SGD gets there than the best baseline, by the means over seeds."""

    setting: Setting
    comparison: str
    ours: Row
    baseline: Row
    frozen_ours: Row
    """The best without own steps."""
    frozen_baseline: Row
    """The best but for local SGD."""
    plain: Row
    """ABS-SGD as published: back to back, not compensated."""

    @property
    def value(self) -> float:
        """Best of ours over best of the baselines, all against all."""
        return self.baseline.mean / self.ours.mean

    @property
    def ci95(self) -> float:
        """Half the width of its 95 % confidence interval: both sides have the same data and weights for each seed."""
        seeds = min(len(self.ours.seconds), len(self.baseline.seconds))
        ours, theirs = (np.array(row.seconds[:seeds]) for row in (self.ours, self.baseline))
        if not (np.isfinite(ours).all() and np.isfinite(theirs).all()):
            return inf
        return _ci95(tuple(theirs - theirs.mean() / ours.mean() * ours)) / float(ours.mean())  # the delta method

    @property
    def frozen(self) -> float:
        """The same among those who compute a phase's gradients at the same weights."""
        return self.frozen_baseline.mean / self.frozen_ours.mean

    def as_dict(self) -> dict[str, Any]:
        """Return it with what it is made of."""
        return {
            "speedup": _finite(self.value),
            "ci95": _finite(self.ci95),
            "runs": len(self.ours.seconds),
            "ours": self.ours.family,
            "best_baseline": self.baseline.family,
            "speedup_frozen": _finite(self.frozen),
            "ours_frozen": self.frozen_ours.family,
            "best_baseline_frozen": self.frozen_baseline.family,
            "back_to_back": _finite(self.frozen_baseline.mean / self.plain.mean),
        }


def speedup(rows: list[Row]) -> Speedup:
    """Compare the rows of one setting and comparison."""
    by_family = {row.family: row for row in rows}

    def best(families: tuple[str, ...]) -> Row:
        return min((by_family[family] for family in families), key=lambda row: row.mean)

    return Speedup(
        rows[0].setting, rows[0].comparison, best(OURS), best(BASELINES), best(FROZEN_OURS), best(FROZEN_BASELINES),
        by_family["abs_sgd"],
    )  # fmt: skip


FAMILIES = (*BASELINES, *OURS)


@dataclass(frozen=True)
class Measured:
    """A setting, in both comparisons."""

    rows: list[Row]
    made: int
    """Runs that it took."""
    seconds: float
    """Of a processor."""


@cache
def _runs(path: Path) -> Runs:
    return Runs(path)


def measure_setting(path: Path, setting: Setting) -> Measured:
    """Measure every algorithm in a setting, with the runs that are kept in a file."""
    runs, began = _runs(path), process_time()
    runs.refresh()
    made = runs.made
    tuner = Tuner(runs, fine=setting.model == "mlp")
    rows = []
    for comparison in COMPARISONS:
        rows += confirm(runs, [measure(runs, tuner, setting, comparison, family) for family in FAMILIES])
    return Measured(rows, runs.made - made, process_time() - began)


def summary(rows: list[Row], speedups: list[Speedup]) -> dict[str, Any]:
    """Return the content of the results file."""
    headline: dict[str, dict[str, float]] = {FIXED: {}, ALL: {}}
    frozen: dict[str, dict[str, float]] = {FIXED: {}, ALL: {}}
    for found in speedups:
        if found.setting == Setting("mlp", 4, found.setting.cluster, HEADLINE):
            headline[found.comparison][found.setting.cluster] = round(found.value, 3)
            frozen[found.comparison][found.setting.cluster] = round(found.frozen, 3)
    return {
        "unit": f"seconds; T_compute = 1 s is what a worker of full speed needs for its part of {SAMPLES} samples",
        "given_up_after_samples": f"{CAP}, times T_sync / T_compute where that is more than 1",
        "rows": [row.as_dict() for row in rows],
        "speedup": headline,
        "speedup_frozen": frozen,
        "speedup_mean_heterogeneous": _means(headline),
        "speedup_frozen_mean_heterogeneous": _means(frozen),
        "speedups": [
            {
                "model": found.setting.model,
                "workers": found.setting.workers,
                "cluster": found.setting.cluster,
                "sync_over_compute": found.setting.ratio,
                "sync_modelled": found.setting.modelled,
                "comparison": found.comparison,
                **found.as_dict(),
            }
            for found in speedups
        ],
    }


def _means(headline: dict[str, dict[str, float]]) -> dict[str, float]:
    """Return the mean over the heterogeneous clusters, by comparison."""
    return {
        comparison: round(float(np.mean([value for name, value in by.items() if name != "homogeneous"])), 3)
        for comparison, by in headline.items()
        if by.keys() - {"homogeneous"}
    }
