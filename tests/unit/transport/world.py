# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Two ends in virtual time, and what the tests ask of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traffic.packer import TensorId
from traffic.transport.endpoint import Peer
from traffic.transport.ranges import mask_of
from traffic.transport.receiver import Expectation, ReceiveReport, Receiving
from traffic.transport.sender import Sending, SendReport
from traffic.transport.settings import Settings
from traffic.transport.timing import SECOND
from traffic.transport.virtual import Node, Port, Trouble, VirtualNetwork
from traffic.wire import DataType


def gradient(size: int, seed: int = 0) -> NDArray[np.float32]:
    """Values none of which is zero, so that what was lost shows."""
    values = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    values[values == 0] = 1
    return values


@dataclass
class Pair:
    """A sender and a receiver."""

    network: VirtualNetwork
    sender: Node
    receiver: Node
    to_receiver: Peer
    to_sender: Peer

    def send(
        self,
        values: NDArray[np.float32],
        ids: TensorId,
        *,
        tolerance: float = 0.0,
        priority: int | None = None,
        data_type: DataType = DataType.FLOAT32,
        blank: bool = False,
    ) -> Sending:
        sending = self.sender.endpoint.send(
            self.to_receiver,
            values,
            ids,
            self.network.now,
            tolerance=tolerance,
            priority=priority,
            data_type=data_type,
            blank=blank,
        )
        self.network.wake(self.sender)
        return sending

    def receive(self, ids: TensorId, expected: Expectation | None = None) -> Receiving:
        receiving = self.receiver.endpoint.receive(self.to_sender, ids, self.network.now, expected)
        self.network.wake(self.receiver)
        return receiving

    def run(self, seconds: float = 60) -> None:
        self.network.run(self.network.now + int(seconds * SECOND))


def pair(
    trouble: Trouble | None = None,
    *,
    seed: int = 0,
    port: Port | None = None,
    settings: Settings | None = None,
    receiver_settings: Settings | None = None,
) -> Pair:
    network = VirtualNetwork(seed=seed, trouble=trouble or Trouble())
    sender = network.add("sender", settings, port)
    receiver = network.add("receiver", receiver_settings or settings, port)
    return Pair(network, sender, receiver, network.peer(sender, receiver), network.peer(receiver, sender))


def exchange(
    world: Pair,
    values: NDArray[np.float32],
    *,
    tolerance: float = 0.0,
    eager: bool = True,
    ids: TensorId | None = None,
) -> tuple[SendReport, ReceiveReport]:
    """Send one message to a receiver that waits for it, let it end, and return both reports."""
    ids = ids or TensorId(job=1, rank=2, tensor=3, layer=4, round=5, weight=6)
    receiving = world.receive(ids, Expectation(values=values.size, eager=eager))
    sending = world.send(values, ids, tolerance=tolerance)
    world.run(600)
    return sending.result.result(0), receiving.result.result(0)


def check(values: NDArray[np.float32], sent: SendReport, received: ReceiveReport, tolerance: float) -> None:
    """What must hold of every message that completes, whatever the network did."""
    missing = mask_of(received.missing, values.size)
    np.testing.assert_array_equal(received.values[~missing], values[~missing])
    assert not received.values[missing].any()
    np.testing.assert_array_equal(sent.missing, received.missing)
    assert received.missing_values == np.count_nonzero(missing)
    assert received.missing_values <= tolerance * values.size
