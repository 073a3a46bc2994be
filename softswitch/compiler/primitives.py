# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The primitives of actions (and of parser states and deparsers) as C statements."""

from __future__ import annotations

from collections.abc import Callable

from softswitch.compiler.calculations import Calculations
from softswitch.compiler.expressions import Expressions, Value, convert, kind_of
from softswitch.compiler.model import Array, Json, Parameter, hexstr, member, refuse
from softswitch.compiler.packing import header_bytes
from softswitch.compiler.phv import FieldReference, HeaderReference
from softswitch.compiler.unit import Unit, c_string

# Parameters of each primitive that does not take two.
PARAMETER_COUNTS = {
    "exit": 0, "no_op": 0, "drop": 0, "assert": 1, "assume": 1, "mark_to_drop": 1, "add_header": 1,
    "add_header_fast": 1, "remove_header": 1, "resubmit": 1, "recirculate": 1, "truncate": 1, "add": 3,
    "subtract": 3, "bit_xor": 3, "bit_or": 3, "bit_and": 3, "shift_left": 3, "shift_right": 3,
    "modify_field_rng_uniform": 3, "modify_field_with_hash_based_offset": 4, "execute_meter": 3,
    "register_read": 3, "register_write": 3,
}  # fmt: skip
DROP = ["p->std.egress_spec = ss_drop_port(s->head.services);", "p->std.mcast_grp = 0;"]


class ActionScope:
    """What an action's expressions may refer to: its parameters and registers."""

    def __init__(self, unit: Unit, parameters: tuple[Parameter, ...]) -> None:
        self.unit = unit
        self.parameters = parameters

    def local(self, number: int, place: str) -> Value:
        """Read a parameter from the action data."""
        if not isinstance(number, int) or number >= len(self.parameters):
            refuse(f"the action has no parameter {number}", place)
        bits = self.parameters[number].bits
        high = (1 << bits) - 1
        kind = kind_of(0, high)
        code = f"ss_wide_load(d->p{number}, {bits}, 0)" if bits > 128 else f"d->p{number}"
        return Value(f"(uint64_t){code}" if kind == "u64" else code, 0, high, kind)

    def register(self, name: str, index: Json, place: str) -> Value:
        """Read a register cell; one that does not exist reads as zero."""
        array = self.unit.program.registers.get(name)
        if array is None:
            refuse(f"no register '{name}'", place)
        cell = Expressions(self.unit.layout, self).exact(index, place)
        if array.bits > 64:
            refuse(f"register '{name}' of {array.bits} bits stands in an expression", place)
        code = f"ss_register_value(s, {array.index}, {convert(cell, 'u64')})"
        return Value(code, 0, (1 << array.bits) - 1, "u64")

    def lookahead(self, offset: int, bits: int, place: str) -> Value:
        """Refuse: the packet is at hand in the parser only."""
        refuse("looks ahead outside the parser", place)


class Primitives:
    """Write the statements of one action."""

    def __init__(self, unit: Unit, calculations: Calculations, expressions: Expressions) -> None:
        self.unit = unit
        self.calculations = calculations
        self.expressions = expressions
        self.layout = unit.layout
        self._writers: dict[str, Callable[[list[Json], Json, str], list[str]]] = {
            "assign": self._assign, "modify_field": self._assign, "set": self._assign,
            "assign_VL": self._assign_varbit,
            "assign_header": self._assign_header, "copy_header": self._assign_header,
            "assign_union": self._assign_union,
            "assign_header_stack": self._assign_stack, "assign_union_stack": self._assign_stack,
            "add_to_field": self._in_place("+"), "subtract_from_field": self._in_place("-"),
            "add": self._three("+"), "subtract": self._three("-"), "bit_xor": self._three("^"),
            "bit_or": self._three("|"), "bit_and": self._three("&"), "shift_left": self._three("<<"),
            "shift_right": self._three(">>"),
            "push": self._push, "pop": self._pop,
            "add_header": self._add_header, "add_header_fast": self._add_header_fast,
            "remove_header": self._remove_header,
            "exit": self._exit, "no_op": self._nothing,
            "assert": self._assert, "assume": self._assert, "log_msg": self._log,
            "drop": self._drop, "mark_to_drop": self._drop,
            "modify_field_rng_uniform": self._random, "modify_field_with_hash_based_offset": self._hash,
            "generate_digest": self._digest,
            "clone_ingress_pkt_to_egress": self._clone, "clone_egress_pkt_to_egress": self._clone,
            "resubmit": self._again("resubmit_list"), "recirculate": self._again("recirculate_list"),
            "truncate": self._truncate,
            "count": self._count, "execute_meter": self._meter,
            "register_read": self._register_read, "register_write": self._register_write,
        }  # fmt: skip

    def statements(self, primitives: list[Json], place: str) -> list[str]:
        """Write a list of primitives; jumps become gotos."""
        targets: set[int] = set()
        for number, primitive in enumerate(primitives):
            if isinstance(primitive, dict) and primitive.get("op") in ("_jump", "_jump_if_zero"):
                targets.add(self._target(primitive, len(primitives), f"{place}/primitives[{number}]"))
        lines: list[str] = []
        for number, primitive in enumerate(primitives):
            where = f"{place}/primitives[{number}]"
            if number in targets:
                lines.append(f"L{number}:;")
            op = member(primitive, "op", where)
            if op == "_jump":
                lines.append(f"goto L{self._target(primitive, len(primitives), where)};")
            elif op == "_jump_if_zero":
                condition = self.expressions.condition(primitive["parameters"][0], where)
                lines.append(f"if (!{condition}) goto L{self._target(primitive, len(primitives), where)};")
            else:
                lines += self.statement(primitive, where)
        if len(primitives) in targets:
            lines.append(f"L{len(primitives)}:;")
        return lines

    @staticmethod
    def _target(primitive: Json, count: int, place: str) -> int:
        parameters = member(primitive, "parameters", place)
        if not parameters or parameters[-1].get("type") != "hexstr":
            refuse("jumps to no constant place", place)
        target = hexstr(parameters[-1]["value"], place)
        if target > count:
            refuse(f"jumps to {target}, beyond the action's end", place)
        return target

    def statement(self, primitive: Json, place: str) -> list[str]:
        """Write one primitive."""
        op = member(primitive, "op", place)
        if op not in self._writers:
            refuse(f"primitive '{op}' is unknown", place)
        parameters = primitive.get("parameters") or []
        expected = PARAMETER_COUNTS.get(op, 2)
        if len(parameters) != expected:
            refuse(f"primitive '{op}' takes {expected} parameters, not {len(parameters)}", place)
        return self._writers[op](parameters, primitive, f"{place} {op}")

    # ---- assignments ----

    def _assign(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        target = self.expressions.lvalue(parameters[0], place)
        if target.varbit:
            return self._assign_varbit(parameters, primitive, place)
        return [self.expressions.assign(target, parameters[1], place)]

    def _assign_varbit(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        target, source = (self.expressions.lvalue(parameter, place) for parameter in parameters)
        if not (target.varbit and source.varbit):
            refuse("copies between a varbit and something else", place)
        limit = min(target.bits, source.bits)
        return [
            f"{target.length} = {source.length} < {limit} ? {source.length} : {limit};",
            f"memmove({target.code}, {source.code}, {target.length} / 8);",
        ]

    def _assign_header(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        target, source = (self.expressions.header(parameter, place) for parameter in parameters)
        if target.type is not source.type:
            refuse("copies between headers of different types", place)
        return self._copy_header(target, source)

    def _copy_header(self, target: HeaderReference, source: HeaderReference) -> list[str]:
        if target.metadata or source.metadata:
            return [f"{target.code} = {source.code};"]
        lines = [f"if ({source.valid}) {{"]
        lines += ["    " + line for line in self.clear_others(target)]
        lines += [f"    {target.code} = {source.code};", "} else {"]
        lines += [f"    memset(&{target.code}, 0, sizeof {target.code});", "}"]
        return lines

    def clear_others(self, header: HeaderReference) -> list[str]:
        """Making one member of a union valid makes the others invalid."""
        if header.union is None:
            return []
        count = self._union_size(header)
        own = int(header.code.rsplit(".m", 1)[1])
        return [
            f"memset(&{header.union}.m{other}, 0, sizeof {header.union}.m{other});"
            for other in range(count)
            if other != own
        ]

    def _union_size(self, header: HeaderReference) -> int:
        if header.header is not None:
            union = self.layout.union_of(header.header)
            return len(union.members) if union else 0
        for stack in self.unit.program.union_stacks.values():
            if header.union and header.union.startswith(self.layout.union_stack(stack.name, "")[0] + ".e["):
                return len(stack.type.members)
        return 0

    def _assign_union(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        (target, members), (source, others) = (self.expressions.union(parameter, place) for parameter in parameters)
        if [m.type for m in members] != [m.type for m in others]:
            refuse("copies between unions of different types", place)
        return [f"{target} = {source};"]

    def _assign_stack(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        target, source = (self._stack(parameter, place) for parameter in parameters)
        if target[1] != source[1]:
            refuse("copies between stacks of different sizes", place)
        return [
            f'_Static_assert(sizeof {target[0]} == sizeof {source[0]}, "stacks of one type");',
            f"memmove(&{target[0]}, &{source[0]}, sizeof {target[0]});",
        ]

    def _stack(self, parameter: Json, place: str) -> tuple[str, int]:
        kind, name = member(parameter, "type", place), member(parameter, "value", place)
        if kind == "header_stack":
            code, stack = self.layout.stack(name, place)
            return code, len(stack.elements)
        if kind == "header_union_stack":
            code, union_stack = self.layout.union_stack(name, place)
            return code, len(union_stack.elements)
        refuse(f"'{kind}' is no stack", place)

    def _in_place(self, op: str) -> Callable[[list[Json], Json, str], list[str]]:
        def write(parameters: list[Json], primitive: Json, place: str) -> list[str]:
            return self._binary(op, parameters[0], parameters[0], parameters[1], place)

        return write

    def _three(self, op: str) -> Callable[[list[Json], Json, str], list[str]]:
        def write(parameters: list[Json], primitive: Json, place: str) -> list[str]:
            return self._binary(op, parameters[0], parameters[1], parameters[2], place)

        return write

    def _binary(self, op: str, target: Json, left: Json, right: Json, place: str) -> list[str]:
        value = {"type": "expression", "value": {"op": op, "left": left, "right": right}}
        return [self.expressions.assign(self.expressions.lvalue(target, place), value, place)]

    # ---- headers ----

    def _push(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        code, size = self._stack(parameters[0], place)
        count = self._constant(parameters[1], place)
        moved = max(size - count, 0)
        return [
            f"memmove({code}.e + {min(count, size)}, {code}.e, {moved} * sizeof *{code}.e);",
            f"memset({code}.e, 0, {min(count, size)} * sizeof *{code}.e);",
            f"{code}.next = {code}.next + {count} < {size} ? {code}.next + {count} : {size};",
        ]

    def _pop(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        code, size = self._stack(parameters[0], place)
        count = self._constant(parameters[1], place)
        moved = max(size - count, 0)
        return [
            f"memmove({code}.e, {code}.e + {min(count, size)}, {moved} * sizeof *{code}.e);",
            f"memset({code}.e + {moved}, 0, {min(count, size)} * sizeof *{code}.e);",
            f"{code}.next = {code}.next > {count} ? {code}.next - {count} : 0;",
        ]

    def _constant(self, node: Json, place: str) -> int:
        value = self.expressions.exact(node, place)
        if value.low != value.high or value.low < 0:
            refuse("needs a constant", place)
        return value.low

    def _add_header(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        header = self.expressions.header(parameters[0], place)
        if header.metadata:
            return []
        lines = [f"if (!{header.valid}) {{"]
        lines += ["    " + line for line in self.clear_others(header)]
        lines.append(f"    memset(&{header.code}, 0, sizeof {header.code});")
        lines.append(f"    {header.valid} = 1;")
        lines.append(f"    h->growth += {header.type.fixed_bits // 8};")
        return [*lines, "}"]

    def _add_header_fast(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        header = self.expressions.header(parameters[0], place)
        return [] if header.metadata else [*self.clear_others(header), f"{header.valid} = 1;"]

    def _remove_header(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        header = self.expressions.header(parameters[0], place)
        if header.metadata:
            return []
        # Its fields keep their values, as on BMv2: programs read them afterwards, p4lang's tutorials among them.
        return [
            f"if ({header.valid}) h->growth -= (int32_t){header_bytes(self.layout, header)};",
            f"{header.valid} = 0;",
        ]

    # ---- control and messages ----

    def _exit(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        return ["h->exited = 1;"]

    def _nothing(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        return []

    def _assert(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        condition = self.expressions.condition(parameters[0], place)
        source = primitive.get("source_info") or {}
        text = f"{primitive['op']} failed: {source.get('source_fragment', place)}"
        if "line" in source:
            text += f" ({source.get('filename')}:{source['line']})"
        return [f"if (!{condition}) {{", f"    ss_say(s->head.services, {c_string(text)});",
                *("    " + line for line in DROP), "    h->exited = 1;", "}"]  # fmt: skip

    def _log(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        text = member(parameters[0], "value", place)
        arguments = parameters[1].get("value") or []
        values = []
        for node in arguments:
            value = self.expressions.exact(node, place)
            values.append(f"{{{convert(value, 'u128')}, {1 if value.low < 0 else 0}}}")
        listed = ", ".join(values) or "{0, 0}"
        return [f"ss_log(s->head.services, {c_string(text)}, {len(values)}, (const struct ss_number[]){{{listed}}});"]

    def _drop(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        return list(DROP)

    def _digest(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        number = self._constant(parameters[1], place)
        if number not in self.unit.program.learn_lists:
            refuse(f"no learn list {number}", place)
        return [f"p->digest_list = {number};"]

    def _clone(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        session = self.expressions.exact(parameters[0], place)
        return [
            f"p->clone_session = (uint32_t){convert(session, 'u64')} & 0x7fff;",
            f"p->clone_list = {self._list(parameters[1], place)};",
        ]

    def _again(self, request: str) -> Callable[[list[Json], Json, str], list[str]]:
        def write(parameters: list[Json], primitive: Json, place: str) -> list[str]:
            return [f"p->{request} = {self._list(parameters[0], place)};"]

        return write

    def _list(self, node: Json, place: str) -> int:
        number = self._constant(node, place)
        if number not in self.unit.program.field_lists and number != 0:
            refuse(f"no field list {number}", place)
        return number

    def _truncate(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        length = self.expressions.exact(parameters[0], place)
        return [f"p->truncate_to = (uint32_t){convert(length, 'u64')};"]

    # ---- externs ----

    def _random(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        low, high = (convert(self.expressions.exact(node, place), "u64") for node in parameters[1:])
        store = self._store_u64(self.expressions.lvalue(parameters[0], place), "value")
        return [
            "{", f"    uint64_t low = {low}, high = {high};", "    if (low <= high) {",
            "        uint64_t value = ss_random_between(s->head.services, low, high);",
            f"        {store}", "    }", "}",
        ]  # fmt: skip

    def _store_u64(self, target: FieldReference, code: str) -> str:
        value = Value(code, 0, (1 << 64) - 1, "u64")
        kind = "u64" if target.bits <= 64 else "u128" if target.bits <= 128 else "wide"
        return self.expressions.store(target, convert(value, kind))

    def _hash(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        name = member(parameters[2], "value", place)
        calculation = self.unit.program.calculations.get(name)
        if calculation is None:
            refuse(f"no calculation '{name}'", place)
        base, size = (self.expressions.exact(parameters[number], place) for number in (1, 3))
        code = self.calculations.call(calculation)
        divisor = convert(size, "u64")
        if size.low != size.high:
            hashed = f"ss_within({code}, {divisor})"
        elif size.low & (1 << 64) - 1 in (0, 1):
            hashed = f"({code} * 0)"
        else:
            hashed = f"({code} % {divisor})"
        target = self.expressions.lvalue(parameters[0], place)
        total = hashed if base.high == 0 else f"{hashed} + {convert(base, 'u64')}"
        return [self._store_u64(target, f"({total})")]

    def _array(self, arrays: dict[str, Array], kind: str, node: Json, place: str) -> Array:
        name = member(node, "value", place)
        if name not in arrays:
            refuse(f"no {kind} '{name}'", place)
        return arrays[name]

    def _count(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        array = self._array(self.unit.program.counters, "counter", parameters[0], place)
        index = convert(self.expressions.exact(parameters[1], place), "u64")
        return [f"ss_count(&s->counters[{array.index}], {array.size}, {index}, p->length);"]

    def _meter(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        array = self._array(self.unit.program.meters, "meter", parameters[0], place)
        index = convert(self.expressions.exact(parameters[1], place), "u64")
        store = self._store_u64(self.expressions.lvalue(parameters[2], place), "colour")
        return [
            "{", f"    uint64_t index = {index};", f"    if (index < {array.size}) {{",
            f"        uint64_t colour = ss_meter_execute(s, &s->meters[{array.index}], index, p->length);",
            f"        {store}", "    }", "}",
        ]  # fmt: skip

    def _register_read(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        array = self._array(self.unit.program.registers, "register", parameters[1], place)
        target = self.expressions.lvalue(parameters[0], place)
        index = convert(self.expressions.exact(parameters[2], place), "u64")
        lines = ["{", f"    uint64_t index = {index};", f"    if (index < {array.size}) {{"]
        if array.bits <= 64:
            code = f"ss_register_get(s, &s->registers[{array.index}], index, {array.bits})"
            lines.append(f"        {self._store_u64(target, code)}")
        elif array.bits <= 128:
            cell = f"((const ss_u128 *)s->registers[{array.index}].cells)[index]"
            code = convert(Value(cell, 0, (1 << 128) - 1, "u128"), "wide" if target.bits > 128 else "u128")
            lines.append(f"        {self.expressions.store(target, code)}")
        else:
            words = (array.bits + 63) // 64
            cell = f"(const uint64_t *)s->registers[{array.index}].cells + index * {words}"
            value = Value(f"ss_wide_load({cell}, {array.bits}, 0)", 0, 0, "wide")
            kind = "u64" if target.bits <= 64 else "u128" if target.bits <= 128 else "wide"
            lines.append(f"        {self.expressions.store(target, convert(value, kind))}")
        return [*lines, "    }", "}"]

    def _register_write(self, parameters: list[Json], primitive: Json, place: str) -> list[str]:
        array = self._array(self.unit.program.registers, "register", parameters[0], place)
        index = convert(self.expressions.exact(parameters[1], place), "u64")
        storage = 8 if array.bits <= 8 else 16 if array.bits <= 16 else 32 if array.bits <= 32 else 64
        if array.bits <= 64:
            cell = FieldReference(
                f"((uint{storage}_t *)s->registers[{array.index}].cells)[index]", array.bits, False, storage
            )
        elif array.bits <= 128:
            cell = FieldReference(f"((ss_u128 *)s->registers[{array.index}].cells)[index]", array.bits, False, 128)
        else:
            words = (array.bits + 63) // 64
            code = f"((uint64_t *)s->registers[{array.index}].cells + index * {words})"
            cell = FieldReference(code, array.bits, False, words * 64)
        return [
            "{", f"    uint64_t index = {index};",
            f"    if (index < {array.size} && !s->registers[{array.index}].live_depth) {{",
            f"        {self.expressions.assign(cell, parameters[2], place)}", "    }", "}",
        ]  # fmt: skip
