# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A BMv2 JSON program as Python objects, with every reference resolved or refused by name and place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

from softswitch.errors import ProgramError

Json = Any

MAJOR_VERSION = 2
KNOWN_SECTIONS = frozenset(
    [
        "program", "__meta__", "header_types", "headers", "header_stacks", "header_union_types", "header_unions",
        "header_union_stacks", "field_lists", "errors", "enums", "parsers", "parse_vsets", "deparsers",
        "meter_arrays", "counter_arrays", "register_arrays", "calculations", "learn_lists", "actions", "pipelines",
        "checksums", "force_arith", "extern_instances", "field_aliases", "config_options",
    ]
)  # fmt: skip
MOST_BYTES = 1 << 30  # of one array of counters, meters or registers
CORE_ERRORS = (
    "NoError", "PacketTooShort", "NoMatch", "StackOutOfBounds", "HeaderTooShort", "ParserTimeout",
    "ParserInvalidArgument",
)  # fmt: skip


def refuse(message: str, place: str = "") -> NoReturn:
    """Raise ProgramError."""
    raise ProgramError(message, place=place)


def member(document: Json, key: str, place: str) -> Json:
    """Return document[key], or say that it is missing."""
    if not isinstance(document, dict) or key not in document:
        refuse(f"lacks '{key}'", place)
    return document[key]


def items(document: Json, key: str) -> Iterator[tuple[Json, str]]:
    """Yield the objects of a section and the place of each."""
    section = document.get(key) or []
    if not isinstance(section, list):
        refuse("is no list", key)
    for index, item in enumerate(section):
        name = item.get("name") if isinstance(item, dict) else None
        yield item, f"{key}/{name if name is not None else index}"


def hexstr(text: Json, place: str) -> int:
    """Read BMv2's hexadecimal numbers: an optional sign, an optional 0x."""
    try:
        return int(text, 16)
    except (TypeError, ValueError):
        refuse(f"no hexadecimal number: {text!r}", place)


@dataclass(frozen=True)
class Field:
    """A field of a header type; `bits` is the greatest width of a varbit."""

    name: str
    bits: int
    signed: bool
    varbit: bool
    index: int

    @property
    def size(self) -> int:
        """Bytes of the field in control-plane form."""
        return (self.bits + 7) // 8


@dataclass(frozen=True)
class HeaderType:
    """A header or metadata type."""

    name: str
    fields: tuple[Field, ...]
    length_expression: Json

    def field(self, name: str, place: str) -> Field:
        """Return the field of that name."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        refuse(f"header type '{self.name}' has no field '{name}'", place)

    @property
    def varbit(self) -> Field | None:
        """The variable-length field, if there is one."""
        return next((f for f in self.fields if f.varbit), None)

    @property
    def fixed_bits(self) -> int:
        """Width without the variable-length field."""
        return sum(f.bits for f in self.fields if not f.varbit)

    @property
    def max_bytes(self) -> int:
        """Width with the variable-length field at its longest."""
        return sum(f.bits for f in self.fields) // 8


@dataclass(frozen=True)
class Header:
    """A header or metadata instance."""

    name: str
    id: int
    type: HeaderType
    metadata: bool


@dataclass(frozen=True)
class Stack:
    """A header stack."""

    name: str
    type: HeaderType
    elements: tuple[Header, ...]


@dataclass(frozen=True)
class UnionType:
    """A header union type: member names and types."""

    name: str
    members: tuple[tuple[str, HeaderType], ...]


@dataclass(frozen=True)
class Union:
    """A header union instance."""

    name: str
    type: UnionType
    members: tuple[Header, ...]


@dataclass(frozen=True)
class UnionStack:
    """A stack of header unions."""

    name: str
    type: UnionType
    elements: tuple[Union, ...]


@dataclass(frozen=True)
class Parameter:
    """A parameter of an action."""

    name: str
    bits: int


@dataclass(frozen=True)
class Action:
    """An action; `index` is its place in ss_objects.actions."""

    name: str
    id: int
    index: int
    parameters: tuple[Parameter, ...]
    primitives: list[Json]
    place: str


@dataclass(frozen=True)
class Calculation:
    """A named hash or checksum."""

    name: str
    algorithm: str
    inputs: list[Json]
    place: str


@dataclass(frozen=True)
class Array:
    """A counter, meter or register array."""

    name: str
    index: int
    size: int
    direct: bool = False
    binding: str | None = None
    bits: int = 0
    in_bytes: bool = False
    result: tuple[str, str] | None = None


@dataclass(frozen=True)
class FieldList:
    """Fields preserved over resubmission, or sent in a digest."""

    name: str
    id: int
    elements: list[Json]
    place: str


@dataclass(frozen=True)
class ValueSet:
    """A parser value set."""

    name: str
    index: int
    bits: int


@dataclass(frozen=True)
class Profile:
    """An action profile, with a selector's hash if it has one."""

    name: str
    index: int
    size: int
    selector: Calculation | None


@dataclass(frozen=True)
class Key:
    """An element of a table's key; `header_valid` for the match type `valid`."""

    name: str
    kind: str
    target: tuple[str, str]
    mask: int | None
    place: str


@dataclass(frozen=True)
class Table:
    """A table and where control goes after it."""

    name: str
    index: int
    keys: tuple[Key, ...]
    actions: tuple[Action, ...]
    size: int
    profile: Profile | None
    with_counters: bool
    supports_timeout: bool
    direct_meter: Array | None
    default: tuple[Action, list[int]] | None
    default_action_const: bool
    default_entry_const: bool
    entries: list[Json] | None
    next_by_action: dict[str, str | None]
    next_hit: str | None
    next_miss: str | None
    next_default: str | None
    by_hit: bool
    place: str


@dataclass(frozen=True)
class Conditional:
    """An `if` of a control."""

    name: str
    expression: Json
    next_true: str | None
    next_false: str | None
    place: str


@dataclass(frozen=True)
class ActionCall:
    """A call of an action without a table."""

    name: str
    action: Action
    next: str | None
    place: str


@dataclass(frozen=True)
class Pipeline:
    """A control: its first node, and all its nodes by name."""

    name: str
    first: str | None
    nodes: dict[str, Table | Conditional | ActionCall]


@dataclass
class Program:
    """Everything in the file, which is `document`."""

    document: dict[str, Json] = field(default_factory=dict)
    header_types: dict[str, HeaderType] = field(default_factory=dict)
    headers: dict[str, Header] = field(default_factory=dict)
    stacks: dict[str, Stack] = field(default_factory=dict)
    union_types: dict[str, UnionType] = field(default_factory=dict)
    unions: dict[str, Union] = field(default_factory=dict)
    union_stacks: dict[str, UnionStack] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    actions_by_id: dict[int, Action] = field(default_factory=dict)
    calculations: dict[str, Calculation] = field(default_factory=dict)
    counters: dict[str, Array] = field(default_factory=dict)
    meters: dict[str, Array] = field(default_factory=dict)
    registers: dict[str, Array] = field(default_factory=dict)
    field_lists: dict[int, FieldList] = field(default_factory=dict)
    learn_lists: dict[int, FieldList] = field(default_factory=dict)
    value_sets: dict[str, ValueSet] = field(default_factory=dict)
    profiles: dict[str, Profile] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    aliases: dict[str, tuple[str, str]] = field(default_factory=dict)
    parser: Json = None
    deparser: Json = None
    checksums: list[tuple[Json, str]] = field(default_factory=list)

    def header(self, name: str, place: str) -> Header:
        """Return the header or metadata instance of that name."""
        if name not in self.headers:
            refuse(f"no header '{name}'", place)
        return self.headers[name]

    def action_named(self, name: str, place: str) -> Action:
        """Return the action of that name."""
        for action in self.actions:
            if action.name == name:
                return action
        refuse(f"no action '{name}'", place)

    def action_with_id(self, number: Json, place: str) -> Action:
        """Return the action of that id."""
        if number not in self.actions_by_id:
            refuse(f"no action with id {number!r}", place)
        return self.actions_by_id[number]


def read_program(document: dict[str, Json]) -> Program:
    """Read the whole JSON document."""
    version = (document.get("__meta__") or {}).get("version")
    if isinstance(version, list) and version and version[0] != MAJOR_VERSION:
        refuse(f"BMv2 JSON version {'.'.join(map(str, version))}: only version {MAJOR_VERSION} is known", "__meta__")
    unknown = sorted(set(document) - KNOWN_SECTIONS)
    if unknown:
        refuse(f"unknown section '{unknown[0]}'")
    for needed in ("header_types", "headers", "parsers", "deparsers", "pipelines"):
        member(document, needed, "")
    program = Program(document)
    _read_headers(program, document)
    _read_stateful(program, document)
    _read_actions(program, document)
    _read_parsing(program, document)
    _read_pipelines(program, document)
    return program


def _read_headers(program: Program, document: Json) -> None:
    for item, place in items(document, "header_types"):
        program.header_types[member(item, "name", place)] = _header_type(item, place)
    by_id: dict[int, Header] = {}
    for item, place in items(document, "headers"):
        name, type_name = member(item, "name", place), member(item, "header_type", place)
        if type_name not in program.header_types:
            refuse(f"no header type '{type_name}'", place)
        header = Header(name, member(item, "id", place), program.header_types[type_name], bool(item.get("metadata")))
        program.headers[name] = by_id[header.id] = header

    def by_number(numbers: Json, place: str) -> tuple[Header, ...]:
        for number in numbers:
            if number not in by_id:
                refuse(f"no header with id {number}", place)
        return tuple(by_id[number] for number in numbers)

    for item, place in items(document, "header_stacks"):
        elements = by_number(member(item, "header_ids", place), place)
        type_ = program.header_types.get(member(item, "header_type", place))
        if type_ is None:
            refuse(f"no header type '{item['header_type']}'", place)
        program.stacks[item["name"]] = Stack(item["name"], type_, elements)
    for item, place in items(document, "header_union_types"):
        members = []
        for name, type_name in member(item, "headers", place):
            if type_name not in program.header_types:
                refuse(f"no header type '{type_name}'", place)
            members.append((name, program.header_types[type_name]))
        program.union_types[item["name"]] = UnionType(item["name"], tuple(members))
    unions_by_id: dict[int, Union] = {}
    for item, place in items(document, "header_unions"):
        union_type = program.union_types.get(member(item, "union_type", place))
        if union_type is None:
            refuse(f"no union type '{item['union_type']}'", place)
        union = Union(item["name"], union_type, by_number(member(item, "header_ids", place), place))
        program.unions[union.name] = unions_by_id[member(item, "id", place)] = union
    for item, place in items(document, "header_union_stacks"):
        union_type = program.union_types.get(member(item, "union_type", place))
        numbers = member(item, "header_union_ids", place)
        if union_type is None or any(number not in unions_by_id for number in numbers):
            refuse("refers to an unknown union", place)
        program.union_stacks[item["name"]] = UnionStack(
            item["name"], union_type, tuple(unions_by_id[number] for number in numbers)
        )
    for item, place in items(document, "field_aliases"):
        if not (isinstance(item, list) and len(item) == 2 and len(item[1]) == 2):
            refuse("is no pair of a name and a field", place)
        program.aliases[item[0]] = (item[1][0], item[1][1])
    for item, place in items(document, "errors"):
        if not (isinstance(item, list) and len(item) == 2):
            refuse("is no pair of a name and a number", place)
        program.errors[item[0]] = item[1]
    following = max(program.errors.values(), default=-1) + 1
    for name in CORE_ERRORS:
        if name not in program.errors:
            program.errors[name] = following
            following += 1


def _header_type(item: Json, place: str) -> HeaderType:
    fields: list[Field] = []
    max_bytes = item.get("max_length") or 0
    fixed = sum(entry[1] for entry in member(item, "fields", place) if isinstance(entry[1], int))
    for index, entry in enumerate(item["fields"]):
        varbit = entry[1] == "*"
        bits = max_bytes * 8 - fixed if varbit else entry[1]
        if not isinstance(bits, int) or bits < 0 or (bits == 0 and not varbit):
            refuse(f"field '{entry[0]}' has no width", place)
        if len(entry) > 3 and entry[3]:
            refuse(f"field '{entry[0]}' is saturating, which p4c never writes", place)
        fields.append(Field(entry[0], bits, len(entry) > 2 and bool(entry[2]), varbit, index))
    if sum(f.varbit for f in fields) > 1:
        refuse("has more than one variable-length field", place)
    return HeaderType(item["name"], tuple(fields), item.get("length_exp"))


def _size(item: Json, place: str, cell_bytes: int) -> int:
    """Read how many cells an array has: memory for all of them is taken when the program is loaded."""
    size, most = int(member(item, "size", place)), MOST_BYTES // cell_bytes
    if not 0 <= size <= most:
        refuse(f"has {size} cells: there is room for 0 to {most}", place)
    return size


def _read_stateful(program: Program, document: Json) -> None:
    for item, place in items(document, "counter_arrays"):
        direct = bool(item.get("is_direct"))
        size = 0 if direct else _size(item, place, 16)
        array = Array(item["name"], len(program.counters), size, direct, item.get("binding"))
        program.counters[array.name] = array
    for item, place in items(document, "meter_arrays"):
        if item.get("rate_count", 2) != 2:
            refuse(f"{item['rate_count']} rates: only meters of two rates are known", place)
        kind = member(item, "type", place)
        if kind not in ("bytes", "packets"):
            refuse(f"meters {kind!r}, neither bytes nor packets", place)
        target = item.get("result_target")
        result = (target[0], target[1]) if target else None
        direct = bool(item.get("is_direct"))
        array = Array(
            item["name"], len(program.meters), _size(item, place, 64), direct, item.get("binding"),
            in_bytes=kind == "bytes", result=result,
        )  # fmt: skip
        program.meters[array.name] = array
    for item, place in items(document, "register_arrays"):
        bits = int(member(item, "bitwidth", place))
        if bits < 1:
            refuse(f"has cells of {bits} bits", place)
        array = Array(item["name"], len(program.registers), _size(item, place, (bits + 63) // 64 * 8), bits=bits)
        program.registers[array.name] = array
    for item, place in items(document, "calculations"):
        program.calculations[item["name"]] = Calculation(
            item["name"], member(item, "algo", place), member(item, "input", place), place
        )
    for key, lists in (("field_lists", program.field_lists), ("learn_lists", program.learn_lists)):
        for item, place in items(document, key):
            number = member(item, "id", place)
            lists[number] = FieldList(item.get("name", str(number)), number, member(item, "elements", place), place)
    for item, place in items(document, "parse_vsets"):
        value_set = ValueSet(item["name"], len(program.value_sets), member(item, "compressed_bitwidth", place))
        program.value_sets[value_set.name] = value_set
    for item, place in items(document, "extern_instances"):
        refuse(f"extern type '{item.get('type')}' is unknown", place)


def _read_actions(program: Program, document: Json) -> None:
    for item, place in items(document, "actions"):
        parameters = tuple(Parameter(p["name"], int(p["bitwidth"])) for p in item.get("runtime_data", []))
        action = Action(
            member(item, "name", place), member(item, "id", place), len(program.actions), parameters,
            item.get("primitives", []), place,
        )  # fmt: skip
        program.actions.append(action)
        program.actions_by_id[action.id] = action


def _read_parsing(program: Program, document: Json) -> None:
    parsers = {item.get("name"): item for item, _ in items(document, "parsers")}
    deparsers = {item.get("name"): item for item, _ in items(document, "deparsers")}
    for kind, found in (("parser", parsers), ("deparser", deparsers)):
        if kind not in found:
            refuse(f"no {kind} of the name '{kind}'", f"{kind}s")
    program.parser = parsers["parser"]
    program.deparser = deparsers["deparser"]
    program.checksums = list(items(document, "checksums"))


def _read_pipelines(program: Program, document: Json) -> None:
    for item, place in items(document, "pipelines"):
        for entry, where in items(item, "action_profiles"):
            name = member(entry, "name", where)
            selector = None
            if entry.get("selector") is not None:
                rule = entry["selector"]
                selector = Calculation(name, member(rule, "algo", where), member(rule, "input", where), where)
            program.profiles.setdefault(
                name, Profile(name, len(program.profiles), int(member(entry, "max_size", where)), selector)
            )
        nodes: dict[str, Table | Conditional | ActionCall] = {}
        for entry, where in items(item, "tables"):
            table = _table(program, entry, f"{place}/{where}")
            program.tables.append(table)
            nodes[table.name] = table
        for entry, where in items(item, "conditionals"):
            nodes[entry["name"]] = Conditional(
                entry["name"], member(entry, "expression", where), entry.get("true_next"), entry.get("false_next"),
                f"{place}/{where}",
            )  # fmt: skip
        for entry, where in items(item, "action_calls"):
            action = program.action_with_id(member(entry, "action_id", where), where)
            nodes[entry["name"]] = ActionCall(entry["name"], action, entry.get("next_node"), f"{place}/{where}")
        pipeline = Pipeline(member(item, "name", place), item.get("init_table"), nodes)
        _check_nodes(pipeline, place)
        program.pipelines[pipeline.name] = pipeline
    for needed in ("ingress", "egress"):
        if needed not in program.pipelines:
            refuse(f"no pipeline '{needed}'", "pipelines")


def _check_nodes(pipeline: Pipeline, place: str) -> None:
    def known(name: str | None, where: str) -> None:
        if name is not None and name not in pipeline.nodes:
            refuse(f"no table or conditional '{name}'", where)

    known(pipeline.first, place)
    for node in pipeline.nodes.values():
        match node:
            case Table():
                for following in (node.next_hit, node.next_miss, node.next_default, *node.next_by_action.values()):
                    known(following, node.place)
            case Conditional():
                known(node.next_true, node.place)
                known(node.next_false, node.place)
            case ActionCall():
                known(node.next, node.place)


def _table(program: Program, item: Json, place: str) -> Table:
    name = member(item, "name", place)
    if "action_ids" in item:
        actions = tuple(program.action_with_id(number, place) for number in item["action_ids"])
    else:
        actions = tuple(program.action_named(action, place) for action in member(item, "actions", place))
    twice = next((action.name for action in actions if actions.count(action) > 1), None)
    if twice is not None:
        refuse(f"lists action '{twice}' twice", place)
    kind = item.get("type", "simple")
    if kind not in ("simple", "indirect", "indirect_ws"):
        refuse(f"table type '{kind}' is unknown", place)
    profile = None
    if kind != "simple":
        profile_name = item.get("action_profile") or item.get("act_prof_name")
        if profile_name not in program.profiles:
            refuse(f"no action profile '{profile_name}'", place)
        profile = program.profiles[profile_name]
    meter_name = item.get("direct_meters")
    if meter_name is not None and meter_name not in program.meters:
        refuse(f"no meter '{meter_name}'", place)
    default = None
    entry = item.get("default_entry")
    if entry is not None:
        action = program.action_with_id(member(entry, "action_id", place), place)
        data = [hexstr(value, place) for value in member(entry, "action_data", place)]
        if len(data) != len(action.parameters):
            refuse(f"the default action '{action.name}' takes {len(action.parameters)} parameters", place)
        default = (action, data)
        if action not in actions:
            actions = (*actions, action)
    following = member(item, "next_tables", place)
    by_hit = "__HIT__" in following or "__MISS__" in following
    return Table(
        name=name,
        index=len(program.tables),
        keys=tuple(_key(key, f"{place}/key[{number}]") for number, key in enumerate(item.get("key") or [])),
        actions=actions,
        size=len(item["entries"]) if item.get("entries") is not None else int(member(item, "max_size", place)),
        profile=profile,
        with_counters=bool(item.get("with_counters")),
        supports_timeout=bool(item.get("support_timeout")),
        direct_meter=program.meters[meter_name] if meter_name is not None else None,
        default=default,
        default_action_const=bool(entry and entry.get("action_const")),
        default_entry_const=bool(entry and entry.get("action_entry_const")),
        entries=item.get("entries"),
        next_by_action={} if by_hit else dict(following),
        next_hit=following.get("__HIT__"),
        next_miss=following.get("__MISS__"),
        next_default=item.get("base_default_next"),
        by_hit=by_hit,
        place=place,
    )


def _key(item: Json, place: str) -> Key:
    kind = member(item, "match_type", place)
    if kind not in ("exact", "lpm", "ternary", "range", "optional", "valid"):
        refuse(f"match type '{kind}' is unknown", place)
    target = member(item, "target", place)
    if kind == "valid":
        header = target if isinstance(target, str) else target[0]
        target, kind = (header, "$valid$"), "exact"
    if not (isinstance(target, list | tuple) and len(target) == 2):
        refuse("its target is no field", place)
    mask = item.get("mask")
    return Key(
        item.get("name") or ".".join(target), kind, (target[0], target[1]),
        None if mask is None else hexstr(mask, place), place,
    )  # fmt: skip
