# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Runs of training, each made once: when the accuracy was reached, and the curve.

How long phases take and how many samples they have does not depend on what is learnt. So a run is two: the times, once
for a setting and a method; and the curve over updates, once for each sequence of batch sizes, step size and seed, which
synchronous SGD and LB-BSP, or one static cluster and another, often have in common.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.abs_sgd import compiled, methods
from tests.benchmarks.abs_sgd.methods import CAP, OVERHEAD, TARGETS, Method, Setting, problem
from traffic import convolution, model
from traffic.collectives.job import Job, Op
from traffic.training import (
    algorithms,
    cluster,
    effects,
    fitting,
    lossy,
    rule,
    share,
    virtual,
)
from traffic.training import (
    problem as problems,
)
from traffic.training.algorithms import abs_sgd, delayed, local, synchronous
from traffic.training.modelled import ModelledSync
from traffic.training.problem import Timing
from traffic.training.rule import Rule
from traffic.training.virtual import VirtualTraining
from traffic.transport.tolerance import Tolerance
from traffic.transport.virtual import Port, Trouble

EVERY = 768
"""Samples, at least, between evaluations."""
HOPELESS, HOPELESS_AFTER = 0.3, 12_000
SOURCES = (methods, compiled, convolution, model, algorithms, abs_sgd, delayed, local, synchronous, cluster, effects,
           fitting, lossy, problems, rule, share, virtual)  # fmt: skip


def fingerprint() -> str:
    """Return a hash of the code whose results are kept."""
    code = hashlib.sha256()
    for module in SOURCES:
        code.update(Path(str(module.__file__)).read_bytes())
    code.update((compiled.HERE / "gradients.c").read_bytes())
    return code.hexdigest()[:12]


@dataclass(frozen=True)
class Times:
    """The phases of a method in a setting, whatever it learns."""

    ends: NDArray[np.float64]
    """When every worker has applied update i, seconds, shape (updates,)."""
    samples: NDArray[np.float64]
    """Samples behind update i, shape (updates,)."""
    waiting: float
    """Share of the workers' time in which they wait."""
    identity: str
    """The same for runs that learn the same at the same step size and seed."""


@dataclass(frozen=True)
class Curve:
    """What one run learnt: accuracy after some of its updates."""

    updates: list[int]
    accuracy: list[float]

    def crossing(self, target: float) -> float:
        """Return the number of updates, with a fraction, at which accuracy reaches the target, or inf.

        Accuracy is the mean of three evaluations that follow each other.
        """
        if len(self.accuracy) < 3:
            return inf
        values = np.convolve(self.accuracy, np.ones(3) / 3, "valid")
        above = np.flatnonzero(values >= target)
        if not len(above):
            return inf
        at = int(above[0])
        if at == 0:
            return float(self.updates[1])
        share = (target - values[at - 1]) / (values[at] - values[at - 1])
        return self.updates[at] + float(share) * (self.updates[at + 1] - self.updates[at])


class Runs:
    """All runs, kept in a file, so that an interrupted study goes on."""

    def __init__(self, path: Path) -> None:
        """Read what is there; results of other code are not used."""
        self.path, self._read = path, 0
        self._code = fingerprint()
        self._times: dict[tuple[Setting, Method], Times] = {}
        self._curves: dict[str, tuple[Curve, int]] = {}
        self.made = 0
        """Runs that were not in the file."""
        self.refresh()

    def refresh(self) -> None:
        """Read what other processes have written since."""
        if not self.path.exists():
            return
        with self.path.open() as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith("\n"):  # still being written
                    break
                self._read += len(line.encode())
                row = json.loads(line)
                if row["code"] == self._code:
                    self._curves[row["key"]] = Curve(row["updates"], row["accuracy"]), row["limit"]

    def times(self, setting: Setting, method: Method) -> Times:
        """Return the phases until a run is given up."""
        key = (setting, method)
        if key not in self._times:
            training = self._training(setting, method, Timing(), Rule(1.0), 0)
            ends, counts, parts = [], [], hashlib.sha256()
            drawn = 0.0
            while drawn < setting.cap:
                training.advance()
                ends.append(training.time)
                total = training.finished[-1]
                counts.append(0.0 if total.total is None else total.total.samples)
                drawn += counts[-1] if method.family != "local_delayed" else method.batch * setting.workers
                if drawn < CAP:  # what is the same until then stays the same
                    each = [total.batches[rank].samples for rank in sorted(total.batches)]
                    parts.update(json.dumps(each if method.alone else sum(each)).encode())
            waited = sum(runner.waited for runner in training.runners)
            tag = (setting.model, method.alone and (setting.workers, asdict(training.algorithm)), method.scaling.value)  # type: ignore[call-overload]
            self._times[key] = Times(
                np.array(ends),
                np.array(counts),
                waited / (setting.workers * training.time),
                f"{_kind(method)} {tag} {parts.hexdigest()[:16]}",
            )
        return self._times[key]

    def curve(self, setting: Setting, method: Method, step: float, seed: int, limit: int | None = None) -> Curve:
        """Return what a run learns until it reaches the target, or until `limit` samples, or is given up."""
        limit = limit or setting.cap
        times = self.times(setting, method)
        key = f"{times.identity} {step:.6g} {seed}"
        known = self._curves.get(key)
        if known and (known[0].crossing(TARGETS[setting.model]) < inf or known[1] >= limit):
            return known[0]
        curve = self._learn(setting, method, step, seed, limit)
        self._curves[key] = curve, limit
        self.made += 1
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            row = {"code": self._code, "key": key, "limit": limit, **asdict(curve)}
            file.write(json.dumps(row) + "\n")
        return curve

    def tta(self, setting: Setting, method: Method, step: float, seed: int, limit: int | None = None) -> float:
        """Return the seconds to the target accuracy; inf if it was not reached."""
        crossing = self.curve(setting, method, step, seed, limit).crossing(TARGETS[setting.model])
        if crossing == inf:
            return inf
        ends = self.times(setting, method).ends
        return float(np.interp(crossing, np.arange(len(ends) + 1), np.concatenate([[0.0], ends])))

    def _training(self, setting: Setting, method: Method, what: Any, rule: Rule, seed: int) -> VirtualTraining:
        return VirtualTraining(
            what,
            method.algorithm(),
            rule,
            setting.machines(),
            _modelled(setting) if setting.modelled else lambda _: setting.ratio,
            seed=seed,
            overhead=OVERHEAD,
        )

    def _learn(self, setting: Setting, method: Method, step: float, seed: int, limit: int) -> Curve:
        what = problem(setting.model, seed)
        training = self._training(setting, method, what, method.rule(step, setting.workers), seed)
        target = TARGETS[setting.model]
        updates: list[int] = []
        accuracy: list[float] = []
        evaluated = 0
        with np.errstate(over="ignore", invalid="ignore"):
            while training.stream.taken < limit:
                training.advance()
                state = training.state
                if training.stream.taken - evaluated < EVERY:
                    continue
                evaluated = training.stream.taken
                updates.append(state.updates)
                accuracy.append(round(what.accuracy(state.weights), 4))
                reached = sum(accuracy[-3:]) / 3 >= target and len(accuracy) > 2
                if (
                    reached
                    or not np.isfinite(state.weights).all()
                    or (evaluated > HOPELESS_AFTER and max(accuracy[-5:]) < HOPELESS)
                ):
                    break
        return Curve(updates, accuracy)


MODELLED = {
    "job": Job(
        number=1,
        workers=tuple(f"10.0.0.{rank}" for rank in range(1, 5)),
        servers=("10.0.1.1",),
        collective="ps",
        op=Op.SUM,
        tolerance=Tolerance(push=0.2),
    ),
    "trouble": Trouble(loss=0.05, control_loss=0.05),
    "port": Port(rate=100e6),
}
"""Four workers and a server at 100 Mbit/s, 5 % of the packets lost: for sums that take as long as they take."""
MODELLED_SUMS = 200
"""Sums by whose mean the unit of time is chosen."""


@cache
def _modelled(setting: Setting) -> Callable[[int], float]:
    """Return how long sums take in the transport model, in units of which their mean is the setting's ratio."""
    sync = ModelledSync(values=problem(setting.model, 0).values, **MODELLED)  # type: ignore[arg-type]
    unit = setting.ratio / float(np.mean([sync(number) for number in range(MODELLED_SUMS)]))
    return lambda number: unit * sync(number)


def _kind(method: Method) -> str:
    """Return what methods have in common that learn the same of the same batches."""
    if method.family in ("synchronous", "lb_bsp"):
        return "synchronous"
    if method.family in ("delayed", "delayed_balanced", "abs_sgd", "abs_sgd_fitted"):
        return "delayed"
    return method.family
