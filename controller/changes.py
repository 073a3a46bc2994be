# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The difference between what a switch holds and what it should, in the order in which it may be written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from controller.compiler import PortRate, QueueLimit
from controller.p4rt.entities import Default, Entity, Group, Holding, Key, Member, TableEntry
from controller.p4rt.wire import UpdateKind


@dataclass(frozen=True)
class Change:
    """One change of one entity: `before` is None for an insert, `after` for a delete."""

    before: Entity | None
    after: Entity | None

    @property
    def kind(self) -> UpdateKind:
        """What P4Runtime calls it."""
        return "insert" if self.before is None else "delete" if self.after is None else "modify"

    @property
    def entity(self) -> Entity:
        """What a Write names: the new form, or the old one of a delete."""
        entity = self.after if self.after is not None else self.before
        assert entity is not None
        return entity

    def __str__(self) -> str:
        if self.before is not None and self.after is not None:
            return f"~ {self.after} (was {_tail(self.before)})"
        return f"{'+' if self.before is None else '-'} {self.entity}"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "change": self.kind,
            "before": None if self.before is None else entity_as_dict(self.before),
            "after": None if self.after is None else entity_as_dict(self.after),
        }


@dataclass(frozen=True)
class Changes:
    """All that must change on one switch; false if nothing must.

    `stages` may be written one after the other: each one's references stand when it is written. `program` says that
    the switch must be given the program first.
    """

    switch: str
    program: bool
    stages: tuple[tuple[Change, ...], ...]
    queues: tuple[tuple[QueueLimit | None, QueueLimit], ...] = ()
    rates: tuple[tuple[PortRate | None, PortRate], ...] = ()

    def __bool__(self) -> bool:
        return self.program or len(self) > 0

    def __len__(self) -> int:
        return sum(map(len, self.stages)) + len(self.queues) + len(self.rates)

    def __iter__(self) -> Iterator[Change]:
        for stage in self.stages:
            yield from stage

    def count(self, kind: UpdateKind) -> int:
        """Return how many entities are inserted, modified or deleted."""
        return sum(change.kind == kind for change in self)

    def lines(self) -> Iterator[str]:
        """Yield one line for each change, as people read a diff."""
        if self.program:
            yield "~ program"
        for change in self:
            yield str(change)
        for before, after in self.queues:
            yield f"~ queue of port {after.port} class {after.class_}: {_limit(after)} (was {_limit(before)})"
        for former, rate in self.rates:
            yield f"~ rate of port {rate.port}: {_rate(rate)} (was {_rate(former)})"

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "switch": self.switch,
            "program": self.program,
            "entities": [change.as_dict() for change in self],
            "queues": [
                {"port": after.port, "class": after.class_, "packets": after.packets, "bytes": after.bytes}
                for _, after in self.queues
            ],
            "rates": [{"port": after.port, "bits_per_second": after.bits_per_second} for _, after in self.rates],
        }


def stages(actual: Holding, desired: Holding) -> tuple[tuple[Change, ...], ...]:
    """Return what leads from one holding to the other, in stages.

    First what others refer to (members, groups, next hops, groups' tables), then what refers to it; deletes come
    last, in the opposite order, so that traffic finds a route at every moment.
    """
    ordered: tuple[list[Change], ...] = tuple([] for _ in range(2 * _TIERS))
    for held, wanted in (
        (actual.members, desired.members),
        (actual.groups, desired.groups),
        (actual.entries, desired.entries),
        (actual.defaults, desired.defaults),
    ):
        for change in _difference(held, wanted):
            tier = _tier(change.entity)
            ordered[tier if change.after is not None else -1 - tier].append(change)
    return tuple(tuple(stage) for stage in ordered if stage)


_TIERS = 4


def _tier(entity: Entity) -> int:
    """Return 0 for what refers to nothing, 3 for what refers to the most."""
    match entity:
        case Member() | TableEntry(table="next_hop"):
            return 0
        case Group():
            return 1
        case TableEntry(table="path_group" | "path_group_alternative" | "pinned_path"):
            return 2
        case _:
            return 3


def _difference(held: Mapping[Key, Entity], wanted: Mapping[Key, Entity]) -> Iterator[Change]:
    for key, entity in wanted.items():
        former = held.get(key)
        if former != entity:
            yield Change(former, entity)
    for key, entity in held.items():
        if key not in wanted:
            yield Change(entity, None)


def entity_as_dict(entity: Entity) -> dict[str, Any]:
    """Return an entity as plain values for JSON."""
    match entity:
        case TableEntry(table, match, action, priority):
            return {
                "table": table,
                "match": {name: value._asdict() for name, value in match},
                "priority": priority,
                "action": str(action),
            }
        case Default(table, action):
            return {"table": table, "default": True, "action": str(action)}
        case Member(profile, id_, action):
            return {"profile": profile, "member": id_, "action": str(action)}
        case Group(profile, id_, members):
            return {"profile": profile, "group": id_, "members": [member._asdict() for member in members]}


def _tail(entity: Entity) -> str:
    return str(entity).partition(" -> ")[2]


def _limit(limit: QueueLimit | None) -> str:
    if limit is None:
        return "unknown"
    parts = [f"{limit.bytes} bytes"] if limit.bytes else []
    parts += [f"{limit.packets} packets"] if limit.packets else []
    return " and ".join(parts) or "no limit"


def _rate(rate: PortRate | None) -> str:
    return "unknown" if rate is None else f"{rate.bits_per_second} bit/s" if rate.bits_per_second else "no limit"
