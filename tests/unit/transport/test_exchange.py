# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Whatever the network does, a message completes with what was delivered, and both ends know exactly what was not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.transport.world import check, exchange, gradient, pair
from traffic.packer import TensorId
from traffic.transport.ranges import mask_of
from traffic.transport.receiver import Expectation
from traffic.transport.settings import Settings
from traffic.transport.timing import MILLISECOND, SECOND
from traffic.transport.virtual import Trouble
from traffic.wire import DataType

share = st.floats(0, 0.4)
PATIENT = Settings(patience=60 * SECOND, overdue=600 * SECOND)
"""So that mere bad luck does not make a peer seem lost."""
troubles = st.builds(
    Trouble,
    loss=share,
    control_loss=share,
    least_important_loss=share,
    duplicate=share,
    corrupt=st.floats(0, 0.2),
    truncate=st.floats(0, 0.2),
    trim=share,
    jitter=st.sampled_from([0, MILLISECOND // 10, 5 * MILLISECOND, 50 * MILLISECOND]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    trouble=troubles,
    size=st.integers(1, 40_000),
    tolerance=st.sampled_from([0.0, 0.02, 0.1, 0.4, 1.0]),
    eager=st.booleans(),
    seed=st.integers(0, 1 << 16),
)
def test_any_trouble_ends_in_exact_values_and_exact_ranges(
    trouble: Trouble, size: int, tolerance: float, eager: bool, seed: int
) -> None:
    values = gradient(size, seed)
    sent, received = exchange(pair(trouble, seed=seed, settings=PATIENT), values, tolerance=tolerance, eager=eager)
    check(values, sent, received, tolerance)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(trouble=troubles, seed=st.integers(0, 1 << 16))
def test_many_messages_at_once_do_not_disturb_each_other(trouble: Trouble, seed: int) -> None:
    world = pair(trouble, seed=seed, settings=PATIENT)
    random = np.random.default_rng(seed)
    messages = [(TensorId(tensor=i, layer=i), gradient(int(random.integers(1, 6000)), i)) for i in range(8)]
    sendings = [world.send(values, ids, tolerance=0.1) for ids, values in messages]
    receivings = [world.receive(ids, Expectation(values=values.size)) for ids, values in messages]
    world.run(600)
    for (_, values), sending, receiving in zip(messages, sendings, receivings, strict=True):
        check(values, sending.result.result(0), receiving.result.result(0), 0.1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    trouble=troubles,
    size=st.integers(1, 20_000),
    kept=st.floats(0, 1),
    tolerance=st.sampled_from([0.0, 0.2]),
    seed=st.integers(0, 1 << 16),
)
def test_packets_of_zeros_are_told_and_not_sent(
    trouble: Trouble, size: int, kept: float, tolerance: float, seed: int
) -> None:
    values, packets = gradient(size, seed), -(-size // 360)
    blank = np.random.default_rng(seed).random(packets) >= kept
    values[np.repeat(blank, 360)[:size]] = 0
    world, ids, out = pair(trouble, seed=seed, settings=PATIENT), TensorId(), np.full(size, 7, np.float32)
    sending = world.send(values, ids, tolerance=tolerance, blank=True)
    receiving = world.receive(ids, Expectation(out=out))
    world.run(600)
    sent, received = sending.result.result(0), receiving.result.result(0)
    np.testing.assert_array_equal(sent.missing, received.missing)
    assert received.missing_values <= tolerance * size
    there = ~mask_of(received.missing, size)
    np.testing.assert_array_equal(out[there], values[there])
    assert there[np.repeat(blank, 360)[:size]].all()


def test_a_message_of_nothing_but_zeros_takes_no_data_packet() -> None:
    world, ids = pair(), TensorId()
    sending = world.send(np.zeros(5000, np.float32), ids, blank=True)
    receiving = world.receive(ids)
    world.run(1)
    assert sending.result.result(0).sent == 0
    assert not receiving.result.result(0).values.any()


def test_without_trouble_every_packet_is_sent_once_and_nothing_is_asked_for() -> None:
    values = gradient(100_000)
    sent, received = exchange(pair(), values)
    check(values, sent, received, 0)
    assert sent.sent == sent.packets == received.packets
    assert received.requests == received.duplicates == 0


def test_the_report_says_who_sent_what() -> None:
    _, received = exchange(pair(), gradient(10), ids=TensorId(job=9, rank=8, weight=77))
    assert received.weight == 77
    assert received.values.dtype == np.float32


@pytest.mark.parametrize(("data_type", "digits"), [(DataType.FLOAT16, 1e-3), (DataType.BFLOAT16, 8e-3)])
def test_two_byte_types_arrive_rounded_and_in_half_the_packets(data_type: DataType, digits: float) -> None:
    world, values, ids = pair(Trouble(loss=0.1)), gradient(50_000), TensorId()
    out = np.zeros_like(values)
    receiving = world.receive(ids, Expectation(out=out))
    sending = world.send(values, ids, data_type=data_type)
    world.run()
    np.testing.assert_allclose(out, values, rtol=digits, atol=1e-6)
    assert receiving.result.result(0).values is out
    assert sending.result.result(0).packets == -(-50_000 // 720)


def test_values_go_where_the_user_wants_them_and_lost_ones_leave_what_was_there() -> None:
    world, values, ids = pair(Trouble(least_important_loss=0.2)), gradient(36_000), TensorId()
    out = np.full_like(values, 7)
    receiving = world.receive(ids, Expectation(out=out, eager=False))
    world.send(values, ids, tolerance=0.3)
    world.run()
    missing = receiving.result.result(0).missing
    assert len(missing)
    for first, end in missing:
        assert (out[first:end] == 7).all()


def test_a_message_may_arrive_before_anybody_asks_for_it() -> None:
    world, values, ids = pair(), gradient(5000), TensorId()
    sending = world.send(values, ids)
    world.run(1)
    sending.result.result(0)
    out = np.zeros_like(values)
    receiving = world.receive(ids, Expectation(out=out))
    np.testing.assert_array_equal(receiving.result.result(0).values, values)
    np.testing.assert_array_equal(out, values)


def test_the_stricter_of_both_ends_tolerances_holds() -> None:
    for ours, theirs in ((0.5, 0.05), (0.05, 0.5)):
        world, values, ids = pair(Trouble(loss=0.3)), gradient(36_000), TensorId()
        receiving = world.receive(ids, Expectation(tolerance=theirs))
        world.send(values, ids, tolerance=ours)
        world.run()
        assert receiving.result.result(0).missing_values <= 0.05 * values.size


def test_protected_packets_arrive_whatever_the_tolerance() -> None:
    world, values, ids = pair(Trouble(loss=0.5), seed=3), gradient(36_000), TensorId()
    receiving = world.receive(ids)
    sending = world.send(values, ids, tolerance=0.9)
    protected = np.flatnonzero(sending.message.protected)
    world.run()
    missing = {
        int(first) // 360 for first, end in receiving.result.result(0).missing for first in range(first, end, 360)
    }
    assert len(protected) == 5
    assert not missing & set(protected.tolist())


def test_a_short_tensor_is_protected_as_a_whole() -> None:
    _, received = exchange(pair(Trouble(loss=0.3)), gradient(7 * 360), tolerance=1.0)
    assert not received.missing_values


def test_what_the_sender_asks_for_again_is_the_most_important_of_what_is_missing() -> None:
    world, values, ids = pair(Trouble(least_important_loss=0.5)), gradient(100 * 360), TensorId()
    receiving = world.receive(ids, Expectation(eager=False))
    sending = world.send(values, ids, tolerance=0.3)
    world.run()
    missing = receiving.result.result(0).missing
    lost = {packet for first, end in missing for packet in range(first // 360, -(-end // 360))}
    importance = sending.message.importance
    assert len(lost) == 30
    assert max(importance[sorted(lost)]) < min(np.delete(importance, sorted(lost)))


def test_a_receiver_that_is_not_eager_takes_what_is_still_on_its_way() -> None:
    values, all_sent = gradient(36_000), Settings(spare_share=1.0)
    assert exchange(pair(settings=all_sent), values, tolerance=0.3, eager=True)[1].missing_values > 0
    assert exchange(pair(settings=all_sent), values, tolerance=0.3, eager=False)[1].missing_values == 0


def test_the_least_important_that_may_be_missing_are_sent_only_if_others_get_lost() -> None:
    world, values, ids = pair(settings=Settings(spare_share=0.1)), gradient(100 * 360), TensorId()
    receiving = world.receive(ids, Expectation(eager=False))
    sending = world.send(values, ids, tolerance=0.3)
    world.run()
    missing = receiving.result.result(0).missing
    held = {packet for first, end in missing for packet in range(first // 360, end // 360)}
    assert held == set(np.argsort(sending.message.importance, kind="stable")[:20].tolist())
    lossy = pair(Trouble(loss=0.4), settings=Settings(spare_share=0.1))
    assert exchange(lossy, values, tolerance=0.3)[1].missing_values <= 0.3 * values.size


def test_of_a_message_that_may_miss_nothing_the_fabric_may_drop_nothing() -> None:
    world, values = pair(), gradient(100 * 360)
    assert world.send(values, TensorId(round=1)).message.protected.all()
    assert not world.send(values, TensorId(round=2), tolerance=0.1).message.protected.all()
