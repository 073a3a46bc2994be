# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The rate finds the link, shares it, and an incast does not collapse."""

from __future__ import annotations

import pytest

from tests.unit.transport.world import gradient, pair
from traffic.packer import TensorId
from traffic.transport.core import load
from traffic.transport.rate import RateControl, RateSettings
from traffic.transport.receiver import Expectation
from traffic.transport.settings import Settings
from traffic.transport.timing import MILLISECOND, SECOND
from traffic.transport.virtual import Port, VirtualNetwork

MS = 12_500
"""Bytes that a link of 100 Mbit/s drains in a millisecond."""
DLCP = Port(
    capacity=80 * MS, mark_above=4 * MS, drop_above=tuple(depth * MS for depth in (2, 4, 8, 14, 24, 40, 78, 78))
)
DROP_TAIL = Port(capacity=64 * 1514)


def rounds_of(senders: int, values: int, port: Port, tolerance: float, rounds: int) -> tuple[list[float], int]:
    """Return the time that each round of an incast took over the least possible, and the packets sent."""
    network = VirtualNetwork(seed=1)
    server = network.add("server", port=port)
    workers = [network.add(f"worker{number}", port=port) for number in range(senders)]
    data = gradient(values)
    ideal = senders * -(-values // 360) * 1514 * 8 / port.rate
    times = []
    for number in range(rounds):
        messages = []
        begin = network.now
        for rank, worker in enumerate(workers):
            ids = TensorId(rank=rank, round=number)
            messages.append(server.endpoint.receive(network.peer(server, worker), ids, network.now))
            worker.endpoint.send(network.peer(worker, server), data, ids, network.now, tolerance=tolerance)
            network.wake(worker)
        while not all(message.result.done() for message in messages):
            network.run(network.now + MILLISECOND)
            assert network.now - begin < 100 * ideal * SECOND
        times.append((network.now - begin) / SECOND / ideal)
        network.run(network.now + SECOND)
    return times, network.counts["sent"]


@pytest.mark.parametrize(("port", "tolerance"), [(DLCP, 0.1), (DLCP, 0.0), (DROP_TAIL, 0.0)])
def test_a_64_to_1_incast_does_not_collapse(port: Port, tolerance: float) -> None:
    times, _ = rounds_of(64, 20 * 360, port, tolerance, rounds=2)
    assert max(times) < 2.5


@pytest.mark.parametrize("port", [DLCP, DROP_TAIL, Port(capacity=1 << 20)])
def test_a_lone_sender_uses_nine_tenths_of_the_link_once_it_knows_it(port: Port) -> None:
    times, _ = rounds_of(1, 750 * 360, port, 0.0, rounds=4)
    assert min(times[1:]) < 1 / 0.9
    assert max(times) < 1.6


@pytest.mark.parametrize("arrears", [10, 48])
def test_a_sender_that_was_held_up_makes_up_for_its_arrears_and_no_more(arrears: int) -> None:
    rates = RateSettings(line=4e6, initial=4e6, least=4e6)
    world = pair(settings=Settings(rate=rates, arrears=arrears * MILLISECOND))
    ids = TensorId()
    sending = world.sender.endpoint.send(world.to_receiver, gradient(400 * 360), ids, 0)
    ffi, library = load()
    message, pacer, indices = sending.message.struct, world.to_receiver.pacer, ffi.new("uint32_t[]", 16)
    held_up = range(100, 200)
    for now in range(500):
        while now not in held_up and pacer.due_ns <= now * MILLISECOND:
            assert library.outbound_next(message, pacer, now * MILLISECOND, indices)
    milliseconds_a_packet = 1514 * 8 / 4e6 * 1000
    assert message.sent == pytest.approx((500 - len(held_up) + arrears) / milliseconds_a_packet, abs=5)


@pytest.mark.parametrize("port", [DLCP, Port(capacity=1 << 20)])
def test_two_jobs_share_a_link_fairly(port: Port) -> None:
    network = VirtualNetwork(seed=1)
    server = network.add("server", port=port)
    jobs = [network.add("early", port=port), network.add("late", port=port)]
    received = []
    for job, node in enumerate(jobs):
        ids = TensorId(job=job)
        received.append(server.endpoint.receive(network.peer(server, node), ids, network.now, Expectation()))
        node.endpoint.send(network.peer(node, server), gradient(6_000_000), ids, network.now)
        network.wake(node)
        network.run(network.now + SECOND // 2)
    before = [message.arrived_packets for message in received]
    network.run(network.now + SECOND)
    shares = [message.arrived_packets - packets for message, packets in zip(received, before, strict=True)]
    assert sum(shares) ** 2 / (2 * sum(share**2 for share in shares)) > 0.9


clock = [SECOND]


def feed(control: RateControl, count: int, *, marked: int = 0, delay: int = 0, lost: float = 0.0) -> None:
    for _ in range(count):
        control.sent(10**9)
        clock[0] += 10 * MILLISECOND
        control.feedback(clock[0], MILLISECOND, delay, 40, marked, lost, 0.0)


def test_the_rate_doubles_until_the_first_sign_of_congestion_and_then_goes_by_steps() -> None:
    control = RateControl(RateSettings(initial=1e6))
    feed(control, 3)
    assert control.rate >= 8e6
    feed(control, 1, marked=4)
    after = control.rate
    feed(control, 2)
    assert after < control.rate <= after + 2 * 1514 * 8 * 1000


@pytest.mark.parametrize("sign", [{"marked": 40}, {"delay": 50 * MILLISECOND}, {"lost": 32.0}])
def test_every_sign_of_congestion_slows_down(sign: dict[str, int]) -> None:
    control = RateControl(RateSettings(initial=50e6))
    feed(control, 3, **sign)
    assert control.rate < 45e6


def test_a_queue_that_drains_slowly_does_not_halve_the_rate_again_and_again() -> None:
    control = RateControl(RateSettings(initial=25e6))
    feed(control, 2)
    feed(control, 20, marked=40, delay=20 * MILLISECOND)
    through = 40 * 1514 * 8 * 100
    assert 0.8 * through < control.rate < 0.9 * through


def test_a_rate_that_is_not_used_does_not_grow() -> None:
    control = RateControl(RateSettings(initial=50e6))
    for number in range(10):
        control.feedback(SECOND + number * 10 * MILLISECOND, MILLISECOND, 0, 10, 0, 0.0, 0.0)
    assert control.rate == 50e6


def test_silence_halves_down_to_the_least_and_no_further() -> None:
    control = RateControl(RateSettings(initial=1e6, least=300e3))
    for _ in range(5):
        control.silence()
    assert control.rate == 300e3
