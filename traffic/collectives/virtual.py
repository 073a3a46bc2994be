# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A job's ranks and servers in virtual time, over the transport model (traffic/transport/virtual.py)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from topologies.errors import FailureError
from traffic.collectives.channel import EndpointChannel
from traffic.collectives.job import Job
from traffic.collectives.member import Member, Reduced
from traffic.collectives.names import Name
from traffic.transport.timing import SECOND
from traffic.transport.virtual import Node, Port, Trouble, VirtualNetwork

Floats = NDArray[np.float32]
MEETING_SECONDS = 5
Of = TypeVar("Of", bound="VirtualJob")


@dataclass
class VirtualJob:
    """All nodes of a job, met."""

    job: Job
    network: VirtualNetwork
    nodes: list[Node]
    members: list[Member]

    @classmethod
    def of(cls: type[Of], job: Job, trouble: Trouble | None = None, *, seed: int = 0, port: Port | None = None) -> Of:
        """Let all meet, then let `trouble` begin. Raises FailureError where they do not."""
        network = VirtualNetwork(seed=seed)
        nodes = [network.add(f"n{number}", job.meeting(number), port) for number in range(len(job.addresses))]
        members = []
        for number, node in enumerate(nodes):
            peers = {at: network.peer(node, other) for at, other in enumerate(nodes) if at != number}
            channel = EndpointChannel(job, number, node.endpoint, peers, lambda: network.now)
            members.append(Member(job, number, channel))
            channel.attach(members[-1])
        made = cls(job, network, nodes, members)
        for member in members:
            member.meet()
        made.run(MEETING_SECONDS)
        if not all(member.met for member in members):
            raise FailureError(f"the job's nodes do not meet within {MEETING_SECONDS} virtual seconds")
        network.trouble = trouble or Trouble()
        return made

    def run(self, seconds: float) -> None:
        """Let time pass."""
        for node in self.nodes:
            self.network.wake(node)
        self.network.run(self.network.now + int(seconds * SECOND))

    def all_reduce(
        self,
        values: Sequence[Floats],
        *,
        tensor: int = 0,
        layer: int = 0,
        round: int = 0,
        weights: list[int] | None = None,
        ranks: list[int] | None = None,
    ) -> list[Future[Reduced]]:
        """Begin the sum of a tensor at every rank, or at some; `values` are each rank's."""
        futures = []
        for rank in ranks if ranks is not None else range(len(self.job.workers)):
            future: Future[Reduced] = Future()
            weight = weights[rank] if weights else 1
            self.members[rank].all_reduce(Name(tensor, layer, round), values[rank], weight, future)
            self.network.wake(self.nodes[rank])
            futures.append(future)
        return futures
