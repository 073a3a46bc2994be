# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Time to accuracy over a congested fabric, in real time: ABS-SGD over Gradlane against synchronous SGD over TCP.

The fabric, its background (a hot spine, incasts on hosts of the job) and its policies are the demo's. Four workers of
speeds 1, 1, 1/2, 1/4 train MNIST-5k; sums go through a parameter server. TCP's and Gradlane's settings are
chosen on trials; batch and step size of each algorithm are tuned in virtual time, at the T_sync that its transport was
measured to have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log2
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from gradlane.demo import policies
from gradlane.demo.bed import Bed, Roles, TcpTuning, load_fabric
from gradlane.demo.experiment import TRACE_SEED
from gradlane.demo.plan import LEVELS
from gradlane.uneven import SECONDS_PER_SAMPLE, SPEEDS
from gradlane.uneven_job import Trained, UnevenJob, Way
from tests.benchmarks.abs_sgd.methods import SAMPLES, Method, Setting
from tests.benchmarks.abs_sgd.runs import Runs
from tests.benchmarks.abs_sgd.study import settle
from tests.benchmarks.abs_sgd.tuning import Tuner, fixed
from topologies.errors import FailureError
from traffic.live import share
from traffic.wire import DataType


@dataclass(frozen=True)
class Carriage:
    """How Gradlane carries sums: what is tuned of it, as TCP's settings are of TCP."""

    drop: bool
    """Whether switches drop the least important packets from growing queues."""
    tolerance: float
    left_out: float
    wire: DataType

    def __str__(self) -> str:
        what = "selective drop" if self.drop else "no selective drop"
        return f"{what}, tolerance {self.tolerance:g}, {self.left_out:g} left out, {self.wire.name.lower()}"


RATE = 50e6
"""Of every link, bit/s."""
LEVEL = "heavy"
TARGET = 0.90
TRIAL_SECONDS, LONGEST_SECONDS = 3.5, 60.0
TUNINGS = (
    TcpTuning("cubic", 200, 256), TcpTuning("cubic", 5, 256), TcpTuning("bbr", 5, 256), TcpTuning("cubic", 5, 64),
)  # fmt: skip
CARRIAGES = tuple(
    Carriage(drop, *shares, wire)
    for wire in (DataType.FLOAT32, DataType.FLOAT16)
    for shares in ((0.2, 0.0), (0.4, 0.3))
    for drop in (True, False)
    if shares[1] or (drop and wire is DataType.FLOAT32)
)
SERVER = "h3"
PATIENCE = 10.0
"""Seconds of silence after which a worker is lost: under congestion none is to be."""
CLUSTER = " ".join(f"{speed:g}" for speed in SPEEDS)


@dataclass(frozen=True)
class Contestant:
    """An algorithm over a transport, under a policy."""

    name: str
    family: str
    """As methods.Method knows the algorithm."""
    transport: str

    @property
    def algorithm(self) -> str:
        """Its name to a worker's process."""
        return "synchronous" if self.family == "synchronous" else "abs_sgd"

    def way(self, batch: int, step: float, compensation: float = 0.75) -> Way:
        """Return what workers are told."""
        local = self.family == "abs_sgd_local"
        return Way(self.name, self.algorithm, batch, step, compensation, local, self.transport)


BASELINE = Contestant("synchronous SGD over TCP", "synchronous", "tcp")
OURS = Contestant("ABS-SGD over Gradlane", "abs_sgd_compensated", "gradlane")
STEPPING = Contestant("ABS-SGD with own steps over Gradlane", "abs_sgd_local", "gradlane")
BETWEEN = (
    OURS,
    Contestant("synchronous SGD over Gradlane", "synchronous", "gradlane"),
    Contestant("ABS-SGD over TCP", "abs_sgd_compensated", "tcp"),
)


@dataclass
class Contest:
    """The bed, and what has been found out on it."""

    bed: Bed
    console: Console
    trace: Path
    data: Path
    tuning: TcpTuning = TUNINGS[0]
    carriage: Carriage = CARRIAGES[0]
    trials: dict[str, float] = field(default_factory=dict)
    """Sums a second, by setting: of synchronous SGD over TCP, and of ABS-SGD over Gradlane."""
    syncs: dict[str, float] = field(default_factory=dict)
    """T_sync there, seconds."""

    def train(self, who: Contestant, way: Way, draw: int, target: float, seconds: float) -> Trained:
        """Train once, in a hash draw, with background."""
        bed = self.bed
        bed.draw(draw)
        queue = self.tuning.queue_packets
        carriage = self.carriage
        if who.transport == "tcp":
            bed.install(policies.fifo(queue))
        else:
            bed.install(policies.gradlane(queue, priority=False, drop=carriage.drop))
            way = replace(way, tolerance=carriage.tolerance, left_out=carriage.left_out, wire=carriage.wire)
        bed.tune(self.tuning)
        bed.start_background(self.trace, seconds + 30)
        try:
            slowness = [SECONDS_PER_SAMPLE / speed for speed in SPEEDS]
            with UnevenJob(
                bed.controller.running, bed.roles.workers, SERVER, way, slowness, target=target, seconds=seconds,
                data=self.data, patience=PATIENCE,
            ) as job:  # fmt: skip
                return job.run(bed.check)
        finally:
            bed.stop_background()

    def tune(self) -> None:
        """Choose TCP's settings by synchronous SGD's sums a second, and Gradlane's by ABS-SGD's."""
        for self.tuning in TUNINGS:
            self._try(BASELINE, str(self.tuning))
        self.tuning = max(TUNINGS, key=lambda tuning: self.trials[str(tuning)])
        for self.carriage in CARRIAGES:
            self._try(STEPPING, str(self.carriage))
        self.carriage = max(CARRIAGES, key=lambda carriage: self.trials[str(carriage)])

    def _try(self, who: Contestant, setting: str) -> None:
        try:
            way = who.way(8, 0.1) if who is STEPPING else who.way(64, 0.3)
            found = self.train(who, way, 0, 1.1, TRIAL_SECONDS)
            self.trials[setting] = found.told[-1].updates / found.told[-1].seconds
            self.syncs[setting] = _sync_seconds(who, found)
        except FailureError as error:
            self.trials[setting] = 0.0
            self.console.print(f"  {error}", markup=False)
        self.console.print(f"  {self.trials[setting]:.2f} sums/s  {setting}", markup=False)

    def sync_seconds(self, who: Contestant) -> float:
        """Return T_sync of a contestant's transport under this load."""
        setting = {BASELINE: str(self.tuning), STEPPING: str(self.carriage)}.get(who, who.name)
        if setting not in self.syncs:
            self._try(who, setting)
        return self.syncs[setting]


def _sync_seconds(who: Contestant, found: Trained) -> float:
    slowest = max(found.spent, key=lambda spent: spent.computed / max(spent.samples, 1))
    if who.algorithm == "synchronous":
        return slowest.waited / slowest.updates
    return slowest.seconds / slowest.updates


def tuned(runs: Runs, tuner: Tuner, who: Contestant, sync: float) -> tuple[Way, float]:
    """Return the way that is best in virtual time, and the ratio T_sync/T_compute that it is tuned for."""
    workers = len(SPEEDS)
    unit = SAMPLES / workers * SECONDS_PER_SAMPLE
    setting = Setting("mlp", workers, CLUSTER, 2 ** (round(2 * log2(sync / unit)) / 2))
    if who.family == "synchronous":
        settled = settle(runs, setting, tuner.batch(setting, Method("synchronous"), 32))
        assert settled is not None
        found, _ = settled
        return who.way(found.method.batch, found.step), setting.ratio
    settled = settle(runs, setting, fixed(tuner, setting, who.family)[0])
    assert settled is not None
    found, _ = settled
    return who.way(found.method.micro, found.step, found.method.compensation), setting.ratio


def run(
    runs: Runs, console: Console, folder: Path, keep: Callable[[dict[str, Any]], None], *, pairs: int, every: bool
) -> None:
    """Run the contest; `every` also measures each of the steps from the baseline to ours by itself.

    After each draw `keep` has the results until then.
    """
    tuner = Tuner(runs)
    contestants = (BASELINE, *BETWEEN, STEPPING) if every else (BASELINE, STEPPING)
    with Bed(load_fabric(RATE), Roles(), instance=None) as bed:
        trace = folder / f"background-{LEVEL}.json"
        LEVELS[LEVEL].trace(bed.roles, RATE, seed=TRACE_SEED).save(trace)
        contest = Contest(bed, console, trace, folder / "mnist")
        contest.data.mkdir(exist_ok=True)
        share("mnist", contest.data)
        console.print(f"tuning TCP under {LEVEL} background")
        contest.tune()
        ways: dict[str, Way] = {}
        ratios: dict[str, float] = {}
        syncs: dict[str, float] = {}
        for who in contestants:
            syncs[who.name] = contest.sync_seconds(who)
            ways[who.name], ratios[who.name] = tuned(runs, tuner, who, syncs[who.name])
            way = ways[who.name]
            console.print(f"{who.name}: T_sync {syncs[who.name] * 1e3:.0f} ms, batch {way.batch}, step {way.step:.3g}")
        found: dict[str, dict[int, Trained]] = {who.name: {} for who in contestants}
        failures: list[str] = []
        for draw in range(1, pairs + 1):
            for who in contestants if draw % 2 else contestants[::-1]:
                try:
                    trained = contest.train(who, ways[who.name], draw, TARGET, LONGEST_SECONDS)
                except FailureError as error:
                    failures.append(f"draw {draw}, {who.name}: {error}")
                    console.print(f"  {failures[-1]}", markup=False)
                    continue
                found[who.name][draw] = trained
                console.print(
                    f"  draw {draw}, {who.name}: {trained.last.accuracy:.1%} after {trained.seconds:.1f} s, "
                    f"{trained.samples_per_s:.0f} samples/s, {trained.lost:.1%} lost"
                )
            keep({**summary(found, contest, syncs, ratios), "failures": failures})


def summary(
    found: dict[str, dict[int, Trained]], contest: Contest, syncs: dict[str, float], ratios: dict[str, float]
) -> dict[str, Any]:
    """Return what the results file tells of the contest."""
    return {
        "rate_bps": RATE,
        "background": LEVEL,
        "target": TARGET,
        "chosen": {"tcp": str(contest.tuning), "gradlane": str(contest.carriage)},
        "trials_sums_per_s": contest.trials,
        "t_sync_s": {name: round(seconds, 4) for name, seconds in syncs.items()},
        "sync_over_compute": ratios,
        "speedup": _speedup(found, STEPPING),
        "runs": {name: [trained.as_dict() for trained in trainings.values()] for name, trainings in found.items()},
    }


def _speedup(found: dict[str, dict[int, Trained]], who: Contestant) -> dict[str, Any]:
    base, ours = found[BASELINE.name], found[who.name]
    both = [draw for draw in base if draw in ours and ours[draw].reached]
    pairs = [base[draw].seconds / ours[draw].seconds for draw in both]
    return {
        "by_pair": [round(pair, 3) for pair in pairs],
        "median": round(float(np.median(pairs)), 3) if pairs else None,
        "least": round(min(pairs), 3) if pairs else None,
        "most": round(max(pairs), 3) if pairs else None,
        "baseline_not_reached": sum(not trained.reached for trained in base.values()),
        "ours_not_reached": sum(not trained.reached for trained in ours.values()),
    }


def draw(result: dict[str, Any], path: Path) -> None:
    """Plot accuracy over seconds, every run."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colors = {BASELINE.name: "#8a8984", OURS.name: "#2a78d6", STEPPING.name: "#0b3d91"}
    others = iter(("#e8a33d", "#9b6bc9"))
    figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
    for name, runs in result["runs"].items():
        color = colors.get(name) or next(others)
        for place, trained in enumerate(runs):
            curve = [(told["seconds"], told["accuracy"]) for told in trained["curve"]]
            axes.plot(*zip(*curve, strict=True), color=color, label=None if place else name, linewidth=1.3)
    axes.axhline(result["target"], color="#e1e0d9")
    axes.set(xlabel="seconds", ylabel="accuracy held out", ylim=(0.5, 0.95))
    axes.set_title(f"over the fabric, {result['background']} background", loc="left", fontsize=10)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
