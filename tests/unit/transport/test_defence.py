# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Foreign, forged, replayed and malformed packets are counted and change nothing; memory stays bounded."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.transport.world import Pair, check, exchange, gradient, pair
from traffic.packer import TensorId
from traffic.transport.authentication import MAC_BYTES, ReplayWindow, Seal
from traffic.transport.control import Control, Malformed, Missing, Opening
from traffic.transport.core import Verdict
from traffic.transport.endpoint import Peer
from traffic.transport.receiver import Expectation
from traffic.transport.settings import Settings
from traffic.transport.virtual import Node, Trouble
from traffic.wire import GradientType, version_type

KEY = bytes(range(32))


def give(world: Pair, node: Node, frame: bytes, source: int) -> None:
    """Let a packet of anybody's arrive at a node."""
    verdict = node.endpoint.core.accept(frame, 0, source, world.network.now)
    if verdict in (Verdict.CONTROL, Verdict.UNKNOWN):
        node.endpoint.take(frame, source, verdict, world.network.now)
    world.network.wake(node)


def opening(world: Pair, ids: TensorId = TensorId(), *, seal: Seal | None = None, counter: int = 1) -> bytes:  # noqa: B008
    body = Opening(10, 0, 0, 0, 0, 0, 0, 360).pack()
    key = b"".join(
        number.to_bytes(size, "big")
        for number, size in ((ids.job, 2), (ids.rank, 2), (ids.tensor, 2), (ids.layer, 2), (ids.round, 4))
    )
    session = world.receiver.endpoint.session
    message = Control(GradientType.START, key, 0, 1, counter, 99, session, 0, body).pack()
    return (seal or Seal(None)).close(message)


def test_control_of_a_stranger_is_counted_and_ignored() -> None:
    world = pair()
    give(world, world.receiver, opening(world), source=77)
    assert world.receiver.endpoint.counts.foreign == 1
    assert not world.to_sender.receiving


def test_data_of_a_stranger_for_an_open_message_is_counted_and_not_placed() -> None:
    world, values, ids = pair(Trouble(jitter=10_000_000)), gradient(100_000), TensorId()
    sending = world.send(values, ids)
    receiving = world.receive(ids)
    world.run(0.1)
    forged = bytes([version_type(GradientType.DATA), 0, 0, 0]) + bytes(12 + 4) + b"\x01\x68" + bytes(10) + bytes(1440)
    give(world, world.receiver, forged, source=77)
    assert world.receiver.endpoint.core.struct.foreign == 1
    world.run()
    check(values, sending.result.result(0), receiving.result.result(0), 0)


def test_a_job_with_a_key_works_under_trouble() -> None:
    values = gradient(36_000)
    world = pair(Trouble(loss=0.1, control_loss=0.1, duplicate=0.1, truncate=0.05), settings=Settings(key=KEY))
    for number in range(3):
        sent, received = exchange(world, values, tolerance=0.1, ids=TensorId(round=number))
        check(values, sent, received, 0.1)


def test_without_the_jobs_key_nothing_is_taken() -> None:
    world = pair(settings=Settings(key=KEY))
    give(world, world.receiver, opening(world), world.sender.number)
    give(world, world.receiver, opening(world, seal=Seal(bytes(32))), world.sender.number)
    assert world.receiver.endpoint.counts.forged == 2
    assert not world.to_sender.receiving
    give(world, world.receiver, opening(world, seal=Seal(KEY)), world.sender.number)
    assert world.to_sender.receiving


def test_a_replayed_message_is_taken_once() -> None:
    world = pair(settings=Settings(key=KEY))
    message = opening(world, seal=Seal(KEY))
    for _ in range(3):
        give(world, world.receiver, message, world.sender.number)
    assert world.receiver.endpoint.counts.replayed == 2
    assert world.receiver.endpoint.counts.control == 1


def test_what_was_recorded_in_an_earlier_life_is_not_taken_in_this_one() -> None:
    first, second = pair(seed=1, settings=Settings(key=KEY)), pair(seed=2, settings=Settings(key=KEY))
    give(second, second.receiver, opening(first, seal=Seal(KEY)), second.sender.number)
    assert second.receiver.endpoint.counts.stale == 1
    assert not second.to_sender.receiving


def test_a_sender_that_starts_anew_delivers_the_same_message_from_the_beginning() -> None:
    world, values, ids = pair(seed=1), gradient(400_000), TensorId()
    receiving = world.receive(ids)
    world.send(gradient(400_000, seed=5), ids)
    world.run(0.05)
    again = pair(seed=8)
    world.sender.endpoint = again.sender.endpoint
    world.to_receiver = world.network.peer(world.sender, world.receiver)
    sending = world.send(values, ids)
    world.run()
    check(values, sending.result.result(0), receiving.result.result(0), 0)


def test_a_receiver_that_starts_anew_gets_the_message_whole() -> None:
    world, values, ids = pair(Trouble(loss=0.2, trim=0.2), seed=1), gradient(400_000), TensorId()
    world.receive(ids)
    sending = world.send(values, ids)
    world.run(0.05)
    world.receiver.endpoint = pair(seed=8).receiver.endpoint
    world.to_sender = world.network.peer(world.receiver, world.sender)
    receiving = world.receive(ids)
    world.run()
    check(values, sending.result.result(0), receiving.result.result(0), 0)


def test_what_comes_late_of_an_earlier_life_ends_nothing_in_this_one() -> None:
    """The STOP of a receiver that has died since would tell the sender that the new one has the values."""
    world, values, ids = pair(seed=1), gradient(40_000), TensorId()
    world.receive(ids)
    sending = world.send(values, ids)
    late = list[tuple[Node, bytes]]()
    emit = world.network._emit

    def hold_back(node: Node, destination: Node, frame: bytes) -> None:
        if node is world.receiver and frame[0] & 15 in (GradientType.STOP, GradientType.REPORT):
            late.append((destination, frame))
        else:
            emit(node, destination, frame)

    world.network._emit = hold_back  # type: ignore[method-assign]
    world.run(0.1)
    assert late and not sending.result.done()
    world.receiver.endpoint = pair(seed=8).receiver.endpoint
    world.to_sender = world.network.peer(world.receiver, world.sender)
    renewed = list[Peer]()
    world.sender.endpoint.renewed = renewed.append
    receiving = world.receive(ids, Expectation(values=values.size, eager=False))
    world.network._emit = emit  # type: ignore[method-assign]
    while not receiving.arrived_packets:
        world.run(0.001)
    for destination, frame in late:
        give(world, destination, frame, world.receiver.number)
    assert renewed == [world.to_receiver]
    assert not sending.result.done()
    assert world.sender.endpoint.counts.stale
    world.run()
    check(values, sending.result.result(0), receiving.result.result(0), 0)


def test_an_opening_of_more_packets_than_sequences_is_no_crash() -> None:
    world, ids = pair(), TensorId()
    receiving = world.receive(ids, Expectation(values=1 << 29))
    start = bytearray(opening(world))
    start[44:48], start[72:74] = (1 << 29).to_bytes(4, "big"), (1).to_bytes(2, "big")
    give(world, world.receiver, bytes(start), world.sender.number)
    assert receiving.state.name == "OPEN"


def test_messages_that_nobody_asked_for_wait_for_room_and_arrive_once_there_is() -> None:
    values = gradient(10_000)
    world = pair(receiver_settings=Settings(memory_per_peer=100_000))
    sendings = [world.send(values, TensorId(tensor=number)) for number in range(6)]
    world.run(20)
    assert sum(sending.result.done() for sending in sendings) == 2
    assert world.to_sender.charged <= 100_000
    receivings = [world.receive(TensorId(tensor=number)) for number in range(6)]
    world.run(20)
    for sending, receiving in zip(sendings, receivings, strict=True):
        check(values, sending.result.result(0), receiving.result.result(0), 0)
    assert world.to_sender.charged == 0


def test_a_flood_of_small_messages_finds_no_more_room_than_large_ones() -> None:
    world = pair(receiver_settings=Settings(memory_per_peer=100_000))
    for number in range(2000):
        give(world, world.receiver, opening(world, TensorId(tensor=number), counter=1 + number), world.sender.number)
    assert len(world.to_sender.receiving) == 100_000 // (4096 + 40)
    assert len(world.to_sender._waiting) == 1024
    assert world.to_sender.charged <= 100_000


def test_early_data_is_kept_up_to_a_bound() -> None:
    world = pair(receiver_settings=Settings(early_packets=10))
    frame = bytes([version_type(GradientType.DATA)]) + bytes(31)
    for _ in range(25):
        give(world, world.receiver, frame, world.sender.number)
    assert world.receiver.endpoint.counts.early == 25
    assert world.receiver.endpoint.counts.early_dropped == 15


def test_data_that_a_driver_takes_together_with_its_opening_counts() -> None:
    """A batch of packets goes to the core before any of its control messages is acted upon."""
    world, values = pair(), gradient(10)
    endpoint, now, source = world.receiver.endpoint, world.network.now, world.sender.number
    start = opening(world)
    data = bytes([version_type(GradientType.DATA), 0, 0, 0]) + start[4:16] + bytes(4) + b"\x00\x0a" + bytes(10)
    batch = [(frame, endpoint.core.accept(frame, 0, source, now)) for frame in (start, data + values.tobytes())]
    assert [verdict for _, verdict in batch] == [Verdict.CONTROL, Verdict.UNKNOWN]
    for frame, verdict in batch:
        endpoint.take(frame, source, verdict, now)
    endpoint.settle(now)
    received = world.receive(TensorId()).result.result(0)
    np.testing.assert_array_equal(received.values, values)
    assert endpoint.counts.early == 0


def test_what_is_remembered_of_complete_messages_is_bounded() -> None:
    world = pair(receiver_settings=Settings(remembered=5))
    for number in range(12):
        ids = TensorId(round=number)
        world.receive(ids)
        world.send(gradient(10), ids)
        world.run(0.1)
    assert len(world.to_sender.complete) == 5
    assert world.receiver.endpoint.core.struct.size == 5


@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_no_bytes_whatever_break_an_endpoint(data: st.DataObject) -> None:
    """Random packets, and sound ones with bytes changed, cut or added, from a peer."""
    world, values, ids = pair(seed=1), gradient(1000), TensorId()
    receiving = world.receive(ids)
    world.send(values, ids)
    world.run(data.draw(st.sampled_from([0.0, 0.0005, 0.002])))
    kind = data.draw(st.integers(0, 15))
    frame = bytearray([0x10 | kind]) + bytearray(data.draw(st.binary(max_size=120)))
    if data.draw(st.booleans()):
        frame = bytearray(opening(world, counter=1000))
        frame[0] = 0x10 | data.draw(st.integers(1, 8))
        for _ in range(data.draw(st.integers(0, 4))):
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
        frame = frame[: data.draw(st.integers(0, len(frame)))] + data.draw(st.binary(max_size=8))
    give(world, world.receiver, bytes(frame), world.sender.number)
    give(world, world.sender, bytes(frame), world.receiver.number)
    world.run(0.5)
    assert receiving.state.name in ("COMPLETE", "FAILED", "OPEN", "EXPECTED")


@settings(deadline=None)
@given(st.lists(st.integers(0, 3000), max_size=400))
def test_a_replay_window_takes_each_counter_once(counters: list[int]) -> None:
    window, taken = ReplayWindow(), set[int]()
    for counter in counters:
        if window.take(counter):
            assert counter not in taken
            taken.add(counter)
        else:
            assert counter in taken or not counter or max(taken) - counter >= 1024


def test_a_seal_opens_only_what_it_closed() -> None:
    seal = Seal(KEY)
    closed = seal.close(b"message")
    assert len(closed) == len(b"message") + MAC_BYTES
    assert seal.open(closed) == b"message"
    for position in range(len(closed)):
        assert seal.open(closed[:position] + bytes([closed[position] ^ 1]) + closed[position + 1 :]) is None
    assert seal.open(b"") is None
    with pytest.raises(ValueError, match="16 to 64"):
        Seal(b"short")


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=1, max_size=8192))
def test_a_map_of_missing_packets_survives_its_bytes(bits: list[bool]) -> None:
    part = Missing(1, 0, 1, 0, 2, np.array(bits))
    read = Missing.parse(part.pack())
    np.testing.assert_array_equal(read.missing, part.missing)
    with pytest.raises(Malformed):
        Missing.parse(part.pack() + b"\0")
