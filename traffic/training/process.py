# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One worker of a training as a process: `python -m traffic.training.process SETTINGS`, MNIST-5k with a small network.

It calls the roster (traffic/training/roster.py), trains with whoever else is there, and tells the roster where its time
went. The worker that is rank 0 tells of its progress, and ends the training when its time is over or the target is
reached.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from topologies.errors import GradlaneError, UsageError
from traffic.convolution import pool
from traffic.live import SHARED
from traffic.model import MLP
from traffic.training import checkpoint
from traffic.training.algorithms import AbsSGD, SynchronousSGD
from traffic.training.effects import Algorithm
from traffic.training.membership import Caller, Membership
from traffic.training.problem import Classification
from traffic.training.real import RealTraining, Sampler
from traffic.training.rule import Rule, Scaling
from traffic.training.share import Total

WIDTHS = (196, 64, 32, 10)
HELD_OUT = 1000
TELL_SECONDS = 0.25


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker trains."""

    name: str
    """Of the host, for messages."""
    number: int
    """Of the worker, from 0: which samples it draws."""
    address: str
    server: str
    """The roster's address."""
    port: int
    """The roster's."""
    data: str
    """Folder with the samples, as `traffic.live.share` wrote them."""
    algorithm: str
    """"synchronous" or "abs_sgd"."""
    batch: int
    """Of a worker where it is fixed; else the most samples of a micro-batch."""
    step: float
    seconds_per_sample: float
    """That computing takes at least: how slow this worker is."""
    seconds: float
    """After which the training ends."""
    target: float
    """Accuracy at which the training ends."""
    compensation: float = 0.0
    local: bool = False
    """Whether ABS-SGD's workers step by themselves, every `batch` samples."""
    workers: int = 1
    """At the start: what the learning rate is scaled for where workers step by themselves."""
    grace: float = 4.0
    transport: str = "gradlane"
    """As RosterSettings has it."""
    checkpoints: str | None = None
    """Folder of checkpoints: one for each worker, from which it goes on if it is there."""
    checkpoint_updates: int = 50
    """Updates between two checkpoints."""


@dataclass(frozen=True)
class Told:
    """What rank 0 tells now and then."""

    seconds: float
    updates: int
    accuracy: float


@dataclass(frozen=True)
class Spent:
    """What every worker tells at the end."""

    number: int
    seconds: float
    computed: float
    waited: float
    samples: int
    updates: int
    longest: float
    """Seconds between two updates, at most."""
    sent_values: int
    lost_values: int


def algorithm_of(settings: WorkerSettings) -> Algorithm:
    """Return the algorithm that is asked for. Raises UsageError."""
    match settings.algorithm:
        case "synchronous":
            return SynchronousSGD(settings.batch)
        case "abs_sgd":
            return AbsSGD(
                micro=settings.batch, fitted=True, compensation=settings.compensation,
                grace=settings.grace, local=settings.local,
            )  # fmt: skip
    raise UsageError(f"no algorithm is named {settings.algorithm!r}; there are synchronous and abs_sgd")


def rule_of(settings: WorkerSettings) -> Rule:
    """Return the update rule: a common step is the mean of the workers' own paths, where they have such."""
    if not settings.local:
        return Rule(settings.step)
    return Rule(settings.step, scaling=Scaling.LINEAR, reference=settings.workers * settings.batch)


def network() -> MLP:
    """Return the network that is trained, the same at every worker."""
    return MLP(WIDTHS, seed=0)


def values_of(model: MLP) -> int:
    """Return how many weights it has."""
    return sum(parameter.size for parameter in model.parameters)


def problem_of(folder: Path) -> Classification:
    """Return the network and the data, the same at every worker."""
    images, labels = (np.load(folder / name) for name in SHARED)
    pooled = pool(images)
    return Classification(network(), (pooled - pooled.mean()) / pooled.std(), labels, HELD_OUT)


class Teller:
    """What happens after every sum: progress is told, the end asked for, and a checkpoint written."""

    def __init__(self, settings: WorkerSettings, membership: Membership) -> None:
        self._settings, self._membership = settings, membership
        self._judge = problem_of(Path(settings.data))  # its own network: the other is busy
        self._began = self._told = self._updated = 0.0
        self.longest = 0.0
        """Seconds between two updates, at most."""
        self._sent = np.zeros(2, np.int64)
        self._sums: Any = None

    @property
    def file(self) -> Path | None:
        """The worker's checkpoint."""
        folder = self._settings.checkpoints
        return Path(folder) / f"worker{self._settings.number}.checkpoint" if folder else None

    def connected(self, sums: Any) -> None:
        """Take note of a generation."""
        self.count()
        self._sums = sums
        self._began = self._began or time.monotonic()

    def count(self) -> tuple[int, int]:
        """Return the values sent and lost until now, of all generations."""
        if self._sums is not None:
            self._sent += [self._sums.statistics.values, self._sums.statistics.lost_values]
            self._sums = None
        return int(self._sent[0]), int(self._sent[1])

    def __call__(self, training: RealTraining, total: Total) -> None:
        """Tell, at most every TELL_SECONDS."""
        settings, state = self._settings, training.worker.state
        if self.file and state.updates % settings.checkpoint_updates == 0:
            checkpoint.save(training.checkpoint(), self.file)
        now = time.monotonic() - self._began
        self.longest, self._updated = max(self.longest, now - self._updated), now
        if training.worker.rank or now - self._told < TELL_SECONDS:
            return
        self._told = now
        accuracy = self._judge.accuracy(state.weights)
        self._membership.tell(asdict(Told(now, state.updates, accuracy)))
        training.wants_end = training.wants_end or accuracy >= settings.target or now >= settings.seconds


def train(settings: WorkerSettings) -> None:
    """Train as one worker. Raises GradlaneError."""
    source = Sampler(problem_of(Path(settings.data)), settings.number)
    caller = Caller(
        settings.name, settings.address, settings.server, settings.port, settings.transport, source.values
    )  # fmt: skip
    with ExitStack() as stack:
        membership = stack.enter_context(Membership(caller))
        tell = Teller(settings, membership)
        training = stack.enter_context(
            RealTraining(
                source,
                algorithm_of(settings),
                rule_of(settings),
                seconds_per_sample=settings.seconds_per_sample,
                on_update=tell,
            )  # fmt: skip
        )
        if tell.file and tell.file.exists():
            training.resume(checkpoint.load(tell.file))
        membership.train(training, tell.connected)
        progress = training.progress
        spent = Spent(
            settings.number, progress.seconds, progress.computed, progress.waited, progress.samples,
            training.worker.state.updates, tell.longest, *tell.count(),
        )  # fmt: skip
        membership.done(asdict(spent))


def main() -> int:
    """Train as one worker; a failure is one line on standard error."""
    try:
        train(WorkerSettings(**json.loads(sys.argv[1])))
    except GradlaneError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
