# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Entities to and from P4Runtime's wire bytes without a protobuf object for each.

The protobuf that p4runtime-shell pins is pure Python: 10,000 entries cost it seconds. Here an entry is put together
from bytes that are remembered (a field's match, an action's call), and read by walking over its tags. The field
numbers are p4runtime.proto's; tests hold this module to the protobuf classes, byte for byte and value for value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from controller.p4rt.entities import (
    Action,
    Between,
    Call,
    Default,
    Entity,
    Exact,
    FieldMatch,
    Foreign,
    Group,
    GroupMember,
    GroupRef,
    Masked,
    Member,
    MemberRef,
    Prefix,
    TableEntry,
)
from controller.p4rt.pipeline import ActionInfo, MatchKind, Pipeline, ProfileInfo, TableInfo
from topologies.errors import FailureError, UsageError

UpdateKind = Literal["insert", "modify", "delete"]
_UPDATE_TYPES: Final[dict[UpdateKind, int]] = {"insert": 1, "modify": 2, "delete": 3}
_MATCH_FIELD: Final[dict[MatchKind, int]] = {"exact": 2, "ternary": 3, "lpm": 4, "range": 6, "optional": 7}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Counted(NamedTuple):
    """What a direct counter has counted of its row."""

    packets: int
    bytes: int


def varint(value: int) -> bytes:
    """Encode an unsigned integer, or a negative one as protobuf's 64-bit two's complement."""
    if 0 <= value < 0x80:
        return bytes((value,))
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def number(field: int, value: int) -> bytes:
    """Encode an integer field; zero is left out, as proto3 does."""
    return varint(field << 3) + varint(value) if value else b""


def message(field: int, payload: bytes) -> bytes:
    """Encode a message, bytes or string field."""
    return varint(field << 3 | _BYTES) + varint(len(payload)) + payload


def canonical(value: int) -> bytes:
    """Encode a value as P4Runtime's canonical byte string: big-endian, shortest, at least one byte."""
    return value.to_bytes((value.bit_length() + 7) // 8 or 1, "big")


class Encoder:
    """Encodes entities for one program. Remembers what it has encoded: keep one for each program."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        self._matches: dict[tuple[str, str, FieldMatch], bytes] = {}
        self._actions: dict[tuple[str, Action], bytes] = {}
        self._tables: dict[str, bytes] = {}
        self.encoded: dict[bytes, Entity] = {}

    def entity(self, entity: Entity) -> bytes:
        """Return the wire form of a P4Runtime Entity message."""
        match entity:
            case TableEntry():
                wire = message(2, self._table_entry(entity))
            case Default(table, action):
                wire = message(2, self._head(table) + self._action(table, action) + number(8, 1))
            case Member():
                wire = message(3, self._member(entity))
            case Group():
                wire = message(4, self._group(entity))
        self.encoded[wire] = entity
        return wire

    def update(self, kind: UpdateKind, entity: Entity) -> bytes:
        """Return the wire form of a P4Runtime Update message.

        A default action can only be modified there, and one without an action gives the table its own back.
        """
        if isinstance(entity, Default):
            own = message(2, self._head(entity.table) + number(8, 1))
            return number(1, _UPDATE_TYPES["modify"]) + message(2, own if kind == "delete" else self.entity(entity))
        return number(1, _UPDATE_TYPES[kind]) + message(2, self.entity(entity))

    def _table_entry(self, entry: TableEntry) -> bytes:
        table, match, action, priority = entry
        parts = [self._head(table)]
        for name, value in match:
            key = (table, name, value)
            wire = self._matches.get(key)
            if wire is None:
                wire = self._matches[key] = message(2, self._field_match(table, name, value))
            parts.append(wire)
        parts.append(self._action(table, action))
        if priority:
            parts.append(number(4, priority))
        return b"".join(parts)

    def _head(self, table: str) -> bytes:
        head = self._tables.get(table)
        if head is None:
            head = self._tables[table] = number(1, self._pipeline.table(table).id)
        return head

    def _action(self, table: str, action: Action) -> bytes:
        wire = self._actions.get((table, action))
        if wire is None:
            actions = self._pipeline.table(table).actions
            wire = self._actions[table, action] = message(3, _table_action(table, action, actions))
        return wire

    def _field_match(self, table: str, name: str, value: FieldMatch) -> bytes:
        field = next((field for field in self._pipeline.table(table).fields if field.name == name), None)
        if field is None:
            raise UsageError(f"the program's table {table} matches no field {name!r}")
        match field.kind, value:
            case (("exact" | "optional"), Exact(wanted)):
                largest, payload = wanted, message(1, canonical(wanted))
            case "lpm", Prefix(wanted, length):
                largest, payload = wanted, message(1, canonical(wanted)) + number(2, length)
            case "ternary", Masked(wanted, mask):
                largest, payload = wanted | mask, message(1, canonical(wanted)) + message(2, canonical(mask))
            case "range", Between(low, high):
                largest, payload = high, message(1, canonical(low)) + message(2, canonical(high))
            case _:
                raise UsageError(f"{table}.{name} is matched {field.kind}, and {value!r} is not")
        if largest >> field.bits:
            raise UsageError(f"{table}.{name} has {field.bits} bits, too few for {value}")
        return number(1, field.id) + message(_MATCH_FIELD[field.kind], payload)

    def _member(self, member: Member) -> bytes:
        profile = self._profile(member.profile)
        call = _call(profile.name, member.action, profile.actions)
        return number(1, profile.id) + number(2, member.id) + message(3, call)

    def _group(self, group: Group) -> bytes:
        members = b"".join(
            message(
                3,
                number(1, member.member)
                + number(2, member.weight)
                + (message(4, canonical(member.watch_port)) if member.watch_port else b""),
            )
            for member in group.members
        )
        return number(1, self._profile(group.profile).id) + number(2, group.id) + members

    def _profile(self, name: str) -> ProfileInfo:
        try:
            return self._pipeline.profiles[name]
        except KeyError:
            raise UsageError(f"the program has no action profile {name!r}") from None


def _table_action(owner: str, action: Action, actions: Mapping[str, ActionInfo]) -> bytes:
    match action:
        case Call():
            return message(1, _call(owner, action, actions))
        case MemberRef(member):
            return number(2, member)
        case GroupRef(group):
            return number(3, group)
        case Foreign(wire):
            return wire


def _call(owner: str, call: Call, actions: Mapping[str, ActionInfo]) -> bytes:
    info = actions.get(call.action)
    if info is None:
        known = ", ".join(sorted(actions))
        raise UsageError(f"the program's {owner} knows no action {call.action!r}; it knows {known}")
    given = dict(call.arguments)
    if given.keys() != {parameter.name for parameter in info.parameters}:
        wanted = ", ".join(parameter.name for parameter in info.parameters)
        raise UsageError(f"the program's action {call.action} takes ({wanted}), not ({', '.join(given)})")
    wire = number(1, info.id)
    for parameter in info.parameters:
        value = given[parameter.name]
        if value >> parameter.bits:
            raise UsageError(f"{call.action}.{parameter.name} has {parameter.bits} bits, too few for {value}")
        wire += message(4, number(2, parameter.id) + message(3, canonical(value)))
    return wire


class Decoder:
    """Decodes what a switch that runs one program holds. Remembers what it has decoded: keep one for each program."""

    def __init__(self, pipeline: Pipeline, known: Mapping[bytes, Entity] | None = None) -> None:
        """`known` maps wire forms to entities, such as an `Encoder.encoded`: those are recognised unread."""
        self._pipeline = pipeline
        self._known = known if known is not None else {}
        self._matches: dict[tuple[int, bytes], tuple[int, str, FieldMatch]] = {}
        self._actions: dict[bytes, Action] = {}
        # What a ReadRequest asks for: the default action of every table where somebody may have changed it.
        self.default_actions: Final = b"".join(
            message(2, message(2, number(1, table.id) + number(8, 1)))
            for table in pipeline.tables.values()
            if table.own_default is not None
        )

    def entities(self, response: bytes) -> Iterator[Entity]:
        """Yield the entities of a ReadResponse.

        Constant entries, which no client places, are left out, and so are default actions that are the program's own.
        """
        for field, start, end in _walk(response, 0, len(response)):
            if field != 1:
                continue
            known = self._known.get(response[start:end])
            entity = known if known is not None else self._entity(response, start, end)[0]
            if entity is not None:
                yield entity

    def counted_entries(self, response: bytes) -> Iterator[tuple[TableEntry, Counted | None]]:
        """Yield the table entries of a ReadResponse with their direct counters, where the table has one."""
        for field, start, end in _walk(response, 0, len(response)):
            if field == 1:
                entity, count = self._entity(response, start, end)
                if isinstance(entity, TableEntry):
                    yield entity, count

    def _entity(self, data: bytes, start: int, end: int) -> tuple[Entity | None, Counted | None]:
        for kind, first, last in _walk(data, start, end):
            match kind:
                case 2:
                    return self._table_entry(data, first, last)
                case 3:
                    return self._member(data, first, last), None
                case 4:
                    return self._group(data, first, last), None
        return None, None

    def _table_entry(self, data: bytes, start: int, end: int) -> tuple[TableEntry | Default | None, Counted | None]:
        table_id = priority = is_default = 0
        count: Counted | None = None
        action: Action = Foreign(b"")
        matches: list[tuple[int, int]] = []
        for field, value, last in _walk(data, start, end):
            match field:
                case 1:
                    table_id = value
                case 2:
                    matches.append((value, last))
                case 3:
                    action = self._action(data[value:last])
                case 4:
                    priority = value
                case 7:
                    count = _counter_data(data, value, last)
                case 8:
                    is_default = value
                case 13 if value:
                    return None, None
        table = self._pipeline.tables_by_id.get(table_id)
        if table is None:
            raise FailureError(f"the switch speaks of table {table_id:#x}, which its program does not have")
        if is_default:
            own = action == Foreign(b"") or action == table.own_default
            return (None if own else Default(table.name, action)), count
        if table.is_const:
            return None, None
        found = sorted(self._match(table, data[first:last]) for first, last in matches)
        return TableEntry(table.name, tuple((name, value) for _, name, value in found), action, priority), count

    def _match(self, table: TableInfo, wire: bytes) -> tuple[int, str, FieldMatch]:
        known = self._matches.get((table.id, wire))
        if known is None:
            known = self._matches[table.id, wire] = _field_match(table, wire)
        return known

    def _action(self, wire: bytes) -> Action:
        known = self._actions.get(wire)
        if known is None:
            known = self._actions[wire] = self._table_action(wire)
        return known

    def _table_action(self, wire: bytes) -> Action:
        for field, value, end in _walk(wire, 0, len(wire)):
            match field:
                case 1:
                    return self._call(wire, value, end)
                case 2:
                    return MemberRef(value)
                case 3:
                    return GroupRef(value)
        return Foreign(wire)

    def _call(self, data: bytes, start: int, end: int) -> Call:
        action_id, values = 0, dict[int, int]()
        for field, value, last in _walk(data, start, end):
            if field == 1:
                action_id = value
            elif field == 4:
                parameter_id, argument = _pair(data, value, last, 2, 3)
                values[parameter_id] = argument
        info = self._pipeline.actions_by_id.get(action_id)
        if info is None:
            raise FailureError(f"the switch speaks of action {action_id:#x}, which its program does not have")
        return Call(info.name, tuple((parameter.name, values.get(parameter.id, 0)) for parameter in info.parameters))

    def _member(self, data: bytes, start: int, end: int) -> Member:
        profile_id = member_id = 0
        action = Call("")
        for field, value, last in _walk(data, start, end):
            match field:
                case 1:
                    profile_id = value
                case 2:
                    member_id = value
                case 3:
                    action = self._call(data, value, last)
        return Member(self._profile_name(profile_id), member_id, action)

    def _group(self, data: bytes, start: int, end: int) -> Group:
        profile_id = group_id = 0
        members: list[GroupMember] = []
        for field, value, last in _walk(data, start, end):
            match field:
                case 1:
                    profile_id = value
                case 2:
                    group_id = value
                case 3:
                    members.append(_group_member(data, value, last))
        return Group(self._profile_name(profile_id), group_id, tuple(sorted(members)))

    def _profile_name(self, profile_id: int) -> str:
        try:
            return self._pipeline.profiles_by_id[profile_id].name
        except KeyError:
            raise FailureError(f"the switch speaks of action profile {profile_id:#x}, unknown to its program") from None


def add_counter_cells(
    counter_id: int, response: bytes, packets: npt.NDArray[np.int64], octets: npt.NDArray[np.int64]
) -> None:
    """Put the cells of an indexed counter from a ReadResponse where they belong: cell i at index i.

    A counter has tens of thousands of cells and most are zero: runs of those are passed over without a look.
    """
    zeros = _zero_cells(counter_id)
    at = 0
    while True:
        run = zeros.match(response, at)
        at = run.end() if run else at
        entity = next(_walk(response, at, len(response)), None)
        if entity is None:
            return
        field, start, at = entity
        if at < start:
            raise FailureError("the switch sent a counter that is no ReadResponse")
        if field == 1:
            index, cell = _counter_cell(response, start, at)
            packets[index], octets[index] = cell.packets, cell.bytes


@cache
def _zero_cells(counter_id: int) -> re.Pattern[bytes]:
    """Match any number of entities that are cells of a counter without counts: short lengths, an index, no data."""
    head = rb"\x0a[\x00-\x7f]\x3a[\x00-\x7f]" + re.escape(number(1, counter_id))
    index = rb"(?:\x12[\x00-\x7f](?:\x08[\x80-\xff]*[\x00-\x7f])?)?"
    return re.compile(rb"(?:" + head + index + rb"(?:\x1a\x00)?(?=\x0a|\Z))*", re.DOTALL)


def _counter_cell(data: bytes, start: int, end: int) -> tuple[int, Counted]:
    index, cell = 0, Counted(0, 0)
    for kind, first, last in _walk(data, start, end):
        if kind != 7:
            continue
        for field, value, stop in _walk(data, first, last):
            if field == 2:
                index = _first(data, value, stop)
            elif field == 3:
                cell = _counter_data(data, value, stop)
    return index, cell


def _counter_data(data: bytes, start: int, end: int) -> Counted:
    octets = packets = 0
    for field, value, _ in _walk(data, start, end):
        if field == 1:
            octets = value
        elif field == 2:
            packets = value
    return Counted(packets, octets)


def _group_member(data: bytes, start: int, end: int) -> GroupMember:
    member = watch = 0
    weight = 1
    for field, value, last in _walk(data, start, end):
        match field:
            case 1:
                member = value
            case 2:
                weight = value
            case 3:
                watch = value
            case 4:
                watch = int.from_bytes(data[value:last], "big")
    return GroupMember(member, weight, watch)


def _field_match(table: TableInfo, wire: bytes) -> tuple[int, str, FieldMatch]:
    field_id, found = 0, (0, 0, 0)
    for number_, value, end in _walk(wire, 0, len(wire)):
        if number_ == 1:
            field_id = value
        else:
            found = (number_, value, end)
    info = next((field for field in table.fields if field.id == field_id), None)
    if info is None:
        raise FailureError(f"the switch speaks of field {field_id} of {table.name}, which its program does not have")
    kind, start, end = found
    values = {
        number_: value if stop < 0 else int.from_bytes(wire[value:stop], "big")
        for number_, value, stop in _walk(wire, start, end)
    }
    first, second = values.get(1, 0), values.get(2, 0)
    match kind:
        case 3:
            return field_id, info.name, Masked(first, second)
        case 4:
            return field_id, info.name, Prefix(first, second)
        case 6:
            return field_id, info.name, Between(first, second)
        case _:
            return field_id, info.name, Exact(first)


def _first(data: bytes, start: int, end: int) -> int:
    return next((value for field, value, _ in _walk(data, start, end) if field == 1), 0)


def _pair(data: bytes, start: int, end: int, number_field: int, bytes_field: int) -> tuple[int, int]:
    first = second = 0
    for field, value, last in _walk(data, start, end):
        if field == number_field:
            first = value
        elif field == bytes_field:
            second = int.from_bytes(data[value:last], "big")
    return first, second


def _walk(data: bytes, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield (field, value, -1) for each integer of a message and (field, start, end) for each run of bytes."""
    while at < end:
        tag = data[at]
        at += 1
        if tag >= 0x80:
            tag, at = _long_varint(data, at - 1)
        kind = tag & 7
        if kind in (_VARINT, _BYTES):
            value = data[at]
            at += 1
            if value >= 0x80:
                value, at = _long_varint(data, at - 1)
            if kind == _VARINT:
                yield tag >> 3, value, -1
            else:
                yield tag >> 3, at, at + value
                at += value
        elif kind == _FIXED64:
            at += 8
        elif kind == _FIXED32:
            at += 4
        else:
            raise FailureError(f"the switch sent a message that is no protobuf (wire type {kind})")


def _long_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        octet = data[at]
        at += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return value, at
        shift += 7
