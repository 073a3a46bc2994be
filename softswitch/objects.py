# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A loaded program's tables, counters, meters, registers and groups by name, for tests and tools in process.

P4Runtime is the interface for controllers; this one needs no P4Info and speaks of BMv2's names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from softswitch.errors import SwitchError
from softswitch.native import engine, ffi

if TYPE_CHECKING:
    from softswitch.switch import Switch

KINDS = ("exact", "lpm", "ternary", "range", "optional")
STATUS = ("ok", "exists", "not found", "full", "invalid", "in use", "constant", "no memory")
Match = int | tuple[int, int]


class ObjectError(SwitchError):
    """An object that does not exist, or a change that its table refuses; `status` is one of STATUS."""

    def __init__(self, message: str, status: str = "invalid") -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class KeyField:
    """A field of a table's key."""

    name: str
    kind: str
    bits: int

    @property
    def bytes(self) -> int:
        """Bytes in control-plane form."""
        return (self.bits + 7) // 8


@dataclass(frozen=True)
class Entry:
    """A table entry: each match as (value, mask or upper bound), and its counts."""

    matches: tuple[tuple[int, int], ...]
    priority: int
    action: str | None
    parameters: tuple[int, ...]
    member: int | None
    group: int | None
    packets: int
    bytes: int


def _find(names: Sequence[str], wanted: str, what: str) -> int:
    """Find a name, or the only one that ends with it; of several the same, the first."""
    if wanted in names:
        return names.index(wanted)
    ending = [number for number, name in enumerate(names) if name.endswith("." + wanted)]
    ending = ending or [number for number, name in enumerate(names) if name.endswith(wanted)]
    if ending and len({names[number] for number in ending}) == 1:
        return ending[0]
    raise ObjectError(f"{'more than one' if ending else 'no'} {what} '{wanted}'", "not found")


def _check(status: int, what: str) -> None:
    if status:
        raise ObjectError(f"{what}: {STATUS[status]}", STATUS[status])


class Objects:
    """The objects of the program that a switch runs."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        self.ffi = ffi()
        self.lib = engine()
        self.raw = switch.objects

    def text(self, pointer: Any) -> str:
        """Read a C string."""
        return str(self.ffi.string(pointer).decode())

    @property
    def action_names(self) -> list[str]:
        """All actions, by index."""
        return [self.text(self.raw.actions[i].name) for i in range(self.raw.action_count)]

    def table(self, name: str) -> TableView:
        """Return the table of that name."""
        tables = [self.raw.tables[i] for i in range(self.raw.table_count)]
        names = [self.text(self.lib.ss_table_info(table).name) for table in tables]
        return TableView(self, tables[_find(names, name, "table")])

    def profile(self, name: str) -> ProfileView:
        """Return the action profile of that name."""
        profiles = [self.raw.profiles[i] for i in range(self.raw.profile_count)]
        names = [self.text(self.lib.ss_profile_info(profile).name) for profile in profiles]
        return ProfileView(self, profiles[_find(names, name, "action profile")])

    def _numbered(self, array: Any, count: int, name: str, what: str) -> int:
        return _find([self.text(array[i].name) for i in range(count)], name, what)

    def counter(self, name: str, index: int) -> tuple[int, int]:
        """Return a counter cell's packets and bytes."""
        number = self._numbered(self.raw.counters, self.raw.counter_count, name, "counter")
        if index >= self.raw.counters[number].size:
            raise ObjectError(f"counter '{name}' has no cell {index}", "not found")
        with self.switch.locked():
            cell = self.raw.counters[number].cells[index]
            return int(cell.packets), int(cell.bytes)

    def register(self, name: str, index: int) -> int:
        """Read a register cell."""
        number = self._numbered(self.raw.registers, self.raw.register_count, name, "register")
        buffer = self.ffi.new("uint8_t[]", self.raw.registers[number].bytes)
        with self.switch.locked():
            status = self.lib.ss_register_read(self.switch.state, number, index, buffer)
        _check(status, f"register '{name}'[{index}]")
        return int.from_bytes(self.ffi.buffer(buffer)[:], "big")

    def set_register(self, name: str, index: int, value: int) -> None:
        """Write a register cell."""
        number = self._numbered(self.raw.registers, self.raw.register_count, name, "register")
        data = value.to_bytes(self.raw.registers[number].bytes, "big")
        with self.switch.locked():
            _check(self.lib.ss_register_write(self.switch.state, number, index, data), f"register '{name}'[{index}]")

    def register_size(self, name: str) -> int:
        """Return the cells of a register."""
        number = self._numbered(self.raw.registers, self.raw.register_count, name, "register")
        return int(self.raw.registers[number].size)

    def set_meter(self, name: str, index: int, cir: int, cburst: int, pir: int, pburst: int) -> None:
        """Set a meter cell's rates (per second) and bursts, in packets or bytes."""
        number = self._numbered(self.raw.meters, self.raw.meter_count, name, "meter")
        rates = self.ffi.new(
            "struct ss_meter_rates *",
            {"cir": cir, "cburst": cburst, "pir": pir, "pburst": pburst, "configured": True},
        )
        with self.switch.locked():
            _check(self.lib.ss_meter_set(self.switch.state, number, index, rates), f"meter '{name}'[{index}]")

    def meter_size(self, name: str) -> int:
        """Return the cells of a meter."""
        number = self._numbered(self.raw.meters, self.raw.meter_count, name, "meter")
        return int(self.raw.meters[number].size)

    def set_value_set(self, name: str, members: Sequence[Sequence[Match]]) -> None:
        """Replace the members of a parser value set; a match is a value, or (value, mask)."""
        sets = [self.raw.value_sets[i] for i in range(self.raw.value_set_count)]
        infos = [self.lib.ss_value_set_info(value_set) for value_set in sets]
        number = _find([self.text(info.name) for info in infos], name, "value set")
        info = infos[number]
        values, masks = bytearray(), bytearray()
        for fields in members:
            for position, match in enumerate(fields):
                field = info.fields[position]
                value, mask = match if isinstance(match, tuple) else (match, (1 << field.bits) - 1)
                values += value.to_bytes(field.bytes, "big")
                masks += mask.to_bytes(field.bytes, "big")
        with self.switch.locked():
            status = self.lib.ss_value_set_write(sets[number], len(members), bytes(values), bytes(masks))
        _check(status, f"value set '{name}'")

    def action_value(self, action: str, parameters: Sequence[int], among: Sequence[int]) -> tuple[Any, Any]:
        """Make a struct ss_action_value; the second result keeps its memory."""
        names = self.action_names
        number = among[_find([names[i] for i in among], action, "action")]
        info = self.raw.actions[number]
        if len(parameters) != info.parameter_count:
            raise ObjectError(f"action '{action}' takes {info.parameter_count} parameters, not {len(parameters)}")
        data = bytearray()
        for position, value in enumerate(parameters):
            bits = info.parameter_bits[position]
            if value < 0 or value >> bits:
                raise ObjectError(f"action '{action}': parameter {position} is no number of {bits} bits")
            data += value.to_bytes((bits + 7) // 8, "big")
        memory = self.ffi.new("uint8_t[]", bytes(data) or b"\0")
        return {"kind": self.lib.SS_DIRECT, "action": number, "parameters": memory}, memory

    def describe_action(self, value: Any) -> tuple[str, tuple[int, ...]]:
        """Read the action and parameters of a struct ss_action_value."""
        info = self.raw.actions[value.action]
        parameters = []
        at = 0
        for position in range(info.parameter_count):
            size = (info.parameter_bits[position] + 7) // 8
            parameters.append(int.from_bytes(self.ffi.buffer(value.parameters + at, size)[:], "big"))
            at += size
        return self.text(info.name), tuple(parameters)


class TableView:
    """One table."""

    def __init__(self, objects: Objects, raw: Any) -> None:
        self.objects = objects
        self.raw = raw
        self.info = objects.lib.ss_table_info(raw)
        self.name = objects.text(self.info.name)
        self.fields = tuple(
            KeyField(objects.text(field.name), KINDS[field.kind], field.bits)
            for field in (self.info.fields[i] for i in range(self.info.field_count))
        )
        self.actions = [self.info.actions[i] for i in range(self.info.action_count)]

    def _bytes(self, matches: Sequence[Match] | Mapping[str, Match]) -> tuple[bytes, bytes]:
        if isinstance(matches, Mapping):
            left = dict(matches)
            given = [left.pop(field.name, None) for field in self.fields]
            if left:
                raise ObjectError(f"table '{self.name}' has no key '{next(iter(left))}'")
        else:
            given = list(matches)
        value, mask = bytearray(), bytearray()
        for field, match in zip(self.fields, given, strict=True):
            low, high = self._match(field, match)
            value += low.to_bytes(field.bytes, "big")
            mask += high.to_bytes(field.bytes, "big")
        return bytes(value), bytes(mask)

    @staticmethod
    def _match(field: KeyField, match: Match | None) -> tuple[int, int]:
        """Return value and mask (upper bound for a range); without a match, what matches everything."""
        full = (1 << field.bits) - 1
        if match is None:
            return 0, full if field.kind in ("range", "exact") else 0
        if field.kind == "lpm":
            value, length = match if isinstance(match, tuple) else (match, field.bits)
            mask = full & ~((1 << (field.bits - length)) - 1)
            return value & mask, mask
        if isinstance(match, tuple):
            return match
        return (match, match) if field.kind == "range" else (match, full)

    def _entry(
        self,
        matches: Sequence[Match] | Mapping[str, Match],
        priority: int,
        action: tuple[str, Sequence[int]] | None,
        member: int | None,
        group: int | None,
    ) -> tuple[Any, list[Any]]:
        ffi_ = self.objects.ffi
        value, mask = self._bytes(matches)
        keep = [ffi_.new("uint8_t[]", value or b"\0"), ffi_.new("uint8_t[]", mask or b"\0")]
        entry = ffi_.new("struct ss_entry *", {"value": keep[0], "mask": keep[1], "priority": priority})
        if action is not None:
            chosen, memory = self.objects.action_value(action[0], action[1], self.actions)
            entry.action = chosen
            keep.append(memory)
        elif member is not None:
            entry.action = {"kind": self.objects.lib.SS_MEMBER, "id": member}
        elif group is not None:
            entry.action = {"kind": self.objects.lib.SS_GROUP, "id": group}
        return entry, keep

    def insert(
        self,
        matches: Sequence[Match] | Mapping[str, Match],
        action: str | None = None,
        parameters: Sequence[int] = (),
        *,
        priority: int = 0,
        member: int | None = None,
        group: int | None = None,
    ) -> None:
        """Insert an entry that runs an action, or a member or group of the table's profile.

        A match is a value, or (value, mask), (value, prefix length), (low, high) by the key's kind. The larger
        priority wins.
        """
        called = (action, parameters) if action is not None else None
        entry, _keep = self._entry(matches, priority, called, member, group)
        with self.objects.switch.locked():
            status = self.objects.lib.ss_table_insert(self.raw, entry, self.objects.ffi.NULL)
        _check(status, f"table '{self.name}'")

    def modify(
        self,
        matches: Sequence[Match] | Mapping[str, Match],
        action: str | None = None,
        parameters: Sequence[int] = (),
        *,
        priority: int = 0,
        member: int | None = None,
        group: int | None = None,
    ) -> None:
        """Change what an entry runs."""
        called = (action, parameters) if action is not None else None
        entry, _keep = self._entry(matches, priority, called, member, group)
        with self.objects.switch.locked():
            status = self.objects.lib.ss_table_modify(self.raw, entry)
        _check(status, f"table '{self.name}'")

    def remove(self, matches: Sequence[Match] | Mapping[str, Match], *, priority: int = 0) -> None:
        """Remove an entry."""
        entry, _keep = self._entry(matches, priority, None, None, None)
        with self.objects.switch.locked():
            status = self.objects.lib.ss_table_remove(self.raw, entry)
        _check(status, f"table '{self.name}'")

    def set_default(self, action: str | None, parameters: Sequence[int] = ()) -> None:
        """Set the default action; None restores the program's own."""
        value: Any = self.objects.ffi.NULL
        if action is not None:
            chosen, _memory = self.objects.action_value(action, parameters, self.actions)
            value = self.objects.ffi.new("struct ss_action_value *", chosen)
        with self.objects.switch.locked():
            status = self.objects.lib.ss_table_set_default(self.raw, value)
        _check(status, f"table '{self.name}'")

    def __len__(self) -> int:
        return int(self.objects.lib.ss_table_count(self.raw))

    def __iter__(self) -> Iterator[Entry]:
        ffi_ = self.objects.ffi
        cursor, out = ffi_.new("uint64_t *"), ffi_.new("struct ss_entry *")
        entries = []
        with self.objects.switch.locked():
            while self.objects.lib.ss_table_next(self.raw, cursor, out):
                entries.append(self._read(out))
        return iter(entries)

    def _read(self, raw: Any) -> Entry:
        matches = []
        at = 0
        for field in self.fields:
            low = int.from_bytes(self.objects.ffi.buffer(raw.value + at, field.bytes)[:], "big")
            high = (1 << field.bits) - 1
            if field.kind != "exact":
                high = int.from_bytes(self.objects.ffi.buffer(raw.mask + at, field.bytes)[:], "big")
            matches.append((low, high))
            at += field.bytes
        kind = raw.action.kind
        direct = kind == self.objects.lib.SS_DIRECT
        action, parameters = self.objects.describe_action(raw.action) if direct else (None, ())
        return Entry(
            tuple(matches),
            raw.priority,
            action,
            parameters,
            raw.action.id if kind == self.objects.lib.SS_MEMBER else None,
            raw.action.id if kind == self.objects.lib.SS_GROUP else None,
            raw.packets,
            raw.bytes,
        )


@dataclass(frozen=True)
class MemberOfGroup:
    """A member's part in a group; `watch` is the port whose state decides whether it takes part."""

    member: int
    weight: int = 1
    watch: int | None = None


class ProfileView:
    """One action profile."""

    def __init__(self, objects: Objects, raw: Any) -> None:
        self.objects = objects
        self.raw = raw
        self.info = objects.lib.ss_profile_info(raw)
        self.name = objects.text(self.info.name)
        self.actions = [self.info.actions[i] for i in range(self.info.action_count)]

    def _value(self, action: str, parameters: Sequence[int]) -> tuple[Any, Any]:
        chosen, memory = self.objects.action_value(action, parameters, self.actions)
        return self.objects.ffi.new("struct ss_action_value *", chosen), memory

    def insert_member(self, number: int, action: str, parameters: Sequence[int] = ()) -> None:
        """Insert a member."""
        value, _memory = self._value(action, parameters)
        with self.objects.switch.locked():
            _check(self.objects.lib.ss_member_insert(self.raw, number, value), f"profile '{self.name}'")

    def modify_member(self, number: int, action: str, parameters: Sequence[int] = ()) -> None:
        """Change what a member runs."""
        value, _memory = self._value(action, parameters)
        with self.objects.switch.locked():
            _check(self.objects.lib.ss_member_modify(self.raw, number, value), f"profile '{self.name}'")

    def remove_member(self, number: int) -> None:
        """Remove a member that nothing refers to."""
        with self.objects.switch.locked():
            _check(self.objects.lib.ss_member_remove(self.raw, number), f"profile '{self.name}'")

    def _members(self, members: Sequence[MemberOfGroup]) -> Any:
        listed = [
            {"member": m.member, "weight": m.weight, "has_watch": m.watch is not None, "watch_port": m.watch or 0}
            for m in members
        ]
        return self.objects.ffi.new("struct ss_member_ref[]", listed or 1)

    def insert_group(self, number: int, members: Sequence[MemberOfGroup], max_size: int = 0) -> None:
        """Insert a group."""
        listed = self._members(members)
        with self.objects.switch.locked():
            status = self.objects.lib.ss_group_insert(self.raw, number, max_size, listed, len(members))
        _check(status, f"profile '{self.name}'")

    def modify_group(self, number: int, members: Sequence[MemberOfGroup]) -> None:
        """Replace a group's members."""
        listed = self._members(members)
        with self.objects.switch.locked():
            status = self.objects.lib.ss_group_modify(self.raw, number, listed, len(members))
        _check(status, f"profile '{self.name}'")

    def remove_group(self, number: int) -> None:
        """Remove a group that nothing refers to."""
        with self.objects.switch.locked():
            _check(self.objects.lib.ss_group_remove(self.raw, number), f"profile '{self.name}'")
