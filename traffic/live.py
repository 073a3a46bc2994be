# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One rank of a live training: `python -m traffic.live SETTINGS`, the numpy model over traffic.collectives.

Each tensor is sent as back-propagation finds it. Ranks begin with rank 0's parameters and end in the same round, once
one of them has trained for as long as it was told. Rank 0 tells of every round in a line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from topologies.errors import GradlaneError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Job
from traffic.model import MLP, WORKLOADS, Floats, Labels

TIMEOUT = 60.0
SHARED = "images.npy", "labels.npy"
HELD_OUT = 10
"""One in so many samples tells the accuracy, and none trains with it."""


@dataclass(frozen=True)
class LiveSettings:
    """How a rank trains."""

    job: str
    """The job's file."""
    rank: int
    data: str
    """Folder with the samples, as `share` wrote them."""
    workload: str
    learning_rate: float
    seconds: float
    samples: int = 64
    """Of a batch of one rank."""


@dataclass(frozen=True)
class Round:
    """What rank 0 tells of a round."""

    round: int
    seconds: float
    """Since the training began."""
    loss: float
    """Mean cross-entropy of the ranks' batches before the step."""
    accuracy: float
    """On the held-out samples after it."""
    lost: float
    """Share of the gradients' values, all ranks together, that was reported lost since the round before."""


def share(workload: str, folder: Path) -> None:
    """Write a workload's samples in an order of their own, for all ranks to map."""
    images, labels = WORKLOADS[workload].load()
    order = np.random.default_rng(0).permutation(len(labels))
    for name, array in zip(SHARED, (images, labels), strict=True):
        np.save(folder / name, array[order])


class Rank:
    """A rank's model and data."""

    def __init__(self, settings: LiveSettings, ranks: int) -> None:
        images, labels = (np.load(Path(settings.data) / name, mmap_mode="r") for name in SHARED)
        held = len(labels) // HELD_OUT
        self._held: tuple[Floats, Labels] = np.array(images[:held]), np.array(labels[:held])
        mine = slice(held + settings.rank, None, ranks)
        self._images, self._labels = np.array(images[mine]), np.array(labels[mine])
        self._random = np.random.default_rng(settings.rank)
        self._settings = settings
        self.model = MLP(WORKLOADS[settings.workload].widths, seed=settings.rank)

    def train(self, communicator: Communicator) -> Iterator[Round]:
        """Train, and yield what became of each round. Raises CollectiveError."""
        model, settings = self.model, self._settings
        begun = [communicator.broadcast(value, tensor=tensor) for tensor, value in enumerate(model.values)]
        for value, future in zip(model.values, begun, strict=True):
            value[:] = future.result(TIMEOUT).values
        size = sum(parameter.size for parameter in model.parameters)
        start, number, lost_before = time.monotonic(), 0, 0
        while True:
            batch = self._random.choice(len(self._labels), settings.samples)
            images, labels = self._images[batch], self._labels[batch]
            loss = model.loss(images, labels)
            futures = [
                communicator.all_reduce(
                    gradient, tensor=parameter.tensor, layer=parameter.layer, round=number, weight=settings.samples
                )
                for parameter, gradient in model.gradients(images, labels)
            ]
            over = time.monotonic() - start >= settings.seconds
            lost = communicator.statistics.lost_values
            told = np.array([loss, over, (lost - lost_before) / size], np.float32)
            lost_before = lost
            status = communicator.all_reduce(told, tensor=len(model.values), round=number, weight=settings.samples)
            sums = {reduced.tensor: reduced.values for reduced in (future.result(TIMEOUT) for future in futures)}
            model.descend([sums[tensor] for tensor in range(len(model.values))], settings.learning_rate)
            mean_loss, ended, lost_share = status.result(TIMEOUT).values.tolist()
            accuracy = model.accuracy(*self._held) if settings.rank == 0 else 0.0
            yield Round(number, time.monotonic() - start, mean_loss, accuracy, lost_share)
            number += 1
            if ended:
                return


def main() -> int:
    """Train as one rank; a failure is one line on standard error."""
    settings = LiveSettings(**json.loads(sys.argv[1]))
    try:
        job = Job.load(Path(settings.job))
        rank = Rank(settings, len(job.workers))
        with Communicator(job, settings.rank) as communicator:
            for told in rank.train(communicator):
                if settings.rank == 0:
                    print(json.dumps(asdict(told)), flush=True)
            communicator.barrier()
            statistics = communicator.statistics
        summary = {
            "values": statistics.values,
            "lost_values": statistics.lost_values,
            "bands": statistics.by_band.tolist(),
            "bytes": statistics.bytes,
        }
        print(json.dumps({"rank": settings.rank, **summary}), flush=True)
    except GradlaneError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
