# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The nodes of a job in virtual time."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traffic.collectives.channel import EndpointChannel
from traffic.collectives.job import Job, Op
from traffic.collectives.member import Member, Reduced
from traffic.collectives.names import Name
from traffic.collectives.virtual import VirtualJob
from traffic.transport.endpoint import Endpoint

Floats = NDArray[np.float32]


def job(workers: int = 4, servers: int = 0, collective: str = "ring", **rules: object) -> Job:
    return Job(
        number=7,
        workers=tuple(f"10.0.0.{rank + 1}" for rank in range(workers)),
        servers=tuple(f"10.0.1.{index + 1}" for index in range(servers)),
        collective=collective,
        **rules,  # type: ignore[arg-type]
    )


def gradients(ranks: int, size: int, seed: int = 0) -> list[Floats]:
    random = np.random.default_rng(seed)
    return [random.normal(size=size).astype(np.float32) for _ in range(ranks)]


def expected(job: Job, values: list[Floats], weights: list[int]) -> NDArray[np.float64]:
    """What numpy makes of the ranks' values, in double precision."""
    wide = [each.astype(np.float64) for each in values]
    match job.op:
        case Op.SUM:
            return np.sum(wide, axis=0)
        case Op.MEAN:
            return np.mean(wide, axis=0)
    return np.average(wide, axis=0, weights=weights)


@dataclass
class World(VirtualJob):
    """All nodes of a job, met, and what tests ask of them."""

    def do_plan(self, values: list[Floats], *, round: int = 0) -> list[Future[Reduced]]:
        """Begin what the job's plan says at every rank."""
        futures = []
        for rank, member in enumerate(self.members):
            future: Future[Reduced] = Future()
            member.run(Name(0, 0, round, broadcast=not self.job.plan.sums), values[rank], future)
            self.network.wake(self.nodes[rank])
            futures.append(future)
        return futures

    def broadcast(self, values: list[Floats], root: int) -> list[Future[Reduced]]:
        futures = []
        for rank, member in enumerate(self.members[: len(self.job.workers)]):
            future: Future[Reduced] = Future()
            member.broadcast(Name(0, 0, 0, broadcast=True), values[rank], root, future)
            self.network.wake(self.nodes[rank])
            futures.append(future)
        return futures

    def restart(self, number: int) -> Member:
        """Give a node's address to a new process of the same job, which says hello; the old one is gone."""
        node = self.nodes[number]
        node.endpoint = Endpoint(self.job.meeting(number), seed=1000 + number)
        node.alive = True
        peers = {at: self.network.peer(node, other) for at, other in enumerate(self.nodes) if at != number}
        channel = EndpointChannel(self.job, number, node.endpoint, peers, lambda: self.network.now)
        self.members[number] = Member(self.job, number, channel)
        channel.attach(self.members[number])
        self.members[number].meet()
        return self.members[number]
