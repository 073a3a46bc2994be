# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The parser as one C function with a label for each state."""

from __future__ import annotations

from softswitch.compiler.calculations import Calculations
from softswitch.compiler.expressions import Expressions, Value, constant, convert, kind_of
from softswitch.compiler.model import Json, hexstr, items, member, refuse
from softswitch.compiler.packing import extract_header, extract_used
from softswitch.compiler.phv import HeaderReference, identifier, words
from softswitch.compiler.primitives import ActionScope, Primitives
from softswitch.compiler.unit import Unit, indent

STEP_LIMIT = 1024  # visits of states that a loop can reach again


class ParserScope(ActionScope):
    """Beside registers, expressions in the parser may look ahead; `reach` is how far the latest did, in bits."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(unit, ())
        self.reach = 0

    def lookahead(self, offset: int, bits: int, place: str) -> Value:
        """Read packet bits that are not extracted yet."""
        self.reach = max(self.reach, offset + bits)
        kind = kind_of(0, (1 << bits) - 1)
        if kind == "wide":
            return Value(f"ss_wide_get(d, {offset}, {bits})", 0, (1 << bits) - 1, kind)
        if offset % 8 == 0 and bits in (8, 16, 24, 32, 40, 48, 56, 64, 128):
            code = f"d[{offset // 8}]" if bits == 8 else f"ss_load{bits}(d + {offset // 8})"
            return Value(f"(uint64_t){code}" if kind == "u64" else code, 0, (1 << bits) - 1, kind)
        width = 64 if bits <= 64 else 128
        return Value(f"ss_get_bits{width}(d, {offset}, {bits})", 0, (1 << bits) - 1, kind)


class Parser:
    """Write the parser."""

    def __init__(self, unit: Unit, calculations: Calculations) -> None:
        self.unit = unit
        self.layout = unit.layout
        self.scope = ParserScope(unit)
        self.expressions = Expressions(unit.layout, self.scope)
        self.primitives = Primitives(unit, calculations, self.expressions)
        self.place = "parsers/parser"
        self.states: dict[str, Json] = {}
        for state, place in items(unit.program.parser, "parse_states"):
            self.states[member(state, "name", place)] = state
        self.labels = {name: f"P{number}" for number, name in enumerate(self.states)}
        self.set_keys: dict[str, list[int]] = {}
        self.loops = self._loops()

    def _next(self, name: str) -> list[str]:
        return [t["next_state"] for t in self.states[name].get("transitions", []) if t.get("next_state") is not None]

    def _loops(self) -> set[str]:
        """Find the states that can be reached from themselves."""
        loops = set()
        for name in self.states:
            seen: set[str] = set()
            pending = self._next(name)
            while pending:
                state = pending.pop()
                if state in seen or state not in self.states:
                    continue
                seen.add(state)
                pending += self._next(state)
            if name in seen:
                loops.add(name)
        return loops

    def error(self, name: str) -> int:
        """Return the number of a core error."""
        return self.unit.program.errors[name]

    def fail(self, name: str) -> str:
        """Write the end of parsing with a core error."""
        return f"{{ error = {self.error(name)}; goto done; }}"

    def function(self) -> list[str]:
        """Write `parse_packet`, which leaves the payload's offset and the error in the packet."""
        first = self.unit.program.parser.get("init_state")
        lines = [
            "static void parse_packet(struct ss_state *s, struct ss_packet *p, struct phv *h)", "{",
            "    const uint8_t *d = p->data, *const end = p->data + p->length;",
            f"    uint32_t error = {self.error('NoError')}, steps = 0;",
            "    (void)s; (void)h; (void)end; (void)steps;",
        ]  # fmt: skip
        order: list[str] = []
        pending = [first] if first is not None else []
        while pending:
            name = pending.pop()
            if name in order or name not in self.states:
                continue
            order.append(name)
            pending += reversed(self._next(name))
        lines.append("    " + self.goto(first, self.place))
        for name in order:
            lines.append(f"{self.labels[name]}:; /* {identifier(name)} */")
            if name in self.loops:
                lines.append(f"    if (++steps > {STEP_LIMIT}) {self.fail('ParserTimeout')}")
            lines += indent(self.state(self.states[name], f"{self.place}/{name}"))
        lines += ["done:", "    p->payload = (uint32_t)(d - p->data);", "    p->std.parser_error = error;", "}", ""]
        return lines

    def goto(self, state: str | None, place: str) -> str:
        """Write a transition."""
        if state is None:
            return "goto done;"
        if state not in self.states:
            refuse(f"no state '{state}'", place)
        return f"goto {self.labels[state]};"

    def guarded(self, lines: list[str]) -> list[str]:
        """Put the check that the packet is long enough before statements that looked ahead."""
        if not self.scope.reach:
            return lines
        size = (self.scope.reach + 7) // 8
        self.scope.reach = 0
        return [f"if (end - d < {size}) {self.fail('PacketTooShort')}", *lines]

    # ---- states ----

    def state(self, state: Json, place: str) -> list[str]:
        """Write a state's operations and its select."""
        lines: list[str] = []
        for number, operation in enumerate(state.get("parser_ops") or []):
            where = f"{place}/parser_ops[{number}]"
            body = self.operation(member(operation, "op", where), operation.get("parameters") or [], where)
            lines += self.guarded(body)
        return lines + self.select(state, place)

    def operation(self, op: str, parameters: list[Json], place: str) -> list[str]:
        """Write one operation."""
        match op:
            case "extract" | "extract_VL":
                return self.extract(parameters, place)
            case "set":
                target = self.expressions.lvalue(parameters[0], place)
                if target.varbit:
                    return self.primitives.statement({"op": "assign_VL", "parameters": parameters}, place)
                return [self.expressions.assign(target, parameters[1], place)]
            case "verify":
                condition = self.expressions.condition(parameters[0], place)
                error = parameters[1]
                number = str(error) if isinstance(error, int) else convert(self.expressions.exact(error, place), "u64")
                return [f"if (!{condition}) {{ error = (uint32_t){number}; goto done; }}"]
            case "advance":
                bits = self.expressions.exact(parameters[0], place)
                return self.skip(convert(bits, "u64"))
            case "shift":
                return self.skip(f"{int(parameters[0]) * 8}ull")
            case "primitive":
                primitive = parameters[0]
                if primitive.get("op") in ("_jump", "_jump_if_zero", "exit"):
                    refuse(f"primitive '{primitive['op']}' stands in a parser", place)
                return self.primitives.statement(primitive, place)
        refuse(f"parser operation '{op}' is unknown", place)

    def skip(self, bits: str) -> list[str]:
        """Write an advance."""
        return [
            "{", f"    uint64_t bits = {bits};",
            f"    if (bits % 8) {self.fail('ParserInvalidArgument')}",
            f"    if ((uint64_t)(end - d) < bits / 8) {self.fail('PacketTooShort')}",
            "    d += bits / 8;", "}",
        ]  # fmt: skip

    def extract(self, parameters: list[Json], place: str) -> list[str]:
        """Write an extraction to a header, the next element of a stack, or a member of the next union of a stack."""
        target = parameters[0]
        kind, value = member(target, "type", place), member(target, "value", place)
        length = parameters[1] if len(parameters) > 1 else None
        if kind == "regular":
            return self.extract_to(self.layout.header(value, place), length, place)
        if kind == "stack":
            code, stack = self.layout.stack(value, place)
            size = len(stack.elements)
            header = HeaderReference(f"{code}.e[{code}.next]", stack.type, False)
        elif kind == "union_stack":
            code, union_stack = self.layout.union_stack(value[0], place)
            size = len(union_stack.elements)
            names = [name for name, _ in union_stack.type.members]
            if value[1] not in names:
                refuse(f"union type '{union_stack.type.name}' has no member '{value[1]}'", place)
            position = names.index(value[1])
            element = f"{code}.e[{code}.next]"
            header = HeaderReference(
                f"{element}.m{position}", union_stack.type.members[position][1], False, None, element
            )
        else:
            refuse(f"extracts to '{kind}', which is unknown", place)
        return [
            f"if ({code}.next >= {size}) {self.fail('StackOutOfBounds')}",
            *self.extract_to(header, length, place), f"{code}.next++;",
        ]  # fmt: skip

    def extract_to(self, header: HeaderReference, length: Json, place: str) -> list[str]:
        """Write an extraction to one header."""
        fixed = header.type.fixed_bits
        if fixed % 8:
            refuse(f"header type '{header.type.name}' is no whole number of bytes", place)
        varbit = header.type.varbit
        others = self.primitives.clear_others(header)
        if varbit is None:
            size = fixed // 8
            name = header.header.name if header.header is not None else ""
            if name in self.unit.carried:
                body = [f"{self.layout.at(name)} = (uint32_t)(d - p->data);"]
                body += extract_used(self.layout, header, self.unit.carried[name].used, "d")
            else:
                body = [*others, *extract_header(self.layout, header, "d", None)]
            return [
                f"if (end - d < {size}) {self.fail('PacketTooShort')}", *body, f"{header.valid} = 1;", f"d += {size};",
            ]  # fmt: skip
        if length is None:
            length = header.type.length_expression
            if length is None:
                refuse(f"header type '{header.type.name}' has a varbit of unknown length", place)
            length = self._of_header(length, header)
        bits = self.expressions.exact(length, place)
        negative = "" if bits.low >= 0 else f"    if ({bits.code} < 0) {self.fail('ParserInvalidArgument')}"
        return [
            "{", *([negative] if negative else []), f"    uint64_t bits = {convert(bits, 'u64')};",
            f"    if (bits % 8) {self.fail('ParserInvalidArgument')}",
            f"    if (bits / 8 + {fixed // 8} > (uint64_t)(end - d)) {self.fail('PacketTooShort')}",
            f"    if (bits > {varbit.size * 8}) {self.fail('HeaderTooShort')}",
            *indent(others), *indent(extract_header(self.layout, header, "d", "bits")),
            f"    {header.valid} = 1;", f"    d += {fixed // 8} + bits / 8;", "}",
        ]  # fmt: skip

    def _of_header(self, node: Json, header: HeaderReference) -> Json:
        """Resolve a length expression of a type: its fields are those of the header extracted."""
        if header.header is None:
            refuse("a varbit length of the type stands in a stack", header.code)
        if isinstance(node, dict):
            if node.get("type") == "field" and isinstance(node.get("value"), list):
                return {"type": "field", "value": [header.header.name, node["value"][-1]]}
            return {key: self._of_header(value, header) for key, value in node.items()}
        return node

    # ---- select ----

    def select(self, state: Json, place: str) -> list[str]:
        """Write the transitions of a state."""
        keys = [self.key(item, place) for item in state.get("transition_key") or []]
        default = "goto done;"
        cases: list[tuple[str, Json]] = []
        for number, transition in enumerate(state.get("transitions") or []):
            where = f"{place}/transitions[{number}]"
            jump = self.goto(transition.get("next_state"), where)
            kind = transition.get("type", "hexstr")
            if kind == "default" or transition.get("value") == "default":
                default = jump
            elif kind in ("hexstr", "parse_vset"):
                cases.append((jump, {**transition, "type": kind, "place": where}))
            else:
                refuse(f"transition type '{kind}' is unknown", where)
        if not keys or not cases:
            self.scope.reach = 0
            return [default]
        simple = len(keys) == 1 and keys[0][1].kind == "u64" and all(
            case["type"] == "hexstr" and case.get("mask") is None for _, case in cases
        )  # fmt: skip
        lines = ["{"]
        kinds = {"u64": "uint64_t", "u128": "ss_u128", "wide": "ss_wide"}
        for number, (_, value) in enumerate(keys):
            lines.append(f"    const {kinds[value.kind]} k{number} = {value.code};")
        if simple:
            lines.append("    switch (k0) {")
            seen: set[int] = set()
            for jump, case in cases:
                label = hexstr(case["value"], case["place"])
                if label not in seen:
                    lines.append(f"    case {constant(label, 'u64')}: {jump}")
                seen.add(label)
            lines += [f"    default: {default}", "    }"]
        else:
            for jump, case in cases:
                lines.append(f"    if ({self.test(keys, case)}) {jump}")
            lines.append(f"    {default}")
        return self.guarded([*lines, "}"])

    def key(self, item: Json, place: str) -> tuple[int, Value]:
        """Return the width and the code of one element of a select."""
        kind, value = member(item, "type", place), member(item, "value", place)
        match kind:
            case "field":
                reference = self.layout.field(value, place)
            case "stack_field":
                reference = self.expressions.stack_field(value, place)
            case "union_stack_field":
                code, stack = self.layout.union_stack(value[0], place)
                names = [name for name, _ in stack.type.members]
                if value[1] not in names:
                    refuse(f"union type '{stack.type.name}' has no member '{value[1]}'", place)
                position = names.index(value[1])
                element = f"{code}.e[ss_last({code}.next, {len(stack.elements)})]"
                type_ = stack.type.members[position][1]
                header = HeaderReference(f"{element}.m{position}", type_, False)
                reference = self.layout.member(header, type_.field(value[2], place))
            case "lookahead":
                return value[1], self.scope.lookahead(value[0], value[1], place)
            case _:
                refuse(f"selects on '{kind}', which is unknown", place)
        if reference.varbit:
            refuse("selects on a varbit", place)
        kind = "u64" if reference.bits <= 64 else "u128" if reference.bits <= 128 else "wide"
        high = (1 << reference.bits) - 1
        code = reference.code
        if kind == "wide":
            code = f"ss_wide_load({code}, {reference.bits}, 0)"
        return reference.bits, Value(code, 0, high, kind)

    def test(self, keys: list[tuple[int, Value]], case: Json) -> str:
        """Write "the key matches this case"."""
        place = case["place"]
        if case["type"] == "parse_vset":
            return self.value_set(keys, case)
        value = hexstr(case["value"], place)
        total = sum((bits + 7) // 8 for bits, _ in keys)
        mask = (1 << 8 * total) - 1 if case.get("mask") is None else hexstr(case["mask"], place)
        tests = []
        left = 8 * total
        for number, (bits, key) in enumerate(keys):
            left -= (bits + 7) // 8 * 8
            whole = (1 << (bits + 7) // 8 * 8) - 1
            part_mask = mask >> left & whole
            part = value >> left & part_mask
            full = (1 << bits) - 1
            if part & ~full:
                return "0"
            part_mask &= full
            if part_mask == 0:
                continue
            name = f"k{number}"
            if key.kind == "wide":
                cut = name if part_mask == full else f"ss_wide_and({name}, {constant(part_mask, 'wide')})"
                tests.append(f"ss_wide_compare({cut}, {constant(part, 'wide')}) == 0")
            else:
                cut = name if part_mask == full else f"({name} & {constant(part_mask, key.kind)})"
                tests.append(f"{cut} == {constant(part, key.kind)}")
        return " && ".join(tests) or "1"

    def value_set(self, keys: list[tuple[int, Value]], case: Json) -> str:
        """Write "the value set has the key", and note how the key is packed."""
        place = case["place"]
        value_set = self.unit.program.value_sets.get(case["value"])
        if value_set is None:
            refuse(f"no value set '{case['value']}'", place)
        bits = [width for width, _ in keys]
        if sum(bits) != value_set.bits:
            refuse(f"value set '{value_set.name}' of {value_set.bits} bits meets a key of {sum(bits)}", place)
        self.set_keys.setdefault(value_set.name, bits)
        if case.get("mask") is not None:
            refuse(f"value set '{value_set.name}' is matched under a mask", place)
        parts: list[list[str]] = [[] for _ in range(words(sum(bits)))]
        left = sum(bits)
        for number, (width, key) in enumerate(keys):
            left -= width
            for position in range(words(width)):
                code = f"k{number}.w[{position}]" if key.kind == "wide" else f"(uint64_t)(k{number} >> {64 * position})"
                word, shift = divmod(left + 64 * position, 64)
                parts[word].append(f"{code} << {shift}" if shift else code)
                if shift and word + 1 < len(parts):
                    parts[word + 1].append(f"{code} >> {64 - shift}")
        listed = ", ".join(" | ".join(part) or "0" for part in parts)
        return f"ss_value_set_has(&s->value_sets[{value_set.index}], (const uint64_t[]){{{listed}}}, {len(parts)})"
