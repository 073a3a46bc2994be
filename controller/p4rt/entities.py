# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a switch holds, by name: table entries, action profile members and groups, as values that compare and hash."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple, TypeAlias


class Exact(NamedTuple):
    """A field that equals `value`."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


class Prefix(NamedTuple):
    """A field whose first `length` bits are those of `value`."""

    value: int
    length: int

    def __str__(self) -> str:
        return f"{self.value:#x}/{self.length}"


class Masked(NamedTuple):
    """A field that equals `value` under `mask`."""

    value: int
    mask: int

    def __str__(self) -> str:
        return f"{self.value:#x}&{self.mask:#x}"


class Between(NamedTuple):
    """A field from `low` to `high`, both included."""

    low: int
    high: int

    def __str__(self) -> str:
        return f"{self.low}-{self.high}"


FieldMatch: TypeAlias = Exact | Prefix | Masked | Between
Match: TypeAlias = tuple[tuple[str, FieldMatch], ...]


class Call(NamedTuple):
    """An action with its arguments, in the order in which P4Info lists the parameters."""

    action: str
    arguments: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        return f"{self.action}({', '.join(f'{name}={_argument(name, value)}' for name, value in self.arguments)})"


class MemberRef(NamedTuple):
    """A table entry that points at a member of its action profile."""

    member: int

    def __str__(self) -> str:
        return f"member {self.member}"


class GroupRef(NamedTuple):
    """A table entry that points at a group of its action profile."""

    group: int

    def __str__(self) -> str:
        return f"group {self.group}"


class Foreign(NamedTuple):
    """An action of a form that Gradlane never writes (a one-shot set), in its wire form."""

    wire: bytes

    def __str__(self) -> str:
        return "an action set"


Action: TypeAlias = Call | MemberRef | GroupRef | Foreign


class TableEntry(NamedTuple):
    """One row of a table. `match` follows P4Info's field order and leaves out fields that do not care."""

    table: str
    match: Match
    action: Action
    priority: int = 0

    @property
    def key(self) -> tuple[str, Match, int]:
        """What tells this row from every other."""
        return self.table, self.match, self.priority

    def __str__(self) -> str:
        match = ", ".join(f"{name}={_field(self.table, value)}" for name, value in self.match) or "anything"
        priority = f" priority {self.priority}" if self.priority else ""
        return f"{self.table} {match}{priority} -> {self.action}"


class Default(NamedTuple):
    """The default action of a table where it is not the program's own: deleted, the table has its own again."""

    table: str
    action: Action

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells this default action from every other."""
        return "default", self.table, 0

    def __str__(self) -> str:
        return f"{self.table} default -> {self.action}"


class Member(NamedTuple):
    """One member of an action profile."""

    profile: str
    id: int
    action: Call

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells this member from every other."""
        return "member", self.profile, self.id

    def __str__(self) -> str:
        return f"{self.profile} member {self.id} -> {self.action}"


class GroupMember(NamedTuple):
    """A member's part in a group: its weight, and the port whose fall takes it out (0: none)."""

    member: int
    weight: int = 1
    watch_port: int = 0

    def __str__(self) -> str:
        watch = f" while port {self.watch_port} is up" if self.watch_port else ""
        return f"{self.member}*{self.weight}{watch}" if self.weight != 1 else f"{self.member}{watch}"


class Group(NamedTuple):
    """One group of an action profile; members ascend."""

    profile: str
    id: int
    members: tuple[GroupMember, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells this group from every other."""
        return "group", self.profile, self.id

    def __str__(self) -> str:
        return f"{self.profile} group {self.id} -> {{{', '.join(map(str, self.members))}}}"


Entity: TypeAlias = TableEntry | Default | Member | Group
Key: TypeAlias = tuple[str, Match, int] | tuple[str, str, int]


class Holding(NamedTuple):
    """All that one switch holds, or should: entries, default actions, members and groups, each by its key."""

    entries: dict[Key, TableEntry]
    defaults: dict[Key, Default]
    members: dict[Key, Member]
    groups: dict[Key, Group]

    @staticmethod
    def of(entities: list[Entity]) -> Holding:
        """Sort entities by kind."""
        holding = Holding({}, {}, {}, {})
        for entity in entities:
            match entity:
                case TableEntry():
                    holding.entries[entity.key] = entity
                case Default():
                    holding.defaults[entity.key] = entity
                case Member():
                    holding.members[entity.key] = entity
                case Group():
                    holding.groups[entity.key] = entity
        return holding


def _field(table: str, value: FieldMatch) -> str:
    if table.startswith(("ipv4_", "arp_")):
        match value:
            case Prefix(address, length):
                return f"{IPv4Address(address)}/{length}"
            case Exact(address):
                return str(IPv4Address(address))
    if table.startswith("ipv6_") and isinstance(value, Prefix):
        return f"{IPv6Address(value.value)}/{value.length}"
    return str(value)


def _argument(name: str, value: int) -> str:
    return ":".join(f"{value:012x}"[i : i + 2] for i in range(0, 12, 2)) if name.endswith("mac") else str(value)
