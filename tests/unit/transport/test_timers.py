# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Timers follow the measured round trip: no needless resend, no hang, an error in time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.transport.world import exchange, gradient, pair
from traffic.packer import TensorId
from traffic.transport.errors import Cancelled, Overdue, PeerLost, Refused
from traffic.transport.receiver import Expectation
from traffic.transport.settings import Settings
from traffic.transport.timing import MILLISECOND, SECOND, RoundTrip
from traffic.transport.virtual import Node, Port, Trouble
from traffic.wire import GradientType


def test_a_finish_that_overtakes_a_deep_queue_of_data_makes_no_resend() -> None:
    deep = Port(rate=20e6, capacity=1 << 20, priority=True)
    sent, received = exchange(pair(port=deep), gradient(150_000))
    assert sent.sent == sent.packets
    assert received.requests == 0


@pytest.mark.parametrize("jitter", [MILLISECOND // 10, MILLISECOND, 20 * MILLISECOND])
def test_reordering_makes_no_resend_once_it_was_met(jitter: int) -> None:
    world = pair(Trouble(jitter=jitter))
    reports = [exchange(world, gradient(36_000), ids=TensorId(round=number)) for number in range(20)]
    assert sum(sent.sent - sent.packets for sent, _ in reports[10:]) <= 10


def test_a_trimmed_packet_is_asked_for_within_a_round_trip() -> None:
    slow_to_give_up = Trouble(trim=0.3)
    sent, received = exchange(pair(slow_to_give_up), gradient(36_000))
    assert not received.missing_values
    assert received.trimmed
    ideal = 100 * 1514 * 8 / 20e6
    assert received.seconds < 3 * ideal
    assert sent.sent >= sent.packets + received.trimmed


def test_a_dead_receiver_is_an_error_within_the_patience() -> None:
    world = pair(settings=Settings(patience=2 * SECOND))
    world.receive(TensorId())
    sending = world.send(gradient(1_000_000), TensorId())
    world.run(0.1)
    world.network.kill(world.receiver)
    world.run(2 + 0.6)
    with pytest.raises(PeerLost, match="receiver for 2 s"):
        sending.result.result(0)


def test_a_dead_sender_is_an_error_within_the_patience_before_and_amid_its_message() -> None:
    world = pair(settings=Settings(patience=2 * SECOND))
    begun, awaited = world.receive(TensorId(tensor=1)), world.receive(TensorId(tensor=2))
    world.send(gradient(1_000_000), TensorId(tensor=1))
    world.run(0.1)
    world.network.kill(world.sender)
    world.run(2 + 0.6)
    for receiving in (begun, awaited):
        with pytest.raises(PeerLost, match="sender"):
            receiving.result.result(0)


def test_a_peer_that_computes_for_long_is_not_lost() -> None:
    world = pair(settings=Settings(patience=SECOND))
    receiving = world.receive(TensorId())
    world.run(30)
    world.send(gradient(1000), TensorId())
    world.run(1)
    assert not receiving.result.result(0).missing_values


def test_a_message_that_nobody_sends_is_overdue_although_its_peer_is_alive() -> None:
    world = pair(settings=Settings(overdue=10 * SECOND))
    receiving = world.receive(TensorId())
    world.run(11)
    with pytest.raises(Overdue, match="longer than 10 s"):
        receiving.result.result(0)


def test_ends_that_disagree_on_the_number_of_values_both_hear_it() -> None:
    world = pair()
    receiving = world.receive(TensorId(), Expectation(values=999))
    sending = world.send(gradient(1000), TensorId())
    world.run(1)
    for result in (receiving.result, sending.result):
        with pytest.raises(Refused):
            result.result(0)


def test_closing_an_endpoint_cancels_its_messages() -> None:
    world = pair()
    receiving = world.receive(TensorId())
    sending = world.send(gradient(1_000_000), TensorId())
    world.sender.endpoint.close()
    world.receiver.endpoint.close()
    for result in (receiving.result, sending.result):
        with pytest.raises(Cancelled):
            result.result(0)


def test_when_all_is_done_no_timer_runs_on() -> None:
    world = pair()
    exchange(world, gradient(1000))
    world.network.run()
    for node in (world.sender, world.receiver):
        assert node.endpoint.due() is None
        assert node.endpoint.core.struct.size == 0


@settings(deadline=None)
@given(st.lists(st.integers(1, 10**10), min_size=1, max_size=50), st.integers(0, 20))
def test_timeouts_stay_between_their_bounds_and_double(samples: list[int], attempt: int) -> None:
    trip = RoundTrip()
    assert trip.timeout() == trip.initial
    for sample in samples:
        trip.sample(sample)
        assert trip.minimum <= min(samples[: samples.index(sample) + 1])
        measured = trip.smoothed + 4 * trip.variation
        assert max(trip.least, measured) <= trip.timeout(attempt) <= max(trip.most, measured)
        assert trip.timeout(attempt + 1) >= trip.timeout(attempt)


def test_the_first_measurement_sets_the_timeout_as_rfc_6298_says() -> None:
    trip = RoundTrip()
    trip.sample(100 * MILLISECOND)
    assert trip.timeout() == (100 + 4 * 50) * MILLISECOND
    trip.sample(100 * MILLISECOND)
    assert trip.timeout() == (100 + 4 * 37.5) * MILLISECOND


def test_a_stop_that_comes_late_is_no_long_round_trip() -> None:
    """It is sent again until it is heard: what the sender waited for it is not the network's delay."""
    trips = []
    for lost in (False, True):
        world, ids = pair(), TensorId()
        emit = world.network._emit

        def without_stop(node: Node, destination: Node, frame: bytes, emit: Callable[..., None] = emit) -> None:
            if frame[0] & 15 != GradientType.STOP:
                emit(node, destination, frame)

        receiving, sending = world.receive(ids), world.send(gradient(36_000), ids)
        if lost:
            world.network._emit = without_stop  # type: ignore[method-assign]
        world.run(2)
        world.network._emit = emit  # type: ignore[method-assign]
        world.run(2)
        assert receiving.result.done() and sending.result.done()
        trips.append(world.to_receiver.data_trip.smoothed)
    assert trips[1] == pytest.approx(trips[0], rel=0.01)
