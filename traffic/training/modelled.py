# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""T_sync from the transport model: how long sums take over the bounded-loss transport, packet by packet."""

from __future__ import annotations

import numpy as np

from topologies.errors import FailureError
from traffic.collectives.job import Job
from traffic.collectives.names import ROUNDS
from traffic.collectives.virtual import VirtualJob
from traffic.training.real import NOTES, SUMS
from traffic.training.share import Share
from traffic.transport.timing import SECOND
from traffic.transport.virtual import Port, Trouble

LOOK_SECONDS = 1e-3
"""How closely the end of a sum is looked for; its time is the event's."""


class ModelledSync:
    """T_sync of a training's sums by their number, seconds: what `VirtualTraining` takes as `sync`.

    All workers begin a sum of `values` values and their counts, and the notes that go with it, when the one before is
    over; it has ended when the last of them has it. The job's transport, with what its rates have learnt, runs in a
    network of packets: `port` is what stands before each node, `trouble` what happens to packets on their way. Sums are
    made in their order, so a training that is resumed is told the same times.
    """

    def __init__(
        self, job: Job, values: int, *, trouble: Trouble | None = None, port: Port | None = None, seed: int = 0
    ) -> None:
        """Let the job's nodes meet. Raises UsageError for a job that cannot be."""
        self._virtual = VirtualJob.of(job, trouble, seed=seed, port=port)
        random = np.random.default_rng(seed)
        gradients = (random.standard_normal(values).astype(np.float32) for _ in job.workers)
        self._shares = [Share.of(gradient, 1).encode() for gradient in gradients]
        self._notes = [np.ones(len(job.workers) + 1, np.float32)] * len(job.workers)
        self._seconds: list[float] = []

    def __call__(self, number: int) -> float:
        """Return how long a sum takes, seconds. Raises FailureError where the job fails."""
        while len(self._seconds) <= number:
            self._seconds.append(self._next())
        return self._seconds[number]

    def _next(self) -> float:
        virtual, round_number = self._virtual, len(self._seconds) % ROUNDS
        began, ended = virtual.network.now, [0]
        futures = virtual.all_reduce(self._shares, tensor=SUMS, round=round_number)
        futures += virtual.all_reduce(self._notes, tensor=NOTES, round=round_number)
        for future in futures:
            future.add_done_callback(lambda _: ended.append(virtual.network.now))
        deadline = began + round(virtual.job.timeout * SECOND)
        while not all(future.done() for future in futures):
            virtual.run(LOOK_SECONDS)
            if virtual.network.now > deadline:
                raise FailureError(f"a sum did not end within the job's {virtual.job.timeout:g} s")
        for future in futures:
            future.result()
        seconds: float = (max(ended) - began) / SECOND
        return seconds
