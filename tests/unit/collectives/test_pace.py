# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A sender that has a link for itself keeps to its rate, message after message, however slow the link is."""

from __future__ import annotations

import pytest

from tests.unit.transport.world import gradient
from traffic.collectives.job import Job, Op
from traffic.packer import TensorId
from traffic.transport.timing import MILLISECOND, SECOND
from traffic.transport.virtual import Port, VirtualNetwork

PACKETS, MESSAGES = 65, 4


@pytest.mark.parametrize("workers", [2, 4, 9])
@pytest.mark.parametrize("rate", [1e6, 4e6, 8e6, 20e6, 100e6])
def test_messages_go_at_the_rate_of_the_line(rate: float, workers: int) -> None:
    addresses = tuple(f"10.0.0.{1 + rank}" for rank in range(workers))
    settings = Job(number=1, workers=addresses, collective="ring", op=Op.SUM, line_rate=rate).settings
    network = VirtualNetwork(seed=1)
    port = Port(rate=rate, capacity=1 << 20)
    one, other = (network.add(name, settings, port) for name in ("one", "other"))
    ideal = PACKETS * 1514 * 8 / rate * SECOND
    for number in range(MESSAGES):
        ids, begin = TensorId(round=number), network.now
        message = other.endpoint.receive(network.peer(other, one), ids, network.now)
        one.endpoint.send(network.peer(one, other), gradient(PACKETS * 360), ids, network.now)
        network.wake(one)
        while not message.result.done():
            network.run(network.now + MILLISECOND)
            assert network.now - begin < 10 * ideal
        first_rounds_find_the_rate = 1.6
        assert network.now - begin < (first_rounds_find_the_rate if number < 2 else 1.1) * ideal + 2 * MILLISECOND
