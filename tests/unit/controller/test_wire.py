# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The hand-made wire form of P4Runtime entities is what the protobuf classes make and read, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from controller.p4rt.entities import (
    Between,
    Call,
    Default,
    Entity,
    Exact,
    FieldMatch,
    Group,
    GroupMember,
    GroupRef,
    Masked,
    Member,
    MemberRef,
    Prefix,
    TableEntry,
)
from controller.p4rt.pipeline import Pipeline
from controller.p4rt.wire import Counted, Decoder, Encoder, UpdateKind, add_counter_cells, message, varint
from topologies.errors import FailureError, UsageError

P4INFO = """
tables {
  preamble { id: 33554433 name: "Ingress.everything" alias: "everything" }
  initial_default_action { action_id: 16777218 }
  match_fields { id: 1 name: "port" bitwidth: 9 match_type: EXACT }
  match_fields { id: 2 name: "address" bitwidth: 128 match_type: LPM }
  match_fields { id: 3 name: "kind" bitwidth: 16 match_type: TERNARY }
  match_fields { id: 4 name: "depth" bitwidth: 16 match_type: RANGE }
  match_fields { id: 200 name: "tag" bitwidth: 12 match_type: OPTIONAL }
  action_refs { id: 16777217 }
  action_refs { id: 16777218 }
  size: 1024
}
tables {
  preamble { id: 33554434 name: "Ingress.paths" alias: "paths" }
  match_fields { id: 1 name: "group" bitwidth: 16 match_type: EXACT }
  action_refs { id: 16777217 }
  implementation_id: 285212673
  size: 64
}
tables {
  preamble { id: 33554435 name: "Egress.fixed" alias: "fixed" }
  match_fields { id: 1 name: "x" bitwidth: 8 match_type: EXACT }
  action_refs { id: 16777218 }
  is_const_table: true
}
actions {
  preamble { id: 16777217 name: "Ingress.go" alias: "go" }
  params { id: 1 name: "port" bitwidth: 9 }
  params { id: 2 name: "mac" bitwidth: 48 }
}
actions { preamble { id: 16777218 name: "Ingress.stay" alias: "stay" } }
action_profiles {
  preamble { id: 285212673 name: "Ingress.selector" alias: "selector" }
  table_ids: 33554434 with_selector: true size: 64
}
counters { preamble { id: 302055013 name: "Ingress.seen" alias: "seen" } spec { unit: BOTH } size: 512 }
direct_counters {
  preamble { id: 318767361 name: "Ingress.rows" alias: "rows" } spec { unit: BOTH } direct_table_id: 33554433
}
"""


def pipeline() -> Pipeline:
    return Pipeline(text_format.Parse(P4INFO, p4info_pb2.P4Info()), b"{}")


PIPELINE = pipeline()

PORT_AND_MAC = (("port", 3), ("mac", 5))
u16 = st.integers(0, 0xFFFF)
calls = st.one_of(
    st.builds(
        lambda port, mac: Call("go", (("port", port), ("mac", mac))), st.integers(0, 511), st.integers(0, 2**48 - 1)
    ),
    st.just(Call("stay")),
)


def field(name: str, values: st.SearchStrategy[FieldMatch]) -> st.SearchStrategy[tuple[tuple[str, FieldMatch], ...]]:
    return st.one_of(st.just(()), values.map(lambda value: ((name, value),)))


entries = st.builds(
    lambda port, address, kind, depth, tag, action, priority: TableEntry(
        "everything", port + address + kind + depth + tag, action, priority
    ),
    field("port", st.integers(0, 511).map(Exact)),
    field("address", st.builds(Prefix, st.integers(0, 2**128 - 1), st.integers(1, 128))),
    field("kind", st.builds(Masked, u16, u16)),
    field("depth", st.builds(Between, u16, u16)),
    field("tag", st.integers(0, 4095).map(Exact)),
    calls,
    st.integers(0, 2**31 - 1),
)
path_entries = st.builds(
    lambda group, action: TableEntry("paths", (("group", Exact(group)),), action),
    u16,
    st.one_of(st.builds(GroupRef, st.integers(1, 2**31)), st.builds(MemberRef, st.integers(1, 2**31))),
)
members = st.builds(
    lambda id_, call: Member("selector", id_, call), st.integers(1, 2**31), calls.filter(lambda c: c.arguments)
)
groups = st.builds(
    lambda id_, weights: Group(
        "selector", id_, tuple(GroupMember(n + 1, weight, watch) for n, (weight, watch) in enumerate(weights))
    ),
    st.integers(1, 2**31),
    st.lists(st.tuples(st.integers(1, 300), st.integers(0, 511)), max_size=5),
)
defaults = st.builds(lambda call: Default("everything", call), calls.filter(lambda c: c.arguments))
entities = st.one_of(entries, path_entries, defaults, members, groups)


def response(*wires: bytes) -> bytes:
    return b"".join(message(1, wire) for wire in wires)


@settings(deadline=None)
@given(entities)
def test_the_protobuf_class_reads_and_writes_the_same_bytes(entity: Entity) -> None:
    wire = Encoder(PIPELINE).entity(entity)
    parsed = p4runtime_pb2.Entity.FromString(wire)
    assert parsed.SerializeToString(deterministic=True) == wire


@settings(deadline=None)
@given(st.lists(entities, max_size=5))
def test_what_is_encoded_is_decoded_equal(sent: list[Entity]) -> None:
    encoder = Encoder(PIPELINE)
    assert list(Decoder(PIPELINE).entities(response(*map(encoder.entity, sent)))) == sent


@settings(deadline=None)
@given(entities)
def test_what_an_encoder_made_is_recognised_unread(entity: Entity) -> None:
    encoder = Encoder(PIPELINE)
    wire = encoder.entity(entity)
    [found] = Decoder(PIPELINE, encoder.encoded).entities(response(wire))
    assert found is entity


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**32, 2**63, -1])
def test_varints_are_protobufs(value: int) -> None:
    data = p4runtime_pb2.CounterData(packet_count=value if value < 2**63 else value - 2**64)
    assert data.SerializeToString() == (b"\x10" + varint(value) if value else b"")


def test_fields_in_any_order_and_padded_values_are_understood() -> None:
    entry = p4runtime_pb2.TableEntry(table_id=33554433, priority=9)
    entry.match.add(field_id=4).range.CopyFrom(p4runtime_pb2.FieldMatch.Range(low=b"\0\5", high=b"\0\xff"))
    entry.match.add(field_id=1).exact.value = b"\0\7"
    action = entry.action.action
    action.action_id = 16777217
    action.params.add(param_id=2, value=b"\0\0\0\0\0\1")
    action.params.add(param_id=1, value=b"\3")
    wire = p4runtime_pb2.Entity(table_entry=entry).SerializeToString()
    assert list(Decoder(PIPELINE).entities(response(wire))) == [
        TableEntry(
            "everything", (("port", Exact(7)), ("depth", Between(5, 255))), Call("go", (("port", 3), ("mac", 1))), 9
        )
    ]


def test_the_programs_own_defaults_and_constant_entries_are_left_out() -> None:
    default = p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=33554433, is_default_action=True))
    own = p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=33554433, is_default_action=True))
    own.table_entry.action.action.action_id = 16777218
    const = p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=33554433, is_const=True))
    fixed = p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=33554435))
    wires = [entity.SerializeToString() for entity in (default, own, const, fixed)]
    assert list(Decoder(PIPELINE).entities(response(*wires))) == []


@pytest.mark.parametrize(("kind", "has_action"), [("insert", True), ("modify", True), ("delete", False)])
def test_a_default_action_is_modified_whatever_becomes_of_it(kind: UpdateKind, has_action: bool) -> None:
    encoder = Encoder(PIPELINE)
    update = p4runtime_pb2.Update.FromString(encoder.update(kind, Default("everything", Call("go", PORT_AND_MAC))))
    assert update.type == p4runtime_pb2.Update.MODIFY
    assert update.entity.table_entry.is_default_action
    assert update.entity.table_entry.HasField("action") == has_action
    # What reads back without an action is the program's own, whatever was encoded before.
    deleted = encoder.update("delete", Default("everything", Call("go", PORT_AND_MAC)))
    wire = p4runtime_pb2.Update.FromString(deleted).entity.SerializeToString()
    assert list(Decoder(PIPELINE, encoder.encoded).entities(response(wire))) == []


def test_only_defaults_that_can_change_are_asked_for() -> None:
    request = p4runtime_pb2.ReadRequest.FromString(Decoder(PIPELINE).default_actions)
    assert [entity.table_entry.table_id for entity in request.entities] == [33554433]
    assert all(entity.table_entry.is_default_action for entity in request.entities)


def test_a_one_shot_action_set_is_kept_apart_and_can_be_deleted() -> None:
    entry = p4runtime_pb2.TableEntry(table_id=33554434)
    entry.match.add(field_id=1).exact.value = b"\1"
    entry.action.action_profile_action_set.action_profile_actions.add(weight=1).action.action_id = 16777217
    wire = p4runtime_pb2.Entity(table_entry=entry).SerializeToString(deterministic=True)
    [found] = Decoder(PIPELINE).entities(response(wire))
    assert Encoder(PIPELINE).entity(found) == wire


def test_direct_counters_and_counter_cells_are_read() -> None:
    entry = p4runtime_pb2.TableEntry(table_id=33554433, priority=1)
    entry.action.action.action_id = 16777218
    entry.counter_data.packet_count, entry.counter_data.byte_count = 3, 4000
    wire = p4runtime_pb2.Entity(table_entry=entry).SerializeToString()
    [(found, count)] = Decoder(PIPELINE).counted_entries(response(wire))
    assert (found.action, count) == (Call("stay"), Counted(3, 4000))


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(0, 511), st.tuples(st.integers(0, 2**40), st.integers(0, 2**50)), max_size=60),
    st.sampled_from(["absent", "empty"]),
)
def test_counter_cells_land_at_their_index(cells: dict[int, tuple[int, int]], zeros: str) -> None:
    answer = p4runtime_pb2.ReadResponse()
    for index, (packets, octets) in sorted(cells.items()):
        cell = answer.entities.add().counter_entry
        cell.counter_id = 302055013
        cell.index.index = index
        if packets or octets or zeros != "absent":
            cell.data.SetInParent()
            cell.data.packet_count, cell.data.byte_count = packets, octets
    found = np.zeros((2, 512), np.int64)
    add_counter_cells(302055013, answer.SerializeToString(), found[0], found[1])
    assert {index: tuple(found[:, index]) for index in np.flatnonzero(found.any(axis=0))} == {
        index: counts for index, counts in cells.items() if any(counts)
    }


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        (TableEntry("nothing", (), Call("stay")), "no table 'nothing'"),
        (TableEntry("everything", (("colour", Exact(1)),), Call("stay")), "matches no field 'colour'"),
        (TableEntry("everything", (("port", Exact(512)),), Call("stay")), "has 9 bits, too few for 512"),
        (TableEntry("everything", (("port", Prefix(1, 2)),), Call("stay")), "is matched exact"),
        (TableEntry("everything", (), Call("dance")), "knows no action 'dance'; it knows go, stay"),
        (TableEntry("everything", (), Call("go", (("port", 1),))), r"takes \(port, mac\), not \(port\)"),
        (TableEntry("everything", (), Call("go", (("port", 512), ("mac", 1)))), "has 9 bits, too few for 512"),
    ],
)
def test_what_the_program_lacks_is_told(entry: TableEntry, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        Encoder(PIPELINE).entity(entry)


def test_a_table_that_the_program_lacks_is_a_failure_of_the_switch() -> None:
    wire = p4runtime_pb2.Entity(table_entry=p4runtime_pb2.TableEntry(table_id=99)).SerializeToString()
    with pytest.raises(FailureError, match="table 0x63"):
        list(Decoder(PIPELINE).entities(response(wire)))
