# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Bind a P4Info to the objects of a loaded program: identifiers and widths to places in the switch.

P4Info and BMv2 JSON come from one compiler run and share full names; what does not fit is refused here, once, so that
no later request meets a half-bound pipeline.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from p4.config.v1 import p4info_pb2

from softswitch.p4runtime.data import Shape, shape_of
from softswitch.p4runtime.native import ffi
from softswitch.p4runtime.status import Code, StatusError

EXACT, LPM, TERNARY, RANGE, OPTIONAL = range(5)  # enum ss_match_kind
_KINDS = {
    p4info_pb2.MatchField.EXACT: EXACT,
    p4info_pb2.MatchField.LPM: LPM,
    p4info_pb2.MatchField.TERNARY: TERNARY,
    p4info_pb2.MatchField.RANGE: RANGE,
    p4info_pb2.MatchField.OPTIONAL: OPTIONAL,
}
_DEFAULT_ONLY = p4info_pb2.ActionRef.DEFAULT_ONLY


@dataclass(frozen=True)
class Digest:
    """A digest's P4Info id, the program's learn list, and the shape of its data."""

    id: int
    list: int
    bytes: int
    shape: Shape


@dataclass(frozen=True)
class HeaderField:
    """One metadata field of packet-in or packet-out."""

    id: int
    name: str
    bits: int


@dataclass(frozen=True)
class Binding:
    """A bound P4Info: the C schema (with what it points to), and what Python itself needs."""

    schema: Any
    digests: dict[int, Digest]
    packet_in: tuple[HeaderField, ...]
    packet_out: tuple[HeaderField, ...]
    keep: tuple[Any, ...]


def bind(p4info: p4info_pb2.P4Info, objects: Any, lib: Any) -> Binding:
    """Match a P4Info with a program's `struct ss_objects`; raises StatusError (INVALID_ARGUMENT or UNIMPLEMENTED)."""
    return _Binder(p4info, objects, lib).bind()


def _refuse(message: str, code: Code = Code.INVALID_ARGUMENT) -> StatusError:
    return StatusError(code, f"P4Info: {message}")


def _text(pointer: Any) -> str:
    return bytes(ffi().string(pointer)).decode()


class _Names:
    """Objects of one kind by name; a name that only one object ends in is found by its end."""

    def __init__(self, kind: str, names: Iterable[str]) -> None:
        self.kind = kind
        self.places = {name: place for place, name in enumerate(names)}

    def find(self, name: str) -> int | None:
        if name in self.places:
            return self.places[name]
        ends = [
            place for known, place in self.places.items() if known.endswith("." + name) or name.endswith("." + known)
        ]
        return ends[0] if len(ends) == 1 else None

    def need(self, name: str) -> int:
        place = self.find(name)
        if place is None:
            raise _refuse(f"{self.kind} {name} is not in the program")
        return place


class _Binder:
    def __init__(self, p4info: p4info_pb2.P4Info, objects: Any, lib: Any) -> None:
        self.p4info = p4info
        self.objects = objects
        self.lib = lib
        self.ffi = ffi()
        self.keep: list[Any] = []
        self.ids: set[int] = set()
        # P4Info's actions that the program has, sorted by id; an action may stand for several of the program's.
        self.object_actions = [objects.actions[place] for place in range(objects.action_count)]
        self.object_names = [_text(action.name) for action in self.object_actions]
        known = set(self.object_names)
        self.actions = sorted(
            (action for action in p4info.actions if action.preamble.name in known), key=lambda each: each.preamble.id
        )
        self.action_place = {action.preamble.id: place for place, action in enumerate(self.actions)}
        self.tables = sorted(p4info.tables, key=lambda each: each.preamble.id)
        self.profiles = sorted(p4info.action_profiles, key=lambda each: each.preamble.id)
        tables = [lib.ss_table_info(objects.tables[place]) for place in range(objects.table_count)]
        self.table_names = _Names("table", (_text(table.name) for table in tables))

    def bind(self) -> Binding:
        schema = self.ffi.new("struct p4rt_schema *")
        self._set(schema, "action", "actions", "struct p4rt_action", [self._action(each) for each in self.actions])
        by_name = {action.preamble.name: place for place, action in enumerate(self.actions)}
        places = [by_name.get(name, -1) for name in self.object_names]
        schema.object_action_count = len(places)
        schema.action_of = self._array("int32_t", places)
        self._set(schema, "table", "tables", "struct p4rt_table", [self._table(each) for each in self.tables])
        self._set(schema, "profile", "profiles", "struct p4rt_profile", [self._profile(each) for each in self.profiles])
        self._set(schema, "counter", "counters", "struct p4rt_array", self._counters())
        self._set(schema, "meter", "meters", "struct p4rt_array", self._meters())
        self._set(schema, "register", "registers", "struct p4rt_register", self._registers())
        self._set(schema, "value_set", "value_sets", "struct p4rt_value_set", self._value_sets())
        headers = {header.preamble.name: self._header(header) for header in self.p4info.controller_packet_metadata}
        return Binding(
            schema=schema,
            digests=self._digests(),
            packet_in=headers.get("packet_in", ()),
            packet_out=headers.get("packet_out", ()),
            keep=tuple(self.keep),
        )

    # C arrays, kept alive by the binding.

    def _array(self, ctype: str, values: Sequence[Any]) -> Any:
        array = self.ffi.new(f"{ctype}[]", list(values) or 1)
        self.keep.append(array)
        return array

    def _set(self, schema: Any, count: str, field: str, ctype: str, values: Sequence[dict[str, Any]]) -> None:
        setattr(schema, f"{count}_count", len(values))
        setattr(schema, field, self._array(ctype, values))

    def _id(self, preamble: Any) -> int:
        if not preamble.id or preamble.id in self.ids:
            raise _refuse(f"{preamble.name} has no id of its own")
        self.ids.add(preamble.id)
        return int(preamble.id)

    # Actions.

    def _action(self, action: Any) -> dict[str, Any]:
        info = self.object_actions[self.object_names.index(action.preamble.name)]
        if info.parameter_count != len(action.params):
            raise _refuse(
                f"action {action.preamble.name} has {len(action.params)} parameters, "
                f"in the program {info.parameter_count}"
            )
        parameters, offset = [], 0
        for place, parameter in enumerate(action.params):
            width = int(info.parameter_bits[place])
            size = (width + 7) // 8
            parameters.append(
                {
                    "id": parameter.id,
                    "bits": self._bits(parameter, width, f"parameter {parameter.name} of {action.preamble.name}"),
                    "bytes": size,
                    "offset": offset,
                }
            )
            offset += size
        return {
            "id": self._id(action.preamble),
            "parameter_count": len(parameters),
            "parameter_bytes": offset,
            "parameters": self._array("struct p4rt_parameter", parameters),
        }

    def _bits(self, field: Any, width: int, what: str) -> int:
        if field.bitwidth <= 0:
            raise _refuse(f"{what} is translated to a string", Code.UNIMPLEMENTED)
        if field.bitwidth > width and not field.HasField("type_name"):
            raise _refuse(f"{what} has {field.bitwidth} bits, in the program {width}")
        return min(int(field.bitwidth), width)

    def _action_refs(self, table: Any, info: Any, entries_only: bool) -> list[dict[str, int]]:
        own = {self.object_names[info.actions[place]]: int(info.actions[place]) for place in range(info.action_count)}
        refs = []
        for ref in table.action_refs:
            if ref.id not in self.action_place:
                raise _refuse(f"table {table.preamble.name} names action {ref.id}, which is not in the program")
            place = self.action_place[ref.id]
            name = self.actions[place].preamble.name
            if name not in own:
                raise _refuse(f"action {name} is not one of table {table.preamble.name}'s in the program")
            if not (entries_only and ref.scope == _DEFAULT_ONLY):
                refs.append({"action": place, "index": own[name], "scope": int(ref.scope)})
        return refs

    # Tables and action profiles.

    def _fields(self, name: str, matches: Sequence[Any], fields: Any, count: int) -> list[dict[str, int]]:
        if len(matches) != count:
            raise _refuse(f"{name} has {len(matches)} match fields, in the program {count}")
        names = [_text(fields[place].name) for place in range(count)]
        listed = []
        for position, match in enumerate(matches):
            place = names.index(match.name) if names.count(match.name) == 1 else position
            info = fields[place]
            if match.match_type not in _KINDS:
                raise _refuse(f"match field {match.name} of {name} has an unknown type", Code.UNIMPLEMENTED)
            bits = self._bits(match, int(info.bits), f"match field {match.name} of {name}")
            listed.append(
                {
                    "id": match.id,
                    "kind": _KINDS[match.match_type],
                    "bits": bits,
                    "bytes": int(info.bytes),
                    "offset": int(info.offset),
                }
            )
        return listed

    def _table(self, table: Any) -> dict[str, Any]:
        name = table.preamble.name
        index = self.table_names.need(name)
        info = self.lib.ss_table_info(self.objects.tables[index])
        fields = self._fields(f"table {name}", table.match_fields, info.fields, info.field_count)
        refs = self._action_refs(table, info, entries_only=False)
        profiles = [place for place, each in enumerate(self.profiles) if each.preamble.id == table.implementation_id]
        if bool(table.implementation_id) != bool(profiles) or bool(profiles) != (info.profile >= 0):
            raise _refuse(f"table {name} and its action profile do not fit the program")
        direct = set(table.direct_resource_ids)
        meters = [meter for meter in self.p4info.direct_meters if meter.preamble.id in direct]
        return {
            "id": self._id(table.preamble),
            "index": index,
            "key_bytes": int(info.key_bytes),
            "field_count": len(fields),
            "fields": self._array("struct p4rt_field", fields),
            "action_count": len(refs),
            "actions": self._array("struct p4rt_action_ref", refs),
            "profile": profiles[0] if profiles else -1,
            "direct_meter": int(info.direct_meter) if meters else -1,
            "meter_type": meters[0].spec.type if meters and hasattr(meters[0].spec, "type") else 0,
            "needs_priority": any(field["kind"] in (TERNARY, RANGE, OPTIONAL) for field in fields),
            "is_const": bool(table.is_const_table),
            "const_default": bool(table.const_default_action_id),
            "has_counter": bool(info.has_direct_counter)
            and any(counter.preamble.id in direct for counter in self.p4info.direct_counters),
            "supports_timeout": table.idle_timeout_behavior == p4info_pb2.Table.NOTIFY_CONTROL
            and bool(info.supports_timeout),
        }

    def _profile(self, profile: Any) -> dict[str, Any]:
        names = _Names(
            "action profile",
            (
                _text(self.lib.ss_profile_info(self.objects.profiles[place]).name)
                for place in range(self.objects.profile_count)
            ),
        )
        users = [table for table in self.tables if table.implementation_id == profile.preamble.id]
        if not users:
            raise _refuse(f"no table uses action profile {profile.preamble.name}")
        info = self.lib.ss_table_info(self.objects.tables[self.table_names.need(users[0].preamble.name)])
        refs = self._action_refs(users[0], info, entries_only=True)
        by_members = (
            profile.WhichOneof("selector_size_semantics") == "sum_of_members"
            if "selector_size_semantics" in profile.DESCRIPTOR.oneofs_by_name
            else False
        )
        return {
            "id": self._id(profile.preamble),
            "index": names.need(profile.preamble.name),
            "action_count": len(refs),
            "actions": self._array("struct p4rt_action_ref", refs),
            "max_group_size": max(0, profile.max_group_size),
            "max_member_weight": profile.sum_of_members.max_member_weight if by_members else 0,
            "has_selector": bool(profile.with_selector),
            "sum_of_members": by_members,
            "weights_disallowed": bool(getattr(profile, "weights_disallowed", False)),
        }

    # Arrays and value sets.

    def _counters(self) -> list[dict[str, int]]:
        objects = self.objects
        names = _Names("counter", (_text(objects.counters[place].name) for place in range(objects.counter_count)))
        return self._arrays(self.p4info.counters, names, objects.counters)

    def _meters(self) -> list[dict[str, int]]:
        objects = self.objects
        names = _Names("meter", (_text(objects.meters[place].name) for place in range(objects.meter_count)))
        return self._arrays(self.p4info.meters, names, objects.meters)

    def _arrays(self, items: Any, names: _Names, objects: Any) -> list[dict[str, int]]:
        listed = []
        for item in sorted(items, key=lambda each: each.preamble.id):
            index = names.need(item.preamble.name)
            size = min(int(item.size), int(objects[index].size))
            kind = getattr(item.spec, "type", 0)
            listed.append({"id": self._id(item.preamble), "index": index, "size": size, "type": int(kind)})
        return listed

    def _registers(self) -> list[dict[str, Any]]:
        objects = self.objects
        names = _Names("register", (_text(objects.registers[place].name) for place in range(objects.register_count)))
        listed = []
        for register in sorted(self.p4info.registers, key=lambda each: each.preamble.id):
            index = names.need(register.preamble.name)
            shape = shape_of(register.type_spec, self.p4info.type_info)
            if shape.tag is None or shape.bits != objects.registers[index].bits:
                raise _refuse(f"register {register.preamble.name} does not fit the program", Code.UNIMPLEMENTED)
            listed.append(
                {
                    "id": self._id(register.preamble),
                    "index": index,
                    "size": min(int(register.size), int(objects.registers[index].size)),
                    "bits": shape.bits,
                    "tag": shape.tag,
                    "is_signed": shape.is_signed,
                }
            )
        return listed

    def _value_sets(self) -> list[dict[str, Any]]:
        names = _Names(
            "value set",
            (
                _text(self.lib.ss_value_set_info(self.objects.value_sets[place]).name)
                for place in range(self.objects.value_set_count)
            ),
        )
        listed = []
        for value_set in sorted(self.p4info.value_sets, key=lambda each: each.preamble.id):
            index = names.need(value_set.preamble.name)
            info = self.lib.ss_value_set_info(self.objects.value_sets[index])
            fields = self._fields(
                f"value set {value_set.preamble.name}", value_set.match, info.fields, info.field_count
            )
            listed.append(
                {
                    "id": self._id(value_set.preamble),
                    "index": index,
                    "size": min(int(value_set.size), int(info.size)),
                    "key_bytes": int(info.key_bytes),
                    "field_count": len(fields),
                    "fields": self._array("struct p4rt_field", fields),
                }
            )
        return listed

    # What Python handles itself.

    def _digests(self) -> dict[int, Digest]:
        infos = [self.objects.digests[place] for place in range(self.objects.digest_count)]
        names = _Names("digest", (_text(info.name) for info in infos))
        bound = {}
        for position, digest in enumerate(self.p4info.digests):
            place = names.find(digest.preamble.name)
            if place is None and len(infos) == len(self.p4info.digests):
                place = position
            if place is None:
                raise _refuse(f"digest {digest.preamble.name} is not in the program")
            shape = shape_of(digest.type_spec, self.p4info.type_info)
            if shape.bytes != infos[place].bytes:
                raise _refuse(f"digest {digest.preamble.name} does not fit the program", Code.UNIMPLEMENTED)
            bound[digest.preamble.id] = Digest(self._id(digest.preamble), int(infos[place].list), shape.bytes, shape)
        return bound

    def _header(self, header: Any) -> tuple[HeaderField, ...]:
        fields = tuple(HeaderField(each.id, each.name, int(each.bitwidth)) for each in header.metadata)
        if any(field.bits <= 0 for field in fields) or sum(field.bits for field in fields) % 8:
            raise _refuse(f"{header.preamble.name} is not made of whole bytes", Code.UNIMPLEMENTED)
        return fields
