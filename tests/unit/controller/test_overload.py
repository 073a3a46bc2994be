# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the default policy does to an incast of 30 % more than the last link carries, on the switch's virtual clock."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from controller import policy, views
from tests.unit.controller.softswitches import SoftswitchFabric
from topologies.loading import loads
from traffic.header import Gradient
from traffic.wire import GRADIENT_BYTES

WORKERS = ("h1", "h2", "h3", "h4")
SERVER = "h5"
LINK_BPS = 100_000_000
OVERLOAD = 1.3
ROUNDS = 8
VALUES = 360
LAYERS = ((2, 7), (1, 180), (0, 558))  # (layer, packets): a 784-256-256-10 perceptron, last layer first
FABRIC = loads("kind: single\nhosts: 5\nhost_link: {rate: 100M}\n", "single.yaml")
HEADERS = 14 + 20 + 8


@dataclass(frozen=True)
class Sent:
    """One packet of the incast."""

    time_ns: int
    worker: int
    layer: int
    importance: int


def ranks(packets: int, spread: str, dice: random.Random) -> list[int]:
    """Return the importance of each packet of a tensor: drawn, or rising and falling along the tensor."""
    if packets < 8:
        return [255] * packets
    worth = [dice.random() if spread == "drawn" else abs((4 * i / packets) % 2 - 1) for i in range(packets)]
    order = sorted(range(packets), key=worth.__getitem__)
    importance = [0] * packets
    for place, index in enumerate(order):
        importance[index] = int((place + 0.5) * 256 / packets)
    return importance


def incast(spread: str, skew_ns: int) -> list[Sent]:
    """Return what four workers send, each at a quarter of the overload, `skew_ns` after one another."""
    dice = random.Random(spread)
    frame_bits = 8 * (HEADERS + GRADIENT_BYTES + 4 * VALUES)
    gap_ns = frame_bits * 1e9 / (LINK_BPS * OVERLOAD / len(WORKERS))
    sent = []
    for worker in range(len(WORKERS)):
        number = 0
        for _ in range(ROUNDS):
            for layer, packets in LAYERS:
                for importance in ranks(packets, spread, dice):
                    time_ns = int(worker * (gap_ns / len(WORKERS) + skew_ns) + number * gap_ns)
                    sent.append(Sent(time_ns, worker, layer, importance))
                    number += 1
    return sorted(sent, key=lambda packet: packet.time_ns)


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[SoftswitchFabric]:
    with SoftswitchFabric(FABRIC, tmp_path) as running:
        running.controller().apply(policy.load("dlcp")).check()
        yield running


@pytest.mark.parametrize("spread", ["drawn", "waves"])
@pytest.mark.parametrize("skew_ms", [0, 5])
def test_losses_climb_from_the_least_important_and_spare_the_most_important_quarter(
    fabric: SoftswitchFabric, spread: str, skew_ms: int
) -> None:
    switch = fabric.switch("s1")
    frames = [bytearray(frame(worker)) for worker in WORKERS]
    sent, delivered = np.zeros(8, int), np.zeros(8, int)
    header = HEADERS

    def arrived(outputs: list[tuple[int, bytes]]) -> None:
        for port, data in outputs:
            assert port == FABRIC.port_of("s1", SERVER)
            delivered[data[header + 3] >> 5] += 1

    start = 1_000_000
    for packet in incast(spread, skew_ms * 1_000_000):
        switch.set_clock(start + packet.time_ns)
        data = frames[packet.worker]
        data[header + 3] = packet.importance
        data[header + 10 : header + 12] = packet.layer.to_bytes(2, "big")
        sent[packet.importance >> 5] += 1
        arrived(switch.inject(FABRIC.port_of("s1", WORKERS[packet.worker]), bytes(data)))
    while (due := switch.run()) is not None:
        switch.set_clock(due)
    arrived(switch.take())

    lost = sent - delivered
    assert lost.sum() > 0.15 * sent.sum()
    assert delivered[6:].sum() >= 0.999 * sent[6:].sum()
    assert lost[:4].sum() >= (0.9 if spread == "drawn" else 0.8) * lost.sum()
    if spread == "drawn":
        assert list(lost[:6] / sent[:6]) == sorted(lost[:6] / sent[:6], reverse=True)

    controller = fabric.controller()
    assert {drop.reason for drop in views.drops(controller, "s1")} == {"importance"}
    queues = {queue.class_: queue for queue in views.queues(controller, "s1") if queue.sent_packets}
    highest, lowest = queues[max(queues)].p99_us, queues[min(queues)].p99_us
    assert highest is not None
    assert lowest is not None
    assert highest <= lowest / 5


def frame(worker: str) -> bytes:
    return bytes(
        Ether(src=FABRIC.host(worker).mac, dst=FABRIC.switch("s1").mac)
        / IP(src=FABRIC.host(worker).ipv4, dst=FABRIC.host(SERVER).ipv4, tos=2)
        / UDP(sport=20000, dport=18258, chksum=0)
        / Gradient(type=1, job=1, count=VALUES)
        / bytes(4 * VALUES)
    )
