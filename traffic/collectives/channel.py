# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A member's messages over the transport: on a UDP socket, and what both drivers have in common."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from traffic.collectives.job import Job
from traffic.collectives.member import Member
from traffic.packer import TensorId
from traffic.transport.endpoint import Endpoint, Peer
from traffic.transport.errors import Cancelled
from traffic.transport.receiver import Expectation, ReceiveReport
from traffic.transport.sender import SendReport
from traffic.transport.sockets import SocketEndpoint
from traffic.wire import DataType

log = logging.getLogger(__name__)

FAREWELL_SECONDS = 1.0
Result = TypeVar("Result")


@dataclass(eq=False)
class Alarm:
    """A function that is to run at a time of the endpoint's."""

    deadline: int | None
    function: Callable[[], None]

    def tick(self, now: int) -> None:
        """Do what is due."""
        self.deadline = None
        self.function()


class EndpointChannel:
    """Messages through an endpoint, in the thread that drives it."""

    def __init__(self, job: Job, node: int, endpoint: Endpoint, peers: dict[int, Peer], now: Callable[[], int]) -> None:
        self.job, self.node, self.endpoint, self.peers = job, node, endpoint, peers
        self.now = now

    def attach(self, member: Member) -> None:
        """Let a member have what nobody has asked for."""
        nodes = {id(peer): node for node, peer in self.peers.items()}
        self.endpoint.unasked = lambda peer, key, values: member.unasked(nodes[id(peer)], key, values)
        self.endpoint.renewed = lambda peer: member.renewed(nodes[id(peer)])

    def send(
        self,
        node: int,
        values: NDArray[np.float32],
        ids: TensorId,
        *,
        tolerance: float,
        data_type: DataType,
        path: int,
        blank: bool = False,
    ) -> Future[SendReport]:
        """Begin to send a message."""
        return self.endpoint.send(
            self.peers[node], values, ids, self.now(), tolerance=tolerance, data_type=data_type, path=path, blank=blank
        ).result

    def receive(self, node: int, ids: TensorId, expected: Expectation) -> Future[ReceiveReport]:
        """Ask for a message."""
        return self.endpoint.receive(self.peers[node], ids, self.now(), expected).result

    def at(self, due: int, function: Callable[[], None]) -> None:
        """Have a function run at a time."""
        self.endpoint.schedule(Alarm(due, function), due)

    def met(self, node: int) -> None:
        """Have the job's patience with a node from now on."""
        self.peers[node].adopt(self.job.settings_between(self.node, node))


class SocketChannel:
    """A node's endpoint at its address, and the member that runs in its thread."""

    def __init__(self, job: Job, node: int) -> None:
        self.job = job
        self._socket = SocketEndpoint(job.addresses[node], job.port, job.meeting(node))
        self._time = 0
        others = {other: address for other, address in enumerate(job.addresses) if other != node}
        peers = {other: self._socket.peer(address, job.port) for other, address in others.items()}
        self._inner = EndpointChannel(job, node, self._socket.endpoint, peers, self._socket.now)
        self.now, self.send, self.receive, self.at, self.met = (
            self._inner.now,
            self._inner.send,
            self._inner.receive,
            self._inner.at,
            self._inner.met,
        )

    def run(self, member: Member) -> None:
        """Let a member meet the others."""

        def begin() -> None:
            self._inner.attach(member)
            member.meet()

        self.call(begin)

    def ignored(self) -> dict[str, int]:
        """Return how many packets were received and are part of no message, by reason."""
        return self._socket.ignored()

    def call(self, function: Callable[[], Result]) -> Result:
        """Run a function in the member's thread and return what it returns."""
        return self._socket.call(lambda _: function())

    def post(self, function: Callable[[], None]) -> None:
        """Have a function run in the member's thread, soon. Raises Cancelled when closed."""
        self._socket.post(lambda _: function())

    def leave(self, member: Member) -> None:
        """Send what is owed, and tell the others that this node leaves."""
        idle: Future[None] = Future()

        def begin() -> None:
            def settle() -> None:
                if not idle.done():
                    idle.set_result(None)

            member.drained = settle
            if member.idle or member.error:
                settle()

        try:
            self.call(begin)
            wait([idle], self.job.patience + FAREWELL_SECONDS)
            hurry = member.error is not None and member.met  # who is still to hear of it is there, or dead
            wait(self.call(member.leave), FAREWELL_SECONDS if hurry else self.job.patience)
        except Cancelled:
            log.debug("the endpoint had closed already")

    def close(self) -> None:
        """End the endpoint."""
        self._socket.close()
