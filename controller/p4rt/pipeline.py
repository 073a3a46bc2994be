# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A compiled program as the control plane needs it: the device config, and P4Info by name and by id."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4runtime_sh.context import Context, P4Type

from controller.p4rt.entities import Call
from topologies.errors import UsageError

COMPILED = Path(__file__).parents[2] / "p4src" / "compiled"
MatchKind = Literal["exact", "lpm", "ternary", "range", "optional"]

_MATCH_KINDS: Mapping[int, MatchKind] = {2: "exact", 3: "lpm", 4: "ternary", 5: "range", 6: "optional"}


@dataclass(frozen=True)
class Field:
    """A match field of a table."""

    id: int
    name: str
    kind: MatchKind
    bits: int


@dataclass(frozen=True)
class Parameter:
    """A parameter of an action."""

    id: int
    name: str
    bits: int


@dataclass(frozen=True)
class ActionInfo:
    """An action: its parameters in P4Info's order. Its name is the last part of the full one."""

    id: int
    name: str
    parameters: tuple[Parameter, ...]


@dataclass(frozen=True)
class TableInfo:
    """A table: its fields in P4Info's order, its actions by name, and whether its entries are fixed by the program."""

    id: int
    name: str
    fields: tuple[Field, ...]
    is_const: bool
    size: int
    has_direct_counter: bool
    actions: Mapping[str, ActionInfo]
    own_default: Call | None  # None: nobody can change it

    @cached_property
    def has_priority(self) -> bool:
        """Whether entries take a priority: P4Runtime wants one where a field is ternary, range or optional."""
        return any(field.kind in ("ternary", "range", "optional") for field in self.fields)


@dataclass(frozen=True)
class ProfileInfo:
    """An action profile, with the tables that use it."""

    id: int
    name: str
    tables: tuple[str, ...]
    actions: Mapping[str, ActionInfo]


@dataclass(frozen=True)
class CounterInfo:
    """An indexed counter."""

    id: int
    name: str
    size: int


class Pipeline:
    """One compiled program. Objects go by their short names (P4Info's alias)."""

    def __init__(self, p4info: p4info_pb2.P4Info, device_config: bytes) -> None:
        self.p4info = p4info
        self.device_config = device_config
        self.context = Context()
        self.context.set_p4info(p4info)
        self.actions_by_id = {info.id: info for info in map(_action, p4info.actions)}
        direct = {counter.direct_table_id for counter in p4info.direct_counters}
        self.tables_by_id = {table.preamble.id: _table(table, self.actions_by_id, direct) for table in p4info.tables}
        self.tables = {table.name: table for table in self.tables_by_id.values()}
        self.profiles_by_id = {
            profile.preamble.id: _profile(profile, self.tables_by_id) for profile in p4info.action_profiles
        }
        self.profiles = {profile.name: profile for profile in self.profiles_by_id.values()}
        self.counters = {
            counter.preamble.alias: CounterInfo(counter.preamble.id, counter.preamble.alias, counter.size)
            for counter in p4info.counters
        }

    @staticmethod
    def load(p4info_path: Path = COMPILED / "gradlane.p4info.txtpb", config_path: Path | None = None) -> Pipeline:
        """Read a program as p4c wrote it. Raises UsageError where a file is missing or is none of p4c's."""
        config_path = config_path or p4info_path.with_name(p4info_path.name.split(".")[0] + ".json")
        try:
            text = p4info_path.read_text(encoding="utf-8")
            config = config_path.read_bytes()
        except OSError as error:
            raise UsageError(f"cannot read the compiled program: {error.strerror}", file=error.filename) from None
        except UnicodeDecodeError:
            raise UsageError("this is no P4Info: it is not UTF-8 text", file=p4info_path) from None
        p4info = p4info_pb2.P4Info()
        try:
            text_format.Parse(text, p4info, allow_unknown_field=True)
        except text_format.ParseError as error:
            raise UsageError(f"this is no P4Info: {error}", file=p4info_path) from None
        return Pipeline(p4info, config)

    @cached_property
    def cookie(self) -> int:
        """A number that tells this program from another: what the switch keeps beside the program (64 bits)."""
        digest = hashlib.sha256(self.p4info.SerializeToString(deterministic=True))
        digest.update(self.device_config)
        return int.from_bytes(digest.digest()[:8], "big")

    def table(self, name: str) -> TableInfo:
        """Return a table by its short name, or any suffix of its full one. Raises UsageError where there is none."""
        found = self.context.get_obj(P4Type.table, name)
        if found is None:
            raise UsageError(f"the program has no table {name!r}; it has {', '.join(sorted(self.tables))}")
        return self.tables[found.preamble.alias]

    def counter(self, name: str) -> CounterInfo:
        """Return a counter by its short name, or any suffix of its full one. Raises UsageError where there is none."""
        found = self.context.get_obj(P4Type.counter, name)
        if found is None:
            raise UsageError(f"the program has no counter {name!r}; it has {', '.join(sorted(self.counters))}")
        return self.counters[found.preamble.alias]


def _action(action: Any) -> ActionInfo:
    return ActionInfo(
        action.preamble.id,
        action.preamble.name.rpartition(".")[2],
        tuple(Parameter(parameter.id, parameter.name, parameter.bitwidth) for parameter in action.params),
    )


def _table(table: Any, actions: Mapping[int, ActionInfo], direct: set[int]) -> TableInfo:
    return TableInfo(
        id=table.preamble.id,
        name=table.preamble.alias,
        fields=tuple(
            Field(field.id, field.name, _MATCH_KINDS[field.match_type], field.bitwidth) for field in table.match_fields
        ),
        is_const=table.is_const_table,
        size=table.size,
        has_direct_counter=table.preamble.id in direct,
        actions={actions[reference.id].name: actions[reference.id] for reference in table.action_refs},
        own_default=_own_default(table, actions),
    )


def own_default_actions(p4info: p4info_pb2.P4Info) -> dict[int, tuple[int, dict[int, int]]]:
    """Return, by table, the default action that each starts with and that may be changed: its id and arguments.

    The id is 0 where P4Info does not tell it.
    """
    return {
        table.preamble.id: (
            table.initial_default_action.action_id,
            {each.param_id: int.from_bytes(each.value, "big") for each in table.initial_default_action.arguments},
        )
        for table in p4info.tables
        if not (table.const_default_action_id or table.implementation_id)
    }


def _own_default(table: Any, actions: Mapping[int, ActionInfo]) -> Call | None:
    """Return the default action that a table starts with; None if it is const, or chosen by an action profile."""
    initial = table.initial_default_action
    if table.const_default_action_id or table.implementation_id or not initial.action_id:
        return None
    info = actions[initial.action_id]
    values = {argument.param_id: int.from_bytes(argument.value, "big") for argument in initial.arguments}
    return Call(info.name, tuple((parameter.name, values.get(parameter.id, 0)) for parameter in info.parameters))


def _profile(profile: Any, tables: Mapping[int, TableInfo]) -> ProfileInfo:
    users = [tables[table] for table in profile.table_ids]
    actions = {name: action for table in users for name, action in table.actions.items()}
    return ProfileInfo(profile.preamble.id, profile.preamble.alias, tuple(table.name for table in users), actions)
