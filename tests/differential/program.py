# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A template's P4Info, asked by name: entities written as names and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2 as p4rt

HERE = Path(__file__).parent
COMPILED = HERE / "compiled"
SOURCES = HERE / "templates"

Key = Mapping[str, Any]  # exact and optional: value; LPM: (value, length); ternary: (value, mask); range: (low, high)


def big(value: int) -> bytes:
    """Return a number in P4Runtime's shortest form."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


@dataclass(frozen=True)
class Program:
    """A compiled template: its two files and what they name."""

    name: str

    @property
    def json(self) -> Path:
        """What p4c made of it for BMv2."""
        return COMPILED / f"{self.name}.json"

    @property
    def p4info(self) -> Path:
        """Its P4Info."""
        return COMPILED / f"{self.name}.p4info.txtpb"

    def info(self) -> Any:
        """Return its P4Info as a message."""
        return text_format.Parse(self.p4info.read_text(), p4info_pb2.P4Info())


class Names:
    """Make P4Runtime entities from a program's aliases."""

    def __init__(self, info: Any) -> None:
        self.tables = {each.preamble.alias: each for each in info.tables}
        self.actions = {each.preamble.alias: each for each in info.actions}
        self.profiles = {each.preamble.alias: each.preamble.id for each in info.action_profiles}
        self.counters = {each.preamble.alias: each.preamble.id for each in info.counters}
        self.meters = {each.preamble.alias: each.preamble.id for each in info.meters}
        self.digests = {each.preamble.name: each.preamble.id for each in info.digests}

    def action(self, name: str, *arguments: int) -> Any:
        """Return an action with its arguments."""
        info = self.actions[name]
        message = p4rt.Action(action_id=info.preamble.id)
        for parameter, argument in zip(info.params, arguments, strict=True):
            message.params.add(param_id=parameter.id, value=big(argument))
        return message

    def key(self, table: str, key: Key, priority: int = 0) -> Any:
        """Return a TableEntry with a key only; what the key leaves out matches anything."""
        info = self.tables[table]
        entry = p4rt.TableEntry(table_id=info.preamble.id, priority=priority)
        for field in info.match_fields:
            if field.name not in key:
                continue
            match, value = entry.match.add(field_id=field.id), key[field.name]
            kind = p4info_pb2.MatchField.MatchType.Name(field.match_type)
            if kind == "EXACT":
                match.exact.value = big(value)
            elif kind == "OPTIONAL":
                match.optional.value = big(value)
            elif kind == "LPM":
                match.lpm.value, match.lpm.prefix_len = big(value[0]), value[1]
            elif kind == "TERNARY":
                match.ternary.value, match.ternary.mask = big(value[0]), big(value[1])
            else:
                match.range.low, match.range.high = big(value[0]), big(value[1])
        return entry

    def entry(self, table: str, key: Key, action: str, *arguments: int, priority: int = 0) -> Any:
        """Return an Entity: a table entry with its action."""
        entry = self.key(table, key, priority)
        entry.action.action.CopyFrom(self.action(action, *arguments))
        return p4rt.Entity(table_entry=entry)

    def by_reference(self, table: str, key: Key, *, member: int = 0, group: int = 0) -> Any:
        """Return an Entity: a table entry that refers to a member or a group."""
        entry = self.key(table, key)
        if group:
            entry.action.action_profile_group_id = group
        else:
            entry.action.action_profile_member_id = member
        return p4rt.Entity(table_entry=entry)

    def member(self, profile: str, number: int, action: str, *arguments: int) -> Any:
        """Return an Entity: a member of an action profile."""
        member = p4rt.ActionProfileMember(action_profile_id=self.profiles[profile], member_id=number)
        member.action.CopyFrom(self.action(action, *arguments))
        return p4rt.Entity(action_profile_member=member)

    def group(self, profile: str, number: int, members: Sequence[tuple[int, int]]) -> Any:
        """Return an Entity: a group of (member, weight)."""
        group = p4rt.ActionProfileGroup(action_profile_id=self.profiles[profile], group_id=number)
        group.max_size = sum(weight for _, weight in members)
        for member, weight in members:
            group.members.add(member_id=member, weight=weight)
        return p4rt.Entity(action_profile_group=group)

    def meter(self, name: str, index: int, rates: Sequence[int]) -> Any:
        """Return an Entity: cir, cburst, pir and pburst of an indirect meter's cell."""
        entry = p4rt.MeterEntry(meter_id=self.meters[name])
        entry.index.index = index
        entry.config.cir, entry.config.cburst, entry.config.pir, entry.config.pburst = rates
        return p4rt.Entity(meter_entry=entry)

    def learning(self, name: str) -> Any:
        """Return an Entity: a digest that is sent at once, one message in each list."""
        entry = p4rt.DigestEntry(digest_id=self.digests[name])
        entry.config.max_list_size = 1
        return p4rt.Entity(digest_entry=entry)


def multicast(group: int, replicas: Sequence[tuple[int, int]]) -> Any:
    """Return an Entity: a multicast group of (port, instance)."""
    message = p4rt.PacketReplicationEngineEntry()
    message.multicast_group_entry.multicast_group_id = group
    for port, instance in replicas:
        message.multicast_group_entry.replicas.add(egress_port=port, instance=instance)
    return p4rt.Entity(packet_replication_engine_entry=message)


def session(number: int, replicas: Sequence[tuple[int, int]]) -> Any:
    """Return an Entity: a clone session with replicas (port, instance)."""
    message = p4rt.PacketReplicationEngineEntry()
    message.clone_session_entry.session_id = number
    for port, instance in replicas:
        message.clone_session_entry.replicas.add(egress_port=port, instance=instance)
    return p4rt.Entity(packet_replication_engine_entry=message)
