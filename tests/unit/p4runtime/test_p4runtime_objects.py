# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Action profiles, counters, meters, registers, value sets, replication and digests through P4Runtime."""

from __future__ import annotations

from collections import Counter
from typing import Any

import everything as e
import pytest
from p4.v1 import p4runtime_pb2 as p4rt
from p4rt_messages import (
    DELETE,
    INSERT,
    MODIFY,
    action,
    big,
    entry,
    exact,
    forward,
    frame,
    read,
    refusal,
    refused,
    write,
)

from softswitch.p4runtime.endpoint import Endpoint
from softswitch.p4runtime.status import Code
from softswitch.switch import Switch

SOURCE = 0x020000000002


def member(identifier: int, port: int, profile: int = e.SELECTOR) -> Any:
    return p4rt.ActionProfileMember(action_profile_id=profile, member_id=identifier, action=forward(port))


def group(identifier: int, *members: tuple[int, int], watch: dict[int, int] | None = None, max_size: int = 0) -> Any:
    message = p4rt.ActionProfileGroup(action_profile_id=e.SELECTOR, group_id=identifier, max_size=max_size)
    for member_id, weight in members:
        added = message.members.add(member_id=member_id, weight=weight)
        if watch and member_id in watch:
            added.watch_port = big(watch[member_id])
    return message


def to_group(identifier: int) -> Any:
    message = entry(e.GROUPED, exact(1, SOURCE))
    message.action.action_profile_group_id = identifier
    return message


def one_shot(*actions: tuple[int, int], watch: bool = False) -> Any:
    message = entry(e.GROUPED, exact(1, SOURCE))
    message.action.action_profile_action_set.SetInParent()
    for port, weight in actions:
        added = message.action.action_profile_action_set.action_profile_actions.add(action=forward(port), weight=weight)
        if watch:
            added.watch_port = big(port)
    return message


def ports_taken(switch: Switch, flows: int = 2000) -> Counter[int]:
    return Counter(port for flow in range(flows) for port, _ in switch.inject(1, frame(ether_type=0x2000 + 7 * flow)))


# Action profiles.


def test_a_member_without_selector_is_an_action_by_reference(switch: Switch, endpoint: Endpoint) -> None:
    write(endpoint, INSERT, member(5, 3, e.PROFILE))
    wanted = entry(e.INDIRECT, exact(1, 0x1234))
    wanted.action.action_profile_member_id = 5
    write(endpoint, INSERT, wanted)
    assert read(endpoint, p4rt.TableEntry(table_id=e.INDIRECT)) == [wanted]
    assert switch.inject(1, frame()) == [(3, frame())]
    write(endpoint, MODIFY, member(5, 4, e.PROFILE))
    assert switch.inject(1, frame()) == [(4, frame())]
    assert refusal(endpoint, DELETE, member(5, 4, e.PROFILE)) == Code.FAILED_PRECONDITION
    write(endpoint, DELETE, wanted)
    write(endpoint, DELETE, member(5, 4, e.PROFILE))
    assert read(endpoint, p4rt.ActionProfileMember()) == []


def test_group_weights_share_the_flows(switch: Switch, endpoint: Endpoint) -> None:
    write(endpoint, INSERT, member(1, 3), member(2, 4))
    write(endpoint, INSERT, group(1, (1, 1), (2, 3)))
    write(endpoint, INSERT, to_group(1))
    shares = ports_taken(switch)
    assert set(shares) == {3, 4} and 2 < shares[4] / shares[3] < 4.5
    write(endpoint, MODIFY, group(1, (1, 1)))
    assert set(ports_taken(switch, 50)) == {3}


def test_members_and_groups_read_back_as_written(endpoint: Endpoint) -> None:
    members = [member(1, 3), member(2, 4), member(7, 5)]
    groups = [group(1, (1, 1), (7, 2), watch={7: 5}, max_size=8), group(2, (2, 1))]
    write(endpoint, INSERT, *members)
    write(endpoint, INSERT, *groups)
    assert sorted(read(endpoint, p4rt.ActionProfileMember()), key=lambda each: each.member_id) == members
    assert read(endpoint, p4rt.ActionProfileMember(action_profile_id=e.SELECTOR, member_id=7)) == [members[2]]
    assert read(endpoint, p4rt.ActionProfileMember(action_profile_id=e.PROFILE)) == []
    found = read(endpoint, p4rt.ActionProfileGroup(action_profile_id=e.SELECTOR))
    assert sorted(found, key=lambda each: each.group_id) == groups
    assert read(endpoint, p4rt.ActionProfileGroup(action_profile_id=e.SELECTOR, group_id=2)) == [groups[1]]


def test_a_member_is_left_out_while_its_watched_port_is_down(switch: Switch, endpoint: Endpoint) -> None:
    write(endpoint, INSERT, member(1, 3), member(2, 4))
    write(endpoint, INSERT, group(1, (1, 1), (2, 1), watch={1: 3, 2: 4}))
    write(endpoint, INSERT, to_group(1))
    assert set(ports_taken(switch, 100)) == {3, 4}
    switch.set_port_up(3, False)
    assert set(ports_taken(switch, 100)) == {4}
    switch.set_port_up(3, True)
    assert set(ports_taken(switch, 100)) == {3, 4}


def test_wrong_members_and_groups_are_refused(endpoint: Endpoint) -> None:
    write(endpoint, INSERT, member(1, 3), member(2, 4))
    write(endpoint, INSERT, group(1, (1, 1), max_size=4))
    write(endpoint, INSERT, to_group(1))
    wrong = p4rt.ActionProfileMember(action_profile_id=e.SELECTOR, member_id=3, action=action(e.COUNT, 1))
    for kind, message, code in [
        (INSERT, member(1, 3), Code.ALREADY_EXISTS),
        (MODIFY, member(9, 3), Code.NOT_FOUND),
        (DELETE, member(9, 3), Code.NOT_FOUND),
        (DELETE, member(1, 3), Code.FAILED_PRECONDITION),
        (INSERT, member(0, 3), Code.INVALID_ARGUMENT),
        (INSERT, member(3, 3, 99), Code.INVALID_ARGUMENT),
        (INSERT, wrong, Code.INVALID_ARGUMENT),
        (INSERT, p4rt.ActionProfileMember(action_profile_id=e.SELECTOR, member_id=3), Code.INVALID_ARGUMENT),
        (INSERT, group(1, (1, 1)), Code.ALREADY_EXISTS),
        (INSERT, group(2, (9, 1)), Code.NOT_FOUND),
        (INSERT, group(2, (1, 0)), Code.INVALID_ARGUMENT),
        (INSERT, group(2, (1, 1), (1, 1)), Code.INVALID_ARGUMENT),
        (INSERT, group(2, (1, 1), max_size=17), Code.INVALID_ARGUMENT),
        (INSERT, group(2, (1, 9), max_size=8), Code.RESOURCE_EXHAUSTED),
        (INSERT, group(2, (1, 1), watch={1: 99}), Code.INVALID_ARGUMENT),
        (MODIFY, group(1, (1, 1), max_size=5), Code.INVALID_ARGUMENT),
        (MODIFY, group(5, (1, 1)), Code.NOT_FOUND),
        (DELETE, group(5), Code.NOT_FOUND),
        (DELETE, group(1), Code.FAILED_PRECONDITION),
        (MODIFY, to_group(9), Code.NOT_FOUND),
        (INSERT, p4rt.ActionProfileGroup(action_profile_id=e.PROFILE, group_id=1), Code.INVALID_ARGUMENT),
        (INSERT, entry(e.GROUPED, exact(1, 1), do=forward(1)), Code.INVALID_ARGUMENT),
        (INSERT, one_shot((3, 1)), Code.INVALID_ARGUMENT),
    ]:
        assert refusal(endpoint, kind, message) == code, message


def test_an_action_set_reads_back_as_written_and_hides_its_members(switch: Switch, endpoint: Endpoint) -> None:
    wanted = one_shot((3, 1), (4, 3), (3, 1), watch=True)
    write(endpoint, INSERT, wanted)
    assert read(endpoint, p4rt.TableEntry(table_id=e.GROUPED)) == [wanted]
    assert read(endpoint, p4rt.ActionProfileMember(), p4rt.ActionProfileGroup()) == []
    assert set(ports_taken(switch)) == {3, 4}
    assert refusal(endpoint, INSERT, member(1, 3)) == Code.INVALID_ARGUMENT
    changed = one_shot((5, 1))
    write(endpoint, MODIFY, changed)
    assert set(ports_taken(switch, 50)) == {5}
    write(endpoint, MODIFY, entry(e.GROUPED, exact(1, SOURCE), controller_metadata=4))
    changed.controller_metadata = 4
    assert read(endpoint, p4rt.TableEntry(table_id=e.GROUPED)) == [changed]
    write(endpoint, DELETE, changed)
    write(endpoint, INSERT, member(1, 3))


def test_wrong_action_sets_leave_nothing_behind(endpoint: Endpoint) -> None:
    for wrong, code in [
        (one_shot((3, 1), (4, 0)), Code.INVALID_ARGUMENT),
        (one_shot((3, 1), (600, 1)), Code.OUT_OF_RANGE),
        (one_shot((3, 17)), Code.INVALID_ARGUMENT),
    ]:
        assert refusal(endpoint, INSERT, wrong) == code
    write(endpoint, INSERT, *(member(i, 3) for i in range(1, 65)))
    assert refusal(endpoint, INSERT, member(65, 3)) == Code.RESOURCE_EXHAUSTED


# Counters, meters, registers.


def test_counters_are_read_and_written(switch: Switch, endpoint: Endpoint) -> None:
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 0x020000000001), do=action(e.COUNT, 9)))
    for _ in range(3):
        switch.inject(1, frame())
    cell = p4rt.CounterEntry(counter_id=e.HITS, index=p4rt.Index(index=9))
    (found,) = read(endpoint, cell)
    assert (found.data.packet_count, found.data.byte_count) == (3, 3 * len(frame()))
    cell.data.packet_count = 100
    write(endpoint, MODIFY, cell)
    assert read(endpoint, cell) == [cell]
    for wildcard in (p4rt.CounterEntry(), p4rt.CounterEntry(counter_id=e.HITS)):
        every = read(endpoint, wildcard)
        assert [each.index.index for each in every] == list(range(512))
        assert sum(each.data.packet_count for each in every) == 100
    write(endpoint, MODIFY, p4rt.CounterEntry(counter_id=e.HITS, data=p4rt.CounterData(packet_count=1)))
    assert sum(each.data.packet_count for each in read(endpoint, p4rt.CounterEntry())) == 512


def test_wrong_indices_have_their_codes(endpoint: Endpoint) -> None:
    for message in (p4rt.CounterEntry(counter_id=e.HITS), p4rt.MeterEntry(meter_id=e.LIMITS)):
        message.index.index = -1
        assert refusal(endpoint, MODIFY, message) == Code.INVALID_ARGUMENT
        message.index.index = 512
        assert refusal(endpoint, MODIFY, message) == Code.OUT_OF_RANGE
        assert refused(lambda message=message: read(endpoint, message)) == {0: Code.OUT_OF_RANGE}  # type: ignore[misc]
        message.index.index = 1
        assert refusal(endpoint, INSERT, message) == Code.INVALID_ARGUMENT
        assert refusal(endpoint, DELETE, message) == Code.INVALID_ARGUMENT


def test_meters_are_configured_one_by_one_or_all(endpoint: Endpoint) -> None:
    config = p4rt.MeterConfig(cir=5, cburst=6, pir=7, pburst=8)
    cell = p4rt.MeterEntry(meter_id=e.LIMITS, index=p4rt.Index(index=3), config=config)
    write(endpoint, MODIFY, cell)
    assert read(endpoint, p4rt.MeterEntry(meter_id=e.LIMITS, index=p4rt.Index(index=3))) == [cell]
    assert [each.HasField("config") for each in read(endpoint, p4rt.MeterEntry())] == [i == 3 for i in range(16)]
    write(endpoint, MODIFY, p4rt.MeterEntry(meter_id=e.LIMITS, config=config))
    assert all(each.config == config for each in read(endpoint, p4rt.MeterEntry(meter_id=e.LIMITS)))
    write(endpoint, MODIFY, p4rt.MeterEntry(meter_id=e.LIMITS))
    assert not any(each.HasField("config") for each in read(endpoint, p4rt.MeterEntry(meter_id=e.LIMITS)))


def test_wrong_meter_configurations_are_refused(endpoint: Endpoint) -> None:
    for fields in ({"cir": -1}, {"cir": 5, "pir": 4}, {"cir": 1, "pir": 1, "eburst": 1}):
        cell = p4rt.MeterEntry(meter_id=e.LIMITS, config=p4rt.MeterConfig(**fields))
        assert refusal(endpoint, MODIFY, cell) == Code.INVALID_ARGUMENT
    counted = p4rt.MeterEntry(meter_id=e.LIMITS, counter_data=p4rt.MeterCounterData())
    assert refusal(endpoint, MODIFY, counted) == Code.UNIMPLEMENTED


def register(identifier: int, index: int | None = None, value: bytes | None = None) -> Any:
    message = p4rt.RegisterEntry(register_id=identifier)
    if index is not None:
        message.index.index = index
    if value is not None:
        message.data.bitstring = value
    return message


def test_registers_are_read_and_written(switch: Switch, endpoint: Endpoint) -> None:
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 0x020000000001), do=action(e.STORE, 5, 0xCAFE)))
    switch.inject(1, frame())
    assert read(endpoint, register(e.CELLS, 5)) == [register(e.CELLS, 5, b"\xca\xfe")]
    write(endpoint, MODIFY, register(e.CELLS, 6, b"\0\0\0\0\x07"))
    assert read(endpoint, register(e.CELLS, 6)) == [register(e.CELLS, 6, b"\x07")]
    assert read(endpoint, register(e.CELLS, 7)) == [register(e.CELLS, 7, b"\0")]
    write(endpoint, MODIFY, register(e.NARROW, value=b"\x1f"))
    assert [each.data.bitstring for each in read(endpoint, register(e.NARROW))] == [b"\x1f"] * 8
    assert len(read(endpoint, p4rt.RegisterEntry())) == 64 + 8 + 8


@pytest.mark.parametrize("value", [0, 1, 127, 128, 2047, -1, -128, -129, -2048])
def test_signed_registers_keep_their_sign(endpoint: Endpoint, value: int) -> None:
    length = next(size for size in (1, 2) if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1)
    shortest = value.to_bytes(length, "big", signed=True)
    write(endpoint, MODIFY, register(e.SIGNED, 1, value.to_bytes(5, "big", signed=True)))
    assert read(endpoint, register(e.SIGNED, 1)) == [register(e.SIGNED, 1, shortest)]


def test_wrong_register_data_are_refused(endpoint: Endpoint) -> None:
    for message, code in [
        (register(e.NARROW, 1, b"\x20"), Code.OUT_OF_RANGE),
        (register(e.NARROW, 1, b""), Code.OUT_OF_RANGE),
        (register(e.NARROW, 8, b"\x01"), Code.OUT_OF_RANGE),
        (register(e.SIGNED, 1, b"\x08\x00"), Code.OUT_OF_RANGE),
        (register(e.SIGNED, 1, b"\xf7\xff"), Code.OUT_OF_RANGE),
        (register(e.NARROW, -1, b"\x01"), Code.INVALID_ARGUMENT),
        (register(e.NARROW, 1), Code.INVALID_ARGUMENT),
        (register(77, 1, b"\x01"), Code.INVALID_ARGUMENT),
    ]:
        assert refusal(endpoint, MODIFY, message) == code, message
    boolean = register(e.NARROW, 1)
    boolean.data.bool = True
    assert refusal(endpoint, MODIFY, boolean) == Code.INVALID_ARGUMENT


# Value sets.


def test_a_value_set_steers_the_parser(switch: Switch, endpoint: Endpoint) -> None:
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 0x020000000001), do=forward(e.CPU_PORT)))
    wanted = p4rt.ValueSetEntry(value_set_id=e.VALUE_SET)
    wanted.members.add(match=[exact(1, 0x1234)])
    wanted.members.add(match=[exact(1, 0x88)])
    write(endpoint, MODIFY, wanted)
    assert read(endpoint, p4rt.ValueSetEntry()) == [wanted]

    def reason(ether_type: int) -> bytes:
        switch.inject(1, frame(ether_type=ether_type))
        (message,) = endpoint.messages()
        return bytes(message.packet.metadata[1].value)

    assert reason(0x1234) == b"\x01" and reason(0x4321) == b"\0"
    write(endpoint, MODIFY, p4rt.ValueSetEntry(value_set_id=e.VALUE_SET))
    assert reason(0x1234) == b"\0"


def test_wrong_value_sets_are_refused(endpoint: Endpoint) -> None:
    full = p4rt.ValueSetEntry(value_set_id=e.VALUE_SET)
    for value in range(5):
        full.members.add(match=[exact(1, value)])
    assert refusal(endpoint, MODIFY, full) == Code.RESOURCE_EXHAUSTED
    twice = p4rt.ValueSetEntry(value_set_id=e.VALUE_SET)
    for _ in range(2):
        twice.members.add(match=[exact(1, 3)])
    assert refusal(endpoint, MODIFY, twice) == Code.ALREADY_EXISTS
    assert refusal(endpoint, INSERT, p4rt.ValueSetEntry(value_set_id=e.VALUE_SET)) == Code.INVALID_ARGUMENT


# Replication.


def multicast(identifier: int, *replicas: tuple[int, int]) -> Any:
    message = p4rt.PacketReplicationEngineEntry()
    message.multicast_group_entry.multicast_group_id = identifier
    for port, instance in replicas:
        message.multicast_group_entry.replicas.add(port=big(port), instance=instance)
    return message


def clone(identifier: int, *ports: int, length: int = 0) -> Any:
    message = p4rt.PacketReplicationEngineEntry()
    message.clone_session_entry.session_id = identifier
    message.clone_session_entry.packet_length_bytes = length
    for port in ports:
        message.clone_session_entry.replicas.add(egress_port=port, instance=1)
    return message


def test_a_multicast_group_replicates(switch: Switch, endpoint: Endpoint) -> None:
    write(endpoint, INSERT, multicast(1, (3, 1), (4, 2)), multicast(2, (5, 0)))
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 0x020000000001), do=action(e.BROADCAST, 1)))
    assert sorted(switch.inject(1, frame())) == [(3, frame()), (4, frame())]
    assert read(endpoint, p4rt.PacketReplicationEngineEntry()) == [multicast(1, (3, 1), (4, 2)), multicast(2, (5, 0))]
    assert read(endpoint, multicast(2)) == [multicast(2, (5, 0))]
    assert read(endpoint, multicast(3)) == []
    write(endpoint, MODIFY, multicast(1, (6, 1)))
    assert switch.inject(1, frame()) == [(6, frame())]
    write(endpoint, DELETE, multicast(1))
    assert switch.inject(1, frame()) == []


def test_a_clone_session_copies_and_cuts(switch: Switch, endpoint: Endpoint) -> None:
    write(endpoint, INSERT, clone(7, 5, length=20))
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 0x020000000001), do=action(e.COPY, 7)))
    write(endpoint, MODIFY, entry(e.KEYLESS, do=forward(3), is_default_action=True))
    assert sorted(switch.inject(1, frame())) == [(3, frame()), (5, frame()[:20])]
    assert read(endpoint, clone(0)) == [clone(7, 5, length=20)]
    write(endpoint, DELETE, clone(7))
    assert switch.inject(1, frame()) == [(3, frame())]


def test_wrong_replication_is_refused(endpoint: Endpoint) -> None:
    write(endpoint, INSERT, multicast(1, (3, 1)))
    unequal = clone(1, 3)
    unequal.clone_session_entry.class_of_service = 2
    for kind, message, code in [
        (INSERT, multicast(1, (3, 1)), Code.ALREADY_EXISTS),
        (MODIFY, multicast(2, (3, 1)), Code.NOT_FOUND),
        (DELETE, multicast(2), Code.NOT_FOUND),
        (INSERT, multicast(0, (3, 1)), Code.INVALID_ARGUMENT),
        (INSERT, multicast(1 << 16, (3, 1)), Code.OUT_OF_RANGE),
        (INSERT, multicast(2, (600, 1)), Code.INVALID_ARGUMENT),
        (INSERT, multicast(2, (3, 1), (3, 1)), Code.INVALID_ARGUMENT),
        (INSERT, multicast(2, (3, 1 << 16)), Code.INVALID_ARGUMENT),
        (INSERT, unequal, Code.UNIMPLEMENTED),
        (INSERT, clone(1, 3, length=-1), Code.INVALID_ARGUMENT),
        (INSERT, p4rt.PacketReplicationEngineEntry(), Code.INVALID_ARGUMENT),
    ]:
        assert refusal(endpoint, kind, message) == code, message


def test_replication_is_rolled_back_with_its_batch(switch: Switch, endpoint: Endpoint) -> None:
    write(endpoint, INSERT, multicast(1, (3, 1)))
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 0x020000000001), do=action(e.BROADCAST, 1)))
    codes = refused(
        lambda: write(
            endpoint, INSERT, multicast(2, (4, 1)), multicast(1, (5, 1)), atomicity=p4rt.WriteRequest.ROLLBACK_ON_ERROR
        )
    )
    assert codes == {0: Code.ABORTED, 1: Code.ALREADY_EXISTS}
    assert read(endpoint, p4rt.PacketReplicationEngineEntry()) == [multicast(1, (3, 1))]
    assert switch.inject(1, frame()) == [(3, frame())]


# Digests.


def digest(max_size: int = 0, timeout_ns: int = 0, ack_ns: int = 0) -> Any:
    message = p4rt.DigestEntry(digest_id=e.LEARNED)
    message.config.max_list_size, message.config.max_timeout_ns = max_size, timeout_ns
    message.config.ack_timeout_ns = ack_ns
    return message


@pytest.fixture
def learning(endpoint: Endpoint) -> Endpoint:
    """An endpoint whose switch learns every frame."""
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 0x020000000001), do=action(e.LEARN)))
    return endpoint


def lists(endpoint: Endpoint) -> list[Any]:
    return [message.digest for message in endpoint.messages() if message.HasField("digest")]


def test_digests_are_sent_once_enabled(switch: Switch, learning: Endpoint) -> None:
    switch.inject(1, frame())
    assert lists(learning) == []
    write(learning, INSERT, digest())
    assert read(learning, p4rt.DigestEntry()) == [digest()]
    switch.inject(2, frame(source=0x0200000000AB))
    (found,) = lists(learning)
    assert found.digest_id == e.LEARNED and found.list_id == 1
    (learned,) = found.data
    values = [each.bitstring for each in learned.struct.members]
    assert values == [big(0x0200000000AB), b"\x02"]
    write(learning, DELETE, digest())
    switch.inject(1, frame())
    assert lists(learning) == []


def test_digests_wait_for_size_or_time(switch: Switch, learning: Endpoint) -> None:
    write(learning, INSERT, digest(max_size=3, timeout_ns=10**6))
    for source in (1, 2, 2, 1):
        switch.inject(1, frame(source=source))
    assert lists(learning) == []
    switch.inject(1, frame(source=3))
    assert [len(each.data) for each in lists(learning)] == [3]
    switch.inject(1, frame(source=4))
    assert lists(learning) == []
    assert learning.digest_deadline_ns() == switch.now + 10**6
    switch.set_clock(switch.now + 10**6)
    assert [len(each.data) for each in lists(learning)] == [1]
    assert learning.digest_deadline_ns() is None


def test_an_unacknowledged_digest_is_not_repeated(switch: Switch, learning: Endpoint) -> None:
    write(learning, INSERT, digest(ack_ns=10**9))
    switch.inject(1, frame())
    (first,) = lists(learning)
    switch.inject(1, frame())
    assert lists(learning) == []
    learning.acknowledge(p4rt.DigestListAck(digest_id=e.LEARNED, list_id=first.list_id))
    switch.inject(1, frame())
    assert len(lists(learning)) == 1
    switch.set_clock(switch.now + 10**9)
    switch.inject(1, frame())
    assert len(lists(learning)) == 1


def test_wrong_digest_entries_are_refused(endpoint: Endpoint) -> None:
    assert refusal(endpoint, INSERT, p4rt.DigestEntry(digest_id=9)) == Code.INVALID_ARGUMENT
    assert refusal(endpoint, MODIFY, digest()) == Code.NOT_FOUND
    assert refusal(endpoint, INSERT, digest(max_size=-1)) == Code.INVALID_ARGUMENT
    write(endpoint, INSERT, digest())
    assert refusal(endpoint, INSERT, digest()) == Code.ALREADY_EXISTS


def test_further_externs_are_not_known(endpoint: Endpoint) -> None:
    extern = p4rt.ExternEntry(extern_type_id=1, extern_id=1)
    assert refusal(endpoint, INSERT, extern) == Code.UNIMPLEMENTED
    assert refused(lambda: read(endpoint, extern)) == {0: Code.UNIMPLEMENTED}
