# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One worker of a job as a process: `python -m traffic.training.process SETTINGS`, MNIST-5k with a small network.

Rank 0 tells of its progress in lines of JSON, and ends the training when its time is over or the target is reached.
Last, every rank tells where its time went.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from topologies.errors import GradlaneError, UsageError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Job
from traffic.convolution import pool
from traffic.live import SHARED
from traffic.model import MLP
from traffic.training.algorithms import AbsSGD, SynchronousSGD
from traffic.training.effects import Algorithm
from traffic.training.problem import Classification
from traffic.training.real import RealTraining
from traffic.training.rule import Rule
from traffic.training.share import Total

WIDTHS = (196, 64, 32, 10)
HELD_OUT = 1000
TELL_SECONDS = 0.25


@dataclass(frozen=True)
class WorkerSettings:
    """How a worker trains."""

    job: str
    """The job's file; its operation is a sum."""
    rank: int
    data: str
    """Folder with the samples, as `traffic.live.share` wrote them."""
    algorithm: str
    """"synchronous" or "abs_sgd"."""
    batch: int
    """Of a worker where it is fixed; else the micro-batch."""
    step: float
    seconds_per_sample: float
    """That computing takes at least: how slow this worker is."""
    seconds: float
    """After which the training ends."""
    target: float
    """Accuracy at which the training ends."""
    grace: float = 4.0


@dataclass(frozen=True)
class Told:
    """What rank 0 tells now and then."""

    seconds: float
    updates: int
    accuracy: float


@dataclass(frozen=True)
class Spent:
    """What every rank tells at the end."""

    rank: int
    seconds: float
    computed: float
    waited: float
    samples: int
    updates: int
    sent_values: int
    lost_values: int


def algorithm_of(settings: WorkerSettings) -> Algorithm:
    """Return the algorithm that is asked for. Raises UsageError."""
    match settings.algorithm:
        case "synchronous":
            return SynchronousSGD(settings.batch)
        case "abs_sgd":
            return AbsSGD(micro=settings.batch, grace=settings.grace)
    raise UsageError(f"no algorithm is named {settings.algorithm!r}; there are synchronous and abs_sgd")


def problem_of(folder: Path) -> Classification:
    """Return the network and the data, the same at every rank."""
    images, labels = (np.load(folder / name) for name in SHARED)
    pooled = pool(images)
    return Classification(MLP(WIDTHS, seed=0), (pooled - pooled.mean()) / pooled.std(), labels, HELD_OUT)


def train(settings: WorkerSettings, communicator: Communicator) -> Spent:
    """Train as one rank. Raises CollectiveError."""
    folder = Path(settings.data)
    judge = problem_of(folder)  # its own network: the other is busy
    told = 0.0

    def tell(training: RealTraining, total: Total) -> None:
        nonlocal told
        now = time.monotonic() - began
        if settings.rank or now - told < TELL_SECONDS:
            return
        told = now
        accuracy = judge.accuracy(training.worker.state.weights)
        print(json.dumps(asdict(Told(now, training.worker.state.updates, accuracy))), flush=True)
        training.wants_end = training.wants_end or accuracy >= settings.target or now >= settings.seconds

    with RealTraining(
        problem_of(folder), algorithm_of(settings), Rule(settings.step), settings.rank, communicator.size, communicator,
        seconds_per_sample=settings.seconds_per_sample, on_update=tell,
    ) as training:  # fmt: skip
        communicator.barrier()
        began = time.monotonic()
        progress = training.run()
        communicator.barrier()
        statistics = communicator.statistics
        return Spent(
            settings.rank, progress.seconds, progress.computed, progress.waited, progress.samples,
            training.worker.state.updates, statistics.values, statistics.lost_values,
        )  # fmt: skip


def main() -> int:
    """Train as one rank; a failure is one line on standard error."""
    settings = WorkerSettings(**json.loads(sys.argv[1]))
    try:
        with Communicator(Job.load(Path(settings.job)), settings.rank) as communicator:
            spent = train(settings, communicator)
        print(json.dumps(asdict(spent)), flush=True)
    except GradlaneError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
