# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Table entries through P4Runtime: what is written is read back, forwards packets, and is refused when it is wrong."""

from __future__ import annotations

import contextlib
import re
import threading
from typing import Any

import everything as e
import pytest
from p4.v1 import p4runtime_pb2 as p4rt
from p4rt_messages import (
    DELETE,
    INSERT,
    MODIFY,
    action,
    between,
    bulk_inserts,
    entity,
    entry,
    exact,
    forward,
    frame,
    lpm,
    optional,
    read,
    refusal,
    refused,
    ternary,
    update,
    write,
)

from softswitch.p4runtime.endpoint import Endpoint
from softswitch.p4runtime.status import Code, StatusError
from softswitch.switch import Switch

KINDS = {
    "exact": entry(e.EXACT, exact(1, 0x020000000001), do=forward(3)),
    "lpm": entry(e.LPM, lpm(1, 0x020000000000, 24), do=forward(3)),
    "ternary": entry(e.TERNARY, ternary(1, 1, 0xFF), ternary(2, 0x1234, 0xFFFF), do=forward(3), priority=7),
    "ternary_one_field": entry(e.TERNARY, ternary(2, 0x1000, 0xF000), do=forward(3), priority=7),
    "ternary_any": entry(e.TERNARY, do=forward(3), priority=7),
    "range": entry(e.RANGE, between(1, 0x1000, 0x2000), do=forward(3), priority=1),
    "optional": entry(e.OPTIONAL, optional(1, 0x1234), exact(2, 1), do=forward(3), priority=1),
    "optional_any": entry(e.OPTIONAL, exact(2, 1), do=forward(3), priority=1),
    "mixed": entry(e.MIXED, exact(1, 1), lpm(2, 0x020000000000, 40), ternary(3, 0x34, 0xFF), do=forward(3), priority=9),
}


@pytest.mark.parametrize("name", KINDS)
def test_an_entry_reads_back_as_written_and_forwards(switch: Switch, endpoint: Endpoint, name: str) -> None:
    wanted = KINDS[name]
    write(endpoint, INSERT, wanted)
    assert read(endpoint, p4rt.TableEntry(table_id=wanted.table_id)) == [wanted]
    assert switch.inject(1, frame()) == [(3, frame())]
    write(endpoint, DELETE, wanted)
    assert read(endpoint, p4rt.TableEntry(table_id=wanted.table_id)) == []
    assert switch.inject(1, frame()) != [(3, frame())]


@pytest.mark.parametrize("name", KINDS)
def test_modify_changes_the_action(switch: Switch, endpoint: Endpoint, name: str) -> None:
    write(endpoint, INSERT, KINDS[name])
    changed = p4rt.TableEntry()
    changed.CopyFrom(KINDS[name])
    changed.action.action.CopyFrom(forward(4))
    write(endpoint, MODIFY, changed)
    assert read(endpoint, p4rt.TableEntry(table_id=changed.table_id)) == [changed]
    assert switch.inject(1, frame()) == [(4, frame())]


def test_the_larger_priority_wins(switch: Switch, endpoint: Endpoint) -> None:
    write(
        endpoint,
        INSERT,
        entry(e.TERNARY, do=forward(3), priority=5),
        entry(e.TERNARY, ternary(2, 0x1234, 0xFFFF), do=forward(4), priority=6),
    )
    assert switch.inject(1, frame()) == [(4, frame())]
    write(endpoint, DELETE, entry(e.TERNARY, ternary(2, 0x1234, 0xFFFF), priority=6))
    assert switch.inject(1, frame()) == [(3, frame())]


def test_entries_of_one_match_differ_by_priority(endpoint: Endpoint) -> None:
    low, high = (entry(e.TERNARY, ternary(1, 1, 1), do=forward(rank), priority=rank) for rank in (3, 4))
    write(endpoint, INSERT, low, high)
    assert read(endpoint, entry(e.TERNARY, ternary(1, 1, 1), priority=4)) == [high]
    assert sorted(each.priority for each in read(endpoint, entry(e.TERNARY, ternary(1, 1, 1)))) == [3, 4]


def test_leading_zeros_are_taken_and_not_given_back(endpoint: Endpoint) -> None:
    write(endpoint, INSERT, entry(e.EXACT, exact(1, bytes(3) + b"\x07"), do=action(e.FORWARD, b"\0\0\0\x03")))
    assert read(endpoint, p4rt.TableEntry(table_id=e.EXACT)) == [entry(e.EXACT, exact(1, 7), do=forward(3))]


def test_zero_is_one_byte(endpoint: Endpoint) -> None:
    write(endpoint, INSERT, entry(e.EXACT, exact(1, bytes(6)), do=forward(3)))
    assert read(endpoint, p4rt.TableEntry(table_id=e.EXACT))[0].match[0].exact.value == b"\0"


OWN = p4rt.TableEntry(table_id=e.EXACT, match=[exact(1, 7)])
WRONG: list[tuple[str, Any, Code]] = [
    ("no table", entry(0, exact(1, 1), do=forward(1)), Code.INVALID_ARGUMENT),
    ("unknown table", entry(77, exact(1, 1), do=forward(1)), Code.INVALID_ARGUMENT),
    ("value too wide", entry(e.EXACT, exact(1, 1 << 48), do=forward(1)), Code.OUT_OF_RANGE),
    ("odd width too wide", entry(e.METERED, exact(1, 1 << 9), do=action(e.LIMIT, 1)), Code.OUT_OF_RANGE),
    ("empty value", entry(e.EXACT, exact(1, b""), do=forward(1)), Code.OUT_OF_RANGE),
    ("missing exact field", entry(e.EXACT, do=forward(1)), Code.INVALID_ARGUMENT),
    ("unknown field", entry(e.EXACT, exact(2, 1), do=forward(1)), Code.INVALID_ARGUMENT),
    ("field twice", entry(e.EXACT, exact(1, 1), exact(1, 1), do=forward(1)), Code.INVALID_ARGUMENT),
    ("wrong match type", entry(e.EXACT, lpm(1, 0, 8), do=forward(1)), Code.INVALID_ARGUMENT),
    ("empty match", entry(e.EXACT, p4rt.FieldMatch(field_id=1), do=forward(1)), Code.INVALID_ARGUMENT),
    ("prefix of zero", entry(e.LPM, lpm(1, 0, 0), do=forward(1)), Code.INVALID_ARGUMENT),
    ("prefix too long", entry(e.LPM, lpm(1, 0, 49), do=forward(1)), Code.INVALID_ARGUMENT),
    ("negative prefix", entry(e.LPM, lpm(1, 0, -1), do=forward(1)), Code.INVALID_ARGUMENT),
    ("bits below prefix", entry(e.LPM, lpm(1, 1, 24), do=forward(1)), Code.INVALID_ARGUMENT),
    ("mask of zero", entry(e.TERNARY, ternary(1, 0, 0), do=forward(1), priority=1), Code.INVALID_ARGUMENT),
    ("bits outside mask", entry(e.TERNARY, ternary(1, 3, 1), do=forward(1), priority=1), Code.INVALID_ARGUMENT),
    ("range upside down", entry(e.RANGE, between(1, 5, 4), do=forward(1), priority=1), Code.INVALID_ARGUMENT),
    ("whole range", entry(e.RANGE, between(1, 0, 0xFFFF), do=forward(1), priority=1), Code.INVALID_ARGUMENT),
    ("no priority", entry(e.TERNARY, ternary(1, 1, 1), do=forward(1)), Code.INVALID_ARGUMENT),
    ("negative priority", entry(e.TERNARY, ternary(1, 1, 1), do=forward(1), priority=-1), Code.INVALID_ARGUMENT),
    ("priority for exact", entry(e.EXACT, exact(1, 1), do=forward(1), priority=1), Code.INVALID_ARGUMENT),
    ("no action", entry(e.EXACT, exact(1, 1)), Code.INVALID_ARGUMENT),
    ("unknown action", entry(e.EXACT, exact(1, 1), do=action(99)), Code.INVALID_ARGUMENT),
    ("another table's action", entry(e.LPM, lpm(1, 0, 8), do=action(e.COUNT, 1)), Code.INVALID_ARGUMENT),
    ("action for defaults only", entry(e.LPM, lpm(1, 0, 8), do=action(e.NO_ACTION)), Code.PERMISSION_DENIED),
    ("parameter missing", entry(e.EXACT, exact(1, 1), do=action(e.FORWARD)), Code.INVALID_ARGUMENT),
    ("parameter too many", entry(e.EXACT, exact(1, 1), do=action(e.FORWARD, 1, 2)), Code.INVALID_ARGUMENT),
    ("parameter too wide", entry(e.EXACT, exact(1, 1), do=forward(512)), Code.OUT_OF_RANGE),
    ("timeout not supported", entry(e.EXACT, exact(1, 1), do=forward(1), idle_timeout_ns=1), Code.INVALID_ARGUMENT),
    ("constant table", entry(e.CONSTANT, exact(1, 1), do=forward(1)), Code.PERMISSION_DENIED),
    ("table without key", entry(e.KEYLESS, do=forward(1)), Code.INVALID_ARGUMENT),
    ("const entry", entry(e.EXACT, exact(1, 1), do=forward(1), is_const=True), Code.INVALID_ARGUMENT),
]


@pytest.mark.parametrize(("wrong", "code"), [each[1:] for each in WRONG], ids=[each[0] for each in WRONG])
def test_a_wrong_entry_is_refused_and_changes_nothing(endpoint: Endpoint, wrong: Any, code: Code) -> None:
    before = endpoint.read(p4rt.ReadRequest(entities=[entity(p4rt.TableEntry())]))
    assert refusal(endpoint, INSERT, wrong) == code
    assert endpoint.read(p4rt.ReadRequest(entities=[entity(p4rt.TableEntry())])) == before


def test_a_parameter_given_twice_is_refused(endpoint: Endpoint) -> None:
    twice = action(e.FORWARD, 1)
    twice.params.add(param_id=1, value=b"\x02")
    assert refusal(endpoint, INSERT, entry(e.EXACT, exact(1, 1), do=twice)) == Code.INVALID_ARGUMENT


def test_duplicates_and_strangers_have_their_codes(endpoint: Endpoint) -> None:
    wanted = entry(e.EXACT, exact(1, 1), do=forward(1))
    assert refusal(endpoint, MODIFY, wanted) == Code.NOT_FOUND
    assert refusal(endpoint, DELETE, wanted) == Code.NOT_FOUND
    write(endpoint, INSERT, wanted)
    assert refusal(endpoint, INSERT, wanted) == Code.ALREADY_EXISTS
    assert refusal(endpoint, p4rt.Update.UNSPECIFIED, wanted) == Code.INVALID_ARGUMENT


def test_a_full_table_says_so(endpoint: Endpoint) -> None:
    write(endpoint, INSERT, *(entry(e.RANGE, between(1, i, i), do=forward(1), priority=1) for i in range(64)))
    full = entry(e.RANGE, between(1, 99, 99), do=forward(1), priority=1)
    assert refusal(endpoint, INSERT, full) == Code.RESOURCE_EXHAUSTED


def test_delete_looks_at_the_key_only(endpoint: Endpoint) -> None:
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 1), do=forward(1)))
    write(endpoint, DELETE, entry(e.EXACT, exact(1, 1), do=action(99, 1, 2, 3), idle_timeout_ns=-5))
    assert read(endpoint, p4rt.TableEntry(table_id=e.EXACT)) == []


def test_a_batch_goes_on_after_errors_and_reports_each_update(endpoint: Endpoint) -> None:
    good = [entry(e.EXACT, exact(1, value), do=forward(1)) for value in (1, 2, 3)]
    updates = [update(INSERT, each) for each in (good[0], good[0], good[1], entry(e.EXACT, do=forward(1)), good[2])]
    codes = refused(lambda: endpoint.write(p4rt.WriteRequest(updates=updates)))
    assert codes == {1: Code.ALREADY_EXISTS, 3: Code.INVALID_ARGUMENT}
    assert len(read(endpoint, p4rt.TableEntry(table_id=e.EXACT))) == 3


def test_the_details_hold_an_error_for_every_update(endpoint: Endpoint) -> None:
    from google.rpc import status_pb2

    updates = [update(INSERT, entry(e.EXACT, exact(1, 1), do=forward(1))) for _ in range(3)]
    with pytest.raises(StatusError) as caught:
        endpoint.write(p4rt.WriteRequest(updates=updates))
    status = status_pb2.Status.FromString(caught.value.details)
    errors = []
    for detail in status.details:
        error = p4rt.Error()
        assert detail.Unpack(error)
        errors.append(error.canonical_code)
    assert status.code == Code.UNKNOWN and status.message == caught.value.message
    assert errors == [Code.OK, Code.ALREADY_EXISTS, Code.ALREADY_EXISTS]


def test_metadata_stay_with_their_entry(endpoint: Endpoint) -> None:
    first = entry(e.EXACT, exact(1, 1), do=forward(1), controller_metadata=99, metadata=b"made by a test")
    second = entry(e.EXACT, exact(1, 2), do=forward(1))
    write(endpoint, INSERT, first, second)
    assert read(endpoint, entry(e.EXACT, exact(1, 1))) == [first]
    assert read(endpoint, p4rt.TableEntry(table_id=e.EXACT, metadata=b"made by a test")) == [first]
    assert read(endpoint, p4rt.TableEntry(table_id=e.EXACT, controller_metadata=99)) == [first]
    first.metadata, first.controller_metadata = b"", 0
    write(endpoint, MODIFY, first)
    assert read(endpoint, entry(e.EXACT, exact(1, 1))) == [first]


def test_modify_without_action_keeps_it(switch: Switch, endpoint: Endpoint) -> None:
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 0x020000000001), do=forward(3)))
    write(endpoint, MODIFY, entry(e.EXACT, exact(1, 0x020000000001), controller_metadata=5))
    found = read(endpoint, p4rt.TableEntry(table_id=e.EXACT))
    assert found == [entry(e.EXACT, exact(1, 0x020000000001), do=forward(3), controller_metadata=5)]
    assert switch.inject(1, frame()) == [(3, frame())]


# Reads.


def test_a_wildcard_read_gives_every_table(endpoint: Endpoint) -> None:
    write(endpoint, INSERT, *(KINDS[name] for name in ("exact", "lpm", "ternary", "range", "mixed")))
    tables = [each.table_id for each in read(endpoint, p4rt.TableEntry())]
    assert sorted(tables) == [e.EXACT, e.LPM, e.TERNARY, e.RANGE, e.CONSTANT, e.MIXED]


def test_reads_filter_by_priority_and_action(endpoint: Endpoint) -> None:
    entries = [entry(e.TERNARY, ternary(1, i, 0xFF), do=forward(1), priority=1 + i % 2) for i in range(4)]
    entries.append(entry(e.TERNARY, ternary(1, 9, 0xFF), do=action(e.DROP), priority=1))
    write(endpoint, INSERT, *entries)
    assert len(read(endpoint, p4rt.TableEntry(table_id=e.TERNARY, priority=1))) == 3
    assert read(endpoint, entry(e.TERNARY, do=action(e.DROP))) == [entries[-1]]
    assert read(endpoint, entry(e.TERNARY, do=action(e.FORWARD), priority=2)) == [entries[1], entries[3]]


def test_a_read_of_what_is_not_there_gives_nothing(endpoint: Endpoint) -> None:
    assert read(endpoint, entry(e.EXACT, exact(1, 5))) == []


def test_a_read_reports_each_entity(endpoint: Endpoint) -> None:
    write(endpoint, INSERT, KINDS["exact"])
    wanted = [p4rt.TableEntry(table_id=e.EXACT), p4rt.TableEntry(table_id=99), p4rt.CounterEntry(counter_id=5)]
    request = p4rt.ReadRequest(entities=[*(entity(each) for each in wanted), p4rt.Entity()])
    parts, error = endpoint.read_parts(request)
    found = p4rt.ReadResponse.FromString(b"".join(parts)).entities
    assert [each.table_entry for each in found] == [KINDS["exact"]]
    assert error is not None and error.code == Code.UNKNOWN
    assert set(error.errors) == {1, 2, 3}


def test_many_entries_are_written_at_once_and_read_in_parts(endpoint: Endpoint) -> None:
    count = 15000
    endpoint.write(bulk_inserts(count))
    parts, error = endpoint.read_parts(p4rt.ReadRequest(entities=[entity(p4rt.TableEntry(table_id=e.EXACT))]))
    assert error is None and len(parts) > 1 and max(map(len, parts)) < 1 << 20
    keys = {key for part in parts for key in re.findall(rb"\x0a\x06(\x02.{5})", part, re.DOTALL)}
    assert len(keys) == count
    p4rt.ReadResponse.FromString(parts[-1])


# Default and constant entries.


def test_the_default_action_changes_and_comes_back(switch: Switch, endpoint: Endpoint) -> None:
    default = p4rt.TableEntry(table_id=e.KEYLESS, is_default_action=True)
    own = read(endpoint, default)
    assert own == [entry(e.KEYLESS, do=action(e.NO_ACTION), is_default_action=True)]
    changed = entry(e.KEYLESS, do=forward(5), is_default_action=True, controller_metadata=3)
    write(endpoint, MODIFY, changed)
    assert read(endpoint, default) == [changed]
    assert switch.inject(1, frame()) == [(5, frame())]
    write(endpoint, MODIFY, default)
    assert read(endpoint, default) == own


def test_default_entries_of_all_tables_can_be_read(endpoint: Endpoint) -> None:
    tables = {each.table_id for each in read(endpoint, p4rt.TableEntry(is_default_action=True))}
    assert len(tables) == 12


def test_wrong_defaults_are_refused(endpoint: Endpoint) -> None:
    default = entry(e.EXACT, do=forward(1), is_default_action=True)
    assert refusal(endpoint, INSERT, default) == Code.INVALID_ARGUMENT
    assert refusal(endpoint, DELETE, default) == Code.INVALID_ARGUMENT
    matched = entry(e.EXACT, exact(1, 1), do=forward(1), is_default_action=True)
    assert refusal(endpoint, MODIFY, matched) == Code.INVALID_ARGUMENT
    learn = entry(e.EXACT, do=action(e.LEARN), is_default_action=True)
    assert refusal(endpoint, MODIFY, learn) == Code.PERMISSION_DENIED
    constant = entry(e.RANGE, do=forward(1), is_default_action=True)
    assert refusal(endpoint, MODIFY, constant) == Code.PERMISSION_DENIED
    grouped = entry(e.GROUPED, do=forward(1), is_default_action=True)
    assert refusal(endpoint, MODIFY, grouped) == Code.INVALID_ARGUMENT


def test_constant_entries_can_be_read_and_not_changed(endpoint: Endpoint) -> None:
    wanted = entry(e.CONSTANT, exact(1, 0x8899), do=forward(7), is_const=True)
    assert read(endpoint, p4rt.TableEntry(table_id=e.CONSTANT)) == [wanted]
    key = entry(e.CONSTANT, exact(1, 0x8899))
    assert refusal(endpoint, DELETE, key) == Code.PERMISSION_DENIED
    assert refusal(endpoint, MODIFY, entry(e.CONSTANT, exact(1, 0x8899), do=forward(7))) == Code.PERMISSION_DENIED
    write(endpoint, MODIFY, key)


# Atomicity.

ROLLBACK, ATOMIC = p4rt.WriteRequest.ROLLBACK_ON_ERROR, p4rt.WriteRequest.DATAPLANE_ATOMIC


@pytest.mark.parametrize("atomicity", [ROLLBACK, ATOMIC])
def test_a_failed_batch_leaves_everything_as_it_was(endpoint: Endpoint, atomicity: int) -> None:
    kept = entry(e.EXACT, exact(1, 1), do=forward(1), metadata=b"kept", controller_metadata=7)
    counted = entry(e.TERNARY, ternary(1, 1, 1), do=forward(1), priority=3)
    counted.counter_data.packet_count, counted.counter_data.byte_count = 5, 500
    metered = entry(e.METERED, exact(1, 1), do=action(e.LIMIT, 2))
    metered.meter_config.CopyFrom(p4rt.MeterConfig(cir=1, cburst=2, pir=3, pburst=4))
    write(endpoint, INSERT, kept, counted, metered)
    member = p4rt.ActionProfileMember(action_profile_id=e.SELECTOR, member_id=1, action=forward(1))
    write(endpoint, INSERT, member)

    def state() -> Any:
        everything = [
            p4rt.TableEntry(counter_data=p4rt.CounterData(), meter_config=p4rt.MeterConfig()),
            p4rt.TableEntry(is_default_action=True),
            p4rt.ActionProfileMember(),
            p4rt.ActionProfileGroup(),
            p4rt.CounterEntry(counter_id=e.HITS),
            p4rt.MeterEntry(),
            p4rt.RegisterEntry(),
            p4rt.ValueSetEntry(),
        ]
        return sorted(str(each) for each in read(endpoint, *everything))

    before = state()
    changed_member = p4rt.ActionProfileMember(action_profile_id=e.SELECTOR, member_id=1, action=forward(2))
    group = p4rt.ActionProfileGroup(action_profile_id=e.SELECTOR, group_id=1)
    group.members.add(member_id=1, weight=2)
    cell = p4rt.RegisterEntry(register_id=e.CELLS, data={"bitstring": b"\x09"})  # type: ignore[arg-type]
    value_set = p4rt.ValueSetEntry(value_set_id=e.VALUE_SET)
    value_set.members.add(match=[exact(1, 0x88)])
    counter = p4rt.CounterEntry(counter_id=e.HITS, data=p4rt.CounterData(packet_count=1, byte_count=2))
    meter = p4rt.MeterEntry(meter_id=e.LIMITS, config=p4rt.MeterConfig(cir=1, cburst=1, pir=1, pburst=1))
    updates = [
        update(MODIFY, entry(e.EXACT, exact(1, 1), do=forward(2))),
        update(INSERT, entry(e.EXACT, exact(1, 2), do=forward(2))),
        update(DELETE, counted),
        update(DELETE, metered),
        update(MODIFY, entry(e.EXACT, do=forward(9), is_default_action=True)),
        update(MODIFY, changed_member),
        update(INSERT, group),
        update(MODIFY, cell),
        update(MODIFY, value_set),
        update(MODIFY, counter),
        update(MODIFY, meter),
        update(DELETE, entry(e.EXACT, exact(1, 99))),
        update(INSERT, entry(e.EXACT, exact(1, 3), do=forward(2))),
    ]
    codes = refused(lambda: endpoint.write(p4rt.WriteRequest(updates=updates, atomicity=atomicity)))
    assert codes.pop(11) == Code.NOT_FOUND
    assert set(codes) == set(range(13)) - {11} and set(codes.values()) == {Code.ABORTED}
    assert state() == before


@pytest.mark.parametrize("atomicity", [ROLLBACK, ATOMIC])
def test_a_good_batch_is_applied_whole(endpoint: Endpoint, atomicity: int) -> None:
    write(endpoint, INSERT, *(entry(e.EXACT, exact(1, i), do=forward(1)) for i in range(300)), atomicity=atomicity)
    assert len(read(endpoint, p4rt.TableEntry(table_id=e.EXACT))) == 300


def test_an_unknown_atomicity_is_refused(endpoint: Endpoint) -> None:
    with pytest.raises(StatusError) as caught:
        endpoint.write(p4rt.WriteRequest(atomicity=9))  # type: ignore[arg-type]
    assert caught.value.code == Code.INVALID_ARGUMENT


# Direct counters and meters, idle timeouts.


def test_a_direct_counter_counts_and_is_written(switch: Switch, endpoint: Endpoint) -> None:
    wanted = entry(e.TERNARY, ternary(1, 1, 0xFF), do=forward(3), priority=1)
    write(endpoint, INSERT, wanted)
    for _ in range(4):
        switch.inject(1, frame())
    size = len(frame())
    (found,) = read(endpoint, entry(e.TERNARY, counter_data=p4rt.CounterData()))
    assert (found.counter_data.packet_count, found.counter_data.byte_count) == (4, 4 * size)
    wanted.ClearField("action")
    (direct,) = read(endpoint, p4rt.DirectCounterEntry(table_entry=wanted))
    assert direct.table_entry == wanted and direct.data.packet_count == 4
    write(endpoint, MODIFY, p4rt.DirectCounterEntry(table_entry=wanted, data=p4rt.CounterData(packet_count=10)))
    switch.inject(1, frame())
    (direct,) = read(endpoint, p4rt.DirectCounterEntry(table_entry=p4rt.TableEntry(table_id=e.TERNARY)))
    assert (direct.data.packet_count, direct.data.byte_count) == (11, size)
    assert len(read(endpoint, p4rt.DirectCounterEntry(table_entry=p4rt.TableEntry()))) == 1


def test_modify_keeps_the_count_unless_told(switch: Switch, endpoint: Endpoint) -> None:
    wanted = entry(e.TERNARY, ternary(1, 1, 0xFF), do=forward(3), priority=1)
    write(endpoint, INSERT, wanted)
    switch.inject(1, frame())
    wanted.action.action.CopyFrom(forward(4))
    write(endpoint, MODIFY, wanted)
    assert read(endpoint, entry(e.TERNARY, counter_data=p4rt.CounterData()))[0].counter_data.packet_count == 1
    wanted.counter_data.packet_count = 0
    write(endpoint, MODIFY, wanted)
    assert read(endpoint, entry(e.TERNARY, counter_data=p4rt.CounterData()))[0].counter_data.packet_count == 0


def test_the_default_entry_has_a_direct_counter(switch: Switch, endpoint: Endpoint) -> None:
    default = p4rt.TableEntry(table_id=e.TERNARY, is_default_action=True)
    for _ in range(3):
        switch.inject(1, frame())
    (found,) = read(endpoint, p4rt.DirectCounterEntry(table_entry=default))
    assert found.data.packet_count == 3
    write(endpoint, MODIFY, p4rt.DirectCounterEntry(table_entry=default, data=p4rt.CounterData(packet_count=7)))
    default.counter_data.SetInParent()
    assert read(endpoint, default)[0].counter_data.packet_count == 7


def test_direct_counters_are_refused_where_there_are_none(endpoint: Endpoint) -> None:
    counted = entry(e.EXACT, exact(1, 1), do=forward(1), counter_data=p4rt.CounterData(packet_count=1))
    assert refusal(endpoint, INSERT, counted) == Code.INVALID_ARGUMENT
    direct = p4rt.DirectCounterEntry(table_entry=entry(e.TERNARY, ternary(1, 1, 1), priority=1))
    assert refusal(endpoint, MODIFY, direct) == Code.NOT_FOUND
    assert refusal(endpoint, INSERT, direct) == Code.INVALID_ARGUMENT
    codes = refused(lambda: read(endpoint, direct))
    assert codes == {0: Code.NOT_FOUND}


def test_a_direct_meter_is_configured_with_its_entry(endpoint: Endpoint) -> None:
    config = p4rt.MeterConfig(cir=10, cburst=1, pir=20, pburst=2)
    wanted = entry(e.METERED, exact(1, 1), do=action(e.LIMIT, 2), meter_config=config)
    write(endpoint, INSERT, wanted)
    assert read(endpoint, entry(e.METERED, exact(1, 1), meter_config=p4rt.MeterConfig())) == [wanted]
    key = entry(e.METERED, exact(1, 1))
    other = p4rt.MeterConfig(cir=1, cburst=1, pir=2, pburst=2)
    write(endpoint, MODIFY, p4rt.DirectMeterEntry(table_entry=key, config=other))
    assert read(endpoint, p4rt.DirectMeterEntry(table_entry=key)) == [
        p4rt.DirectMeterEntry(table_entry=key, config=other)
    ]
    write(endpoint, MODIFY, p4rt.DirectMeterEntry(table_entry=key))
    assert not read(endpoint, p4rt.DirectMeterEntry(table_entry=key))[0].HasField("config")
    write(endpoint, DELETE, key)
    write(endpoint, INSERT, entry(e.METERED, exact(1, 1), do=action(e.LIMIT, 2)))
    assert not read(endpoint, p4rt.DirectMeterEntry(table_entry=key))[0].HasField("config")


def test_an_idle_entry_is_reported_once_per_timeout(switch: Switch, endpoint: Endpoint) -> None:
    second = 10**9
    wanted = entry(e.TIMED, exact(1, 0x020000000002), do=forward(3), idle_timeout_ns=second)
    write(endpoint, INSERT, wanted)
    assert endpoint.has_idle_entries
    start = switch.now

    def idle_at(when: int) -> int:
        switch.set_clock(start + when)
        return sum(len(each.idle_timeout_notification.table_entry) for each in endpoint.messages())

    assert idle_at(second // 2) == 0
    assert idle_at(second) == 1
    assert idle_at(second + second // 2) == 0
    assert idle_at(2 * second) == 1
    switch.set_clock(start + 2 * second + second // 2)
    switch.inject(1, frame())
    assert idle_at(3 * second) == 0
    assert idle_at(3 * second + second // 2) == 1
    (found,) = read(endpoint, p4rt.TableEntry(table_id=e.TIMED, time_since_last_hit=p4rt.TableEntry.IdleTimeout()))
    assert found.time_since_last_hit.elapsed_ns == second
    write(endpoint, DELETE, wanted)
    assert not endpoint.has_idle_entries


def test_elapsed_time_is_refused_where_there_is_no_timeout(endpoint: Endpoint) -> None:
    wanted = p4rt.TableEntry(table_id=e.EXACT, time_since_last_hit=p4rt.TableEntry.IdleTimeout())
    assert refused(lambda: read(endpoint, wanted)) == {0: Code.INVALID_ARGUMENT}


def test_changes_while_packets_flow_lose_none_and_tear_none(switch: Switch, endpoint: Endpoint) -> None:
    key = exact(1, 0x020000000001)
    write(endpoint, INSERT, entry(e.EXACT, key, do=forward(3)))
    requests = [p4rt.WriteRequest(updates=[update(MODIFY, entry(e.EXACT, key, do=forward(port)))]) for port in (3, 4)]
    raw = [request.SerializeToString() for request in requests]
    noise = bulk_inserts(2000)
    over = threading.Event()

    def change() -> None:
        with contextlib.suppress(StatusError):
            endpoint.write(noise)  # but for the key that is there already
        while not over.is_set():
            for request in raw:
                endpoint.write(request)

    writer = threading.Thread(target=change)
    writer.start()
    try:
        left = [switch.inject(1, frame()) for _ in range(3000)]
    finally:
        over.set()
        writer.join()
    assert all(each in ([(3, frame())], [(4, frame())]) for each in left)
