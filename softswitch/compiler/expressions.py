# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""BMv2's expressions, which compute on integers without bound, as C expressions of the narrowest type that is exact.

Every expression has an interval that its value cannot leave. `exact` computes the value itself, in the C type that
holds the interval (up to 128 bits natively, beyond that as `ss_wide`); `modulo` computes only its low bits, which is
all that an assignment, a mask or a cast asks for, and wraps as C's unsigned types do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from softswitch.compiler.model import Json, hexstr, member, refuse
from softswitch.compiler.phv import VALID, FieldReference, HeaderReference, Layout

ARITHMETIC = {"+", "-", "*", "&", "|", "^"}
COMPARISONS = {"==", "!=", "<", "<=", ">", ">="}
CONDITIONS = COMPARISONS | {"and", "or", "not", "d2b", "valid", "valid_union"}
MAX_SHIFT = 1 << 14


@dataclass(frozen=True)
class Value:
    """C code of an integer between `low` and `high`; `kind` is its C type: u64, i64, u128, i128 or wide."""

    code: str
    low: int
    high: int
    kind: str


def kind_of(low: int, high: int) -> str:
    """Name the narrowest kind that holds an interval."""
    for bits, name in ((64, "64"), (128, "128")):
        if low >= 0 and high < 1 << bits:
            return "u" + name
        if low >= -(1 << (bits - 1)) and high < 1 << (bits - 1):
            return "i" + name
    return "wide"


CASTS = {"u64": "(uint64_t)", "i64": "(int64_t)", "u128": "(ss_u128)", "i128": "(ss_i128)"}
ARITHMETIC_NAMES = {"+": "add", "-": "sub", "*": "mul", "&": "and", "|": "or", "^": "xor"}


def convert(value: Value, kind: str) -> str:
    """Write a value in another kind; narrower unsigned kinds keep the low bits."""
    if value.kind == kind:
        return value.code
    if kind == "wide":
        if value.kind in ("u128", "i128"):
            return f"ss_wide_from_{value.kind}({value.code})"
        return f"ss_wide_from_{value.kind}({value.code})"
    if value.kind == "wide":
        return f"{CASTS[kind]}ss_wide_low128({value.code})"
    return f"{CASTS[kind]}({value.code})"


def constant(number: int, kind: str) -> str:
    """Write a constant of a kind."""
    if kind == "u64":
        return f"{number}ull" if number < 1 << 16 else f"0x{number:x}ull"
    if kind == "i64":
        return "INT64_MIN" if number == -(1 << 63) else f"({number}ll)"
    if kind in ("u128", "i128"):
        number &= (1 << 128) - 1
        text = f"((ss_u128)0x{number >> 64:x}ull << 64 | 0x{number & (1 << 64) - 1:x}ull)"
        return text if kind == "u128" else f"((ss_i128){text})"
    limbs = []
    rest = number
    while rest not in (0, -1):
        limbs.append(f"0x{rest & (1 << 64) - 1:x}ull")
        rest >>= 64
    fill = 1 if rest == -1 else 0
    return f"ss_wide_constant({len(limbs)}, {fill}, (const uint64_t[]){{{', '.join(limbs) or '0'}}})"


def literal(number: int) -> Value:
    """Make the value of a constant."""
    kind = kind_of(number, number)
    return Value(constant(number, kind), number, number, kind)


class Scope(Protocol):
    """What an expression may refer to beside headers."""

    def local(self, number: int, place: str) -> Value:
        """Return the value of action parameter `number`."""

    def register(self, name: str, index: Json, place: str) -> Value:
        """Return the value of a register cell."""

    def lookahead(self, offset: int, bits: int, place: str) -> Value:
        """Return packet bits not extracted yet."""


class NoScope:
    """A scope of headers only."""

    def local(self, number: int, place: str) -> Value:
        """Refuse: there are no parameters here."""
        refuse(f"refers to action parameter {number} outside an action", place)

    def register(self, name: str, index: Json, place: str) -> Value:
        """Refuse: registers are read in actions."""
        refuse(f"reads register '{name}' outside an action", place)

    def lookahead(self, offset: int, bits: int, place: str) -> Value:
        """Refuse: the packet is at hand in the parser only."""
        refuse("looks ahead outside the parser", place)


class Expressions:
    """Translate expressions within one scope."""

    def __init__(self, layout: Layout, scope: Scope | None = None) -> None:
        self.layout = layout
        self.scope: Scope = scope or NoScope()

    # ---- leaves ----

    def load(self, field: FieldReference) -> Value:
        """Read a field."""
        if field.varbit:
            refuse("a varbit stands where a number is needed", field.code)
        bits = field.bits
        if not field.signed:
            high = (1 << bits) - 1
            if bits <= 64:
                return Value(f"(uint64_t){field.code}", 0, high, "u64")
            if bits <= 128:
                return Value(field.code, 0, high, "u128")
            return Value(f"ss_wide_load({field.code}, {bits}, 0)", 0, high, "wide")
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        if bits <= 64:
            shift = 64 - bits
            code = f"((int64_t)((uint64_t){field.code} << {shift}) >> {shift})" if shift else f"(int64_t){field.code}"
            return Value(code, low, high, "i64")
        if bits <= 128:
            shift = 128 - bits
            return Value(f"((ss_i128)({field.code} << {shift}) >> {shift})", low, high, "i128")
        return Value(f"ss_wide_load({field.code}, {bits}, 1)", low, high, "wide")

    def header(self, node: Json, place: str) -> HeaderReference:
        """Refer to the header that an expression or name stands for."""
        kind, value = member(node, "type", place), member(node, "value", place)
        if kind == "header":
            return self.layout.header(value, place)
        if kind == "expression":
            if isinstance(value, dict) and "op" not in value and "type" in value:
                return self.header(value, place)
            op = member(value, "op", place)
            if op == "dereference_header_stack":
                code, stack = self.layout.stack(member(value["left"], "value", place), place)
                index = self.index(value["right"], len(stack.elements), place)
                return HeaderReference(f"{code}.e[{index}]", stack.type, False)
            if op == "access_union_header":
                return self.union_member(value["left"], value["right"], place)
        refuse(f"no header: {kind} {value!r}"[:200], place)

    def index(self, node: Json, size: int, place: str) -> str:
        """Write a stack index; what is out of bounds leads to the element beyond the last."""
        value = self.exact(node, place)
        if value.low == value.high:
            return str(value.low if 0 <= value.low < size else size)
        return f"ss_index({convert(value, 'u64')}, {size})"

    def union(self, node: Json, place: str) -> tuple[str, list[HeaderReference]]:
        """Refer to a union and its members."""
        kind, value = member(node, "type", place), member(node, "value", place)
        if kind == "expression" and "op" not in value and "type" in value:
            return self.union(value, place)
        if kind == "header_union":
            code, union = self.layout.union(value, place)
            return code, [self.layout.header(h.name, place) for h in union.members]
        if kind == "expression" and value.get("op") == "dereference_union_stack":
            code, stack = self.layout.union_stack(member(value["left"], "value", place), place)
            index = self.index(value["right"], len(stack.elements), place)
            element = f"{code}.e[{index}]"
            return element, [
                HeaderReference(f"{element}.m{i}", type_, False, None, element)
                for i, (_, type_) in enumerate(stack.type.members)
            ]
        refuse(f"no header union: {kind}", place)

    def union_member(self, node: Json, number: Json, place: str) -> HeaderReference:
        """Refer to a member of a union by its position."""
        _, members = self.union(node, place)
        if not isinstance(number, int) or number >= len(members):
            refuse(f"union has no member {number}", place)
        return members[number]

    def lvalue(self, node: Json, place: str) -> FieldReference:
        """Refer to the field that an assignment writes."""
        kind, value = member(node, "type", place), member(node, "value", place)
        if kind == "field":
            return self.field(value, place)
        if kind == "stack_field":
            return self.stack_field(value, place)
        if kind == "expression":
            if "op" not in value and "type" in value:
                return self.lvalue(value, place)
            if value.get("op") == "access_field":
                header = self.header(value["left"], place)
                number = value["right"]
                if not isinstance(number, int) or number >= len(header.type.fields):
                    refuse(f"header type '{header.type.name}' has no field {number}", place)
                return self.layout.member(header, header.type.fields[number])
        refuse(f"cannot be written: {kind}", place)

    def field(self, value: Json, place: str) -> FieldReference:
        """Refer to a field; of an element of a stack by index, p4c writes an expression where the header's name is."""
        if not (isinstance(value, list) and len(value) == 2 and isinstance(value[0], dict)):
            return self.layout.field(value, place)
        header = self.header({"type": "expression", "value": value[0]}, place)
        if value[1] == VALID:
            return FieldReference(header.valid, 1, False, 8)
        return self.layout.member(header, header.type.field(value[1], place))

    def stack_field(self, value: Json, place: str) -> FieldReference:
        """Refer to a field of the last element of a stack."""
        code, stack = self.layout.stack(value[0], place)
        size = len(stack.elements)
        header = HeaderReference(f"{code}.e[ss_last({code}.next, {size})]", stack.type, False)
        return self.layout.member(header, stack.type.field(value[1], place))

    # ---- conditions ----

    def condition(self, node: Json, place: str) -> str:
        """Write a boolean expression."""
        kind, value = member(node, "type", place), member(node, "value", place)
        if kind == "bool":
            return "1" if value else "0"
        if kind != "expression":
            return f"({self.condition_of_data(node, place)})"
        if "op" not in value and "type" in value:
            return self.condition(value, place)
        op = member(value, "op", place)
        if op == "and":
            return f"SS_AND({self.condition(value['left'], place)}, {self.condition(value['right'], place)})"
        if op == "or":
            return f"({self.condition(value['left'], place)} || {self.condition(value['right'], place)})"
        if op == "not":
            return f"!{self.condition(value['right'], place)}"
        if op == "d2b":
            return f"({self.condition_of_data(value['right'], place)})"
        if op == "valid":
            return f"({self.header(value['right'], place).valid})"
        if op == "valid_union":
            _, members = self.union(value["right"], place)
            return "(" + " | ".join(header.valid for header in members) + ")"
        if op == "?":
            cond, left, right = (self.condition(value[key], place) for key in ("cond", "left", "right"))
            return f"({cond} ? {left} : {right})"
        if op in COMPARISONS:
            return self.comparison(op, value["left"], value["right"], place)
        return f"({self.condition_of_data(node, place)})"

    def condition_of_data(self, node: Json, place: str) -> str:
        """Write "this number is not zero"."""
        value = self.exact(node, place)
        return f"ss_wide_nonzero({value.code})" if value.kind == "wide" else f"{value.code} != 0"

    def is_condition(self, node: Json) -> bool:
        """Tell whether a node yields a boolean."""
        if not isinstance(node, dict):
            return False
        kind, value = node.get("type"), node.get("value")
        if kind == "bool":
            return True
        if kind != "expression" or not isinstance(value, dict):
            return False
        if "op" not in value:
            return self.is_condition(value)
        if value["op"] == "?":
            return self.is_condition(value["left"])
        return value["op"] in CONDITIONS

    def is_header(self, node: Json) -> bool:
        """Tell whether a node yields a header."""
        if not isinstance(node, dict):
            return False
        kind, value = node.get("type"), node.get("value")
        if kind == "expression" and isinstance(value, dict):
            if "op" not in value:
                return self.is_header(value)
            return value["op"] in ("dereference_header_stack", "access_union_header")
        return kind == "header"

    def is_union(self, node: Json) -> bool:
        """Tell whether a node yields a header union."""
        kind, value = node.get("type"), node.get("value")
        if kind == "expression" and isinstance(value, dict):
            if "op" not in value:
                return self.is_union(value)
            return bool(value["op"] == "dereference_union_stack")
        return bool(kind == "header_union")

    def comparison(self, op: str, left: Json, right: Json, place: str) -> str:
        """Write a comparison of numbers, booleans, headers or unions."""
        if op in ("==", "!="):
            if self.is_header(left):
                equal = self.same_header(self.header(left, place), self.header(right, place))
                return equal if op == "==" else f"!{equal}"
            if self.is_union(left):
                pairs = zip(self.union(left, place)[1], self.union(right, place)[1], strict=True)
                equal = "(" + " && ".join(self.same_header(a, b) for a, b in pairs) + ")"
                return equal if op == "==" else f"!{equal}"
            varbits = [self.varbit(node, place) for node in (left, right)]
            if varbits[0] is not None and varbits[1] is not None:
                equal = self.same_varbit(varbits[0], varbits[1])
                return equal if op == "==" else f"!{equal}"
            if self.is_condition(left):
                return f"(!{self.condition(left, place)} {op} !{self.condition(right, place)})"
        a, b = self.exact(left, place), self.exact(right, place)
        kind = kind_of(min(a.low, b.low), max(a.high, b.high))
        if kind == "wide":
            return f"(ss_wide_compare({convert(a, kind)}, {convert(b, kind)}) {op} 0)"
        return f"({convert(a, kind)} {op} {convert(b, kind)})"

    def varbit(self, node: Json, place: str) -> FieldReference | None:
        """Refer to the varbit that a node stands for, if it does."""
        while isinstance(node, dict) and node.get("type") == "expression" and "op" not in node["value"]:
            node = node["value"]
        if not isinstance(node, dict) or node.get("type") not in ("field", "stack_field", "expression"):
            return None
        if node["type"] == "expression" and node["value"].get("op") != "access_field":
            return None
        reference = self.lvalue(node, place)
        return reference if reference.varbit else None

    @staticmethod
    def same_varbit(a: FieldReference, b: FieldReference) -> str:
        """Write "two varbits have the same length and bits"."""
        return f"({a.length} == {b.length} && !memcmp({a.code}, {b.code}, {a.length} / 8))"

    def same_header(self, a: HeaderReference, b: HeaderReference) -> str:
        """Write "two headers are both invalid, or valid with equal fields"."""
        if a.type is not b.type:
            return "0"
        tests = [f"{a.valid} == {b.valid}"]
        equal = []
        for field in a.type.fields:
            x, y = self.layout.member(a, field), self.layout.member(b, field)
            if field.varbit:
                equal.append(self.same_varbit(x, y))
            elif field.bits > 128:
                equal.append(f"!memcmp({x.code}, {y.code}, sizeof {x.code})")
            else:
                equal.append(f"{x.code} == {y.code}")
        tests.append(f"(!{a.valid} || ({' && '.join(equal) or '1'}))")
        return "(" + " && ".join(tests) + ")"

    # ---- numbers ----

    def exact(self, node: Json, place: str) -> Value:
        """Write a number, with the interval it lies in."""
        kind, value = member(node, "type", place), member(node, "value", place)
        match kind:
            case "hexstr":
                return literal(hexstr(value, place))
            case "field":
                return self.load(self.field(value, place))
            case "stack_field":
                return self.load(self.stack_field(value, place))
            case "local" | "runtime_data":
                return self.scope.local(value, place)
            case "register":
                return self.scope.register(value[0], value[1], place)
            case "lookahead":
                return self.scope.lookahead(value[0], value[1], place)
            case "bool":
                return literal(int(bool(value)))
            case "expression":
                if "op" not in value and "type" in value:
                    return self.exact(value, place)
                return self.operation(member(value, "op", place), value, place)
        refuse(f"'{kind}' is no number", place)

    def operation(self, op: str, value: Json, place: str) -> Value:
        """Write the result of an operator."""
        if op in CONDITIONS:
            return Value(f"(uint64_t)({self.condition({'type': 'expression', 'value': value}, place)})", 0, 1, "u64")
        match op:
            case "+" | "-" | "*" | "&" | "|" | "^":
                return self.arithmetic(op, value, place)
            case "~":
                operand = self.exact(value["right"], place)
                low, high = ~operand.high, ~operand.low
                return self.unary("~", "not", operand, low, high)
            case "<<" | ">>":
                return self.shift(op, value, place)
            case "/" | "%":
                return self.division(op, value, place)
            case "?":
                cond = self.condition(value["cond"], place)
                left, right = self.exact(value["left"], place), self.exact(value["right"], place)
                low, high = min(left.low, right.low), max(left.high, right.high)
                kind = kind_of(low, high)
                return Value(f"({cond} ? {convert(left, kind)} : {convert(right, kind)})", low, high, kind)
            case "b2d":
                return Value(f"(uint64_t)({self.condition(value['right'], place)})", 0, 1, "u64")
            case "two_comp_mod":
                return self.two_complement(value["left"], self.width(value["right"], place), place)
            case "usat_cast":
                bits = self.width(value["right"], place)
                return self.saturate(value["left"], 0, (1 << bits) - 1, place)
            case "sat_cast":
                bits = self.width(value["right"], place)
                return self.saturate(value["left"], -(1 << (bits - 1)), (1 << (bits - 1)) - 1, place)
            case "access_field":
                return self.load(self.lvalue({"type": "expression", "value": value}, place))
            case "last_stack_index":
                code, stack = self.layout.stack(member(value["right"], "value", place), place)
                return Value(f"((int64_t){code}.next - 1)", -1, len(stack.elements) - 1, "i64")
            case "size_stack":
                code, stack = self.layout.stack(member(value["right"], "value", place), place)
                return Value(f"(uint64_t){code}.next", 0, len(stack.elements), "u64")
        refuse(f"operator '{op}' is unknown", place)

    def width(self, node: Json, place: str) -> int:
        """Read a constant width of a cast."""
        bits = self.exact(node, place)
        if bits.low != bits.high or bits.low < 1:
            refuse("a cast's width is no constant", place)
        return bits.low

    def unary(self, symbol: str, name: str, operand: Value, low: int, high: int) -> Value:
        """Write a prefix operator of known result interval."""
        kind = kind_of(min(low, operand.low), max(high, operand.high))
        if kind == "wide":
            return Value(f"ss_wide_{name}({convert(operand, kind)})", low, high, kind)
        return Value(f"({symbol}{convert(operand, kind)})", low, high, kind)

    def arithmetic(self, op: str, value: Json, place: str) -> Value:
        """Write a sum, difference, product or bitwise combination."""
        if op == "&":
            for masked, mask in (("left", "right"), ("right", "left")):
                other = self.constant_of(value[mask])
                if other is not None and other >= 0:
                    return self.masked(value[masked], other, place)
        right = self.exact(value["right"], place)
        left = literal(0) if value.get("left") is None else self.exact(value["left"], place)
        low, high = _interval(op, left, right)
        kind = kind_of(min(low, left.low, right.low), max(high, left.high, right.high))
        if kind == "wide":
            code = f"ss_wide_{ARITHMETIC_NAMES[op]}({convert(left, kind)}, {convert(right, kind)})"
        else:
            code = f"({convert(left, kind)} {op} {convert(right, kind)})"
        return Value(code, low, high, kind)

    def constant_of(self, node: Json) -> int | None:
        """Return a literal's number."""
        if isinstance(node, dict) and node.get("type") == "hexstr":
            return hexstr(node["value"], "")
        return None

    def masked(self, node: Json, mask: int, place: str) -> Value:
        """Write `node & mask`: only the bits under the mask are computed."""
        bits = mask.bit_length()
        if bits == 0:
            return literal(0)
        kind = "u64" if bits <= 64 else "u128" if bits <= 128 else "wide"
        inner = self.modulo(node, bits, place)
        whole = mask == (1 << bits) - 1
        if kind == "wide":
            if whole:
                return Value(f"ss_wide_cut({inner}, {bits})", 0, mask, kind)
            return Value(f"ss_wide_and({inner}, {constant(mask, kind)})", 0, mask, kind)
        if whole and bits in (64, 128):
            return Value(f"({inner})", 0, mask, kind)
        return Value(f"({inner} & {constant(mask, kind)})", 0, mask, kind)

    def shift(self, op: str, value: Json, place: str) -> Value:
        """Write a shift; the distance is never negative."""
        left, distance = self.exact(value["left"], place), self.exact(value["right"], place)
        if op == "<<":
            if distance.low == distance.high:
                if distance.low > MAX_SHIFT:
                    refuse(f"shifts by {distance.low} bits", place)
                low, high = left.low << distance.low, left.high << distance.low
                kind = kind_of(low, high)
                if kind == "wide":
                    return Value(f"ss_wide_shl({convert(left, kind)}, {distance.low})", low, high, kind)
                if left.low < 0:
                    return Value(f"({convert(left, kind)} * {constant(1 << distance.low, kind)})", low, high, kind)
                return Value(f"({convert(left, kind)} << {distance.low})", low, high, kind)
            # Of unknown length: what leaves the widest type is lost, and p4c cuts such results at once.
            bound = 1 << MAX_SHIFT
            code = f"ss_wide_shl({convert(left, 'wide')}, {self.distance(distance)})"
            return Value(code, -bound if left.low < 0 else 0, bound, "wide")
        low = min(left.low, left.low >> distance.low)
        high = max(0 if distance.high > distance.low else left.high >> distance.low, left.high >> distance.low)
        if distance.low == distance.high:
            low = left.low >> distance.low
        elif left.low > 0:
            low = 0
        kind = left.kind
        if kind == "wide":
            return Value(f"ss_wide_shr({left.code}, {self.distance(distance)})", low, high, kind)
        bits = 64 if kind in ("u64", "i64") else 128
        if distance.low == distance.high:
            steps = min(distance.low, bits - 1) if kind[0] == "i" else distance.low
            code = "0" if steps >= bits else f"({left.code} >> {steps})"
            return Value(f"{CASTS[kind]}{code}", low, high, kind)
        return Value(f"ss_shr_{kind}({left.code}, {self.distance(distance)})", low, high, kind)

    def distance(self, value: Value) -> str:
        """Write a shift's distance as a 64-bit number; anything longer counts as very far."""
        if value.kind == "wide":
            return f"ss_wide_distance({value.code})"
        if value.kind in ("u128", "i128"):
            return f"ss_distance({convert(value, 'u128')})"
        return convert(value, "u64")

    def division(self, op: str, value: Json, place: str) -> Value:
        """Write a quotient or remainder; division by zero gives zero."""
        left, right = self.exact(value["left"], place), self.exact(value["right"], place)
        bound = max(abs(left.low), abs(left.high))
        low, high = (0 if left.low >= 0 and right.low >= 0 else -bound), bound
        kind = kind_of(min(low, left.low, right.low), max(high, left.high, right.high))
        if kind == "wide":
            name = "div" if op == "/" else "mod"
            return Value(f"ss_wide_{name}({convert(left, kind)}, {convert(right, kind)})", low, high, kind)
        name = "div" if op == "/" else "mod"
        if right.low == right.high and right.low > 0:
            return Value(f"({convert(left, kind)} {op} {constant(right.low, kind)})", low, high, kind)
        return Value(f"ss_{name}_{kind}({convert(left, kind)}, {convert(right, kind)})", low, high, kind)

    def two_complement(self, node: Json, bits: int, place: str) -> Value:
        """Write the value of the low bits read as two's complement."""
        low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
        inner = self.modulo(node, bits, place)
        if bits <= 64:
            shift = 64 - bits
            code = f"((int64_t)(({inner}) << {shift}) >> {shift})" if shift else f"(int64_t)({inner})"
            return Value(code, low, high, "i64")
        if bits <= 128:
            shift = 128 - bits
            code = f"((ss_i128)(({inner}) << {shift}) >> {shift})" if shift else f"(ss_i128)({inner})"
            return Value(code, low, high, "i128")
        return Value(f"ss_wide_sign({inner}, {bits})", low, high, "wide")

    def saturate(self, node: Json, low: int, high: int, place: str) -> Value:
        """Write a value cut to an interval."""
        inner = self.exact(node, place)
        if inner.low >= low and inner.high <= high:
            return inner
        kind = kind_of(min(low, inner.low), max(high, inner.high))
        code = f"ss_clamp_{kind}({convert(inner, kind)}, {constant(low, kind)}, {constant(high, kind)})"
        return Value(code, max(low, min(inner.low, high)), min(high, max(inner.high, low)), kind)

    # ---- low bits only ----

    def modulo(self, node: Json, bits: int, place: str) -> str:
        """Write an unsigned number whose low `bits` bits are right; the others are anything.

        The kind is u64 up to 64 bits, u128 up to 128, wide beyond.
        """
        kind = "u64" if bits <= 64 else "u128" if bits <= 128 else "wide"
        value = node.get("value") if isinstance(node, dict) else None
        if isinstance(value, dict) and node.get("type") == "expression":
            if "op" not in value and "type" in value:
                return self.modulo(value, bits, place)
            code = self._modulo_operation(member(value, "op", place), value, bits, kind, place)
            if code is not None:
                return code
        exact = self.exact(node, place)
        if exact.low == exact.high:
            return constant(exact.low & ((1 << bits) - 1), kind)
        return convert(exact, kind)

    def _modulo_operation(self, op: str, value: Json, bits: int, kind: str, place: str) -> str | None:
        if op in ARITHMETIC and value.get("left") is not None:
            if op == "&":
                for side, other in (("left", "right"), ("right", "left")):
                    mask = self.constant_of(value[other])
                    if mask is not None and mask >= 0:
                        mask &= (1 << bits) - 1
                        if mask == (1 << bits) - 1:
                            return self.modulo(value[side], bits, place)
                        return convert(self.masked(value[side], mask, place), kind)
            left, right = self.modulo(value["left"], bits, place), self.modulo(value["right"], bits, place)
            if kind == "wide":
                return f"ss_wide_{ARITHMETIC_NAMES[op]}({left}, {right})"
            return f"({left} {op} {right})"
        if op in ("+", "-") and value.get("left") is None:
            right = self.modulo(value["right"], bits, place)
            if op == "+":
                return right
            return f"ss_wide_negate({right})" if kind == "wide" else f"(0 - {right})"
        if op == "~":
            right = self.modulo(value["right"], bits, place)
            return f"ss_wide_not({right})" if kind == "wide" else f"(~{right})"
        if op == "<<":
            distance = self.exact(value["right"], place)
            left = self.modulo(value["left"], bits, place)
            if distance.low == distance.high:
                if distance.low >= bits:
                    return constant(0, kind)
                return f"ss_wide_shl({left}, {distance.low})" if kind == "wide" else f"({left} << {distance.low})"
            return f"ss_{'wide_shl' if kind == 'wide' else 'shl_' + kind}({left}, {self.distance(distance)})"
        if op == "?":
            cond = self.condition(value["cond"], place)
            return f"({cond} ? {self.modulo(value['left'], bits, place)} : {self.modulo(value['right'], bits, place)})"
        if op == "two_comp_mod" and bits <= self.width(value["right"], place):
            return self.modulo(value["left"], bits, place)
        return None

    # ---- assignment ----

    def assign(self, target: FieldReference, node: Json, place: str) -> str:
        """Write a statement that stores a number's low bits in a field."""
        if self.is_condition(node):
            return f"{target.code} = {self.condition(node, place)} != 0;"
        exact = self._fits(target, node, place)
        if exact is not None:
            return f"{target.code} = ({'ss_u128' if target.storage == 128 else f'uint{target.storage}_t'}){exact};"
        return self.store(target, self.modulo(node, target.bits, place))

    def _fits(self, target: FieldReference, node: Json, place: str) -> str | None:
        """Return the number's code when it needs no cutting: a field of no greater width, or the like."""
        if target.bits > 128 or target.varbit:
            return None
        value = node.get("value") if isinstance(node, dict) else None
        if isinstance(value, dict) and value.get("op") not in ("&", "access_field", None):
            return None
        exact = self.exact(node, place)
        inside = exact.low >= 0 and exact.high < 1 << target.bits and exact.kind in ("u64", "u128")
        return exact.code if inside else None

    def store(self, target: FieldReference, code: str) -> str:
        """Write a statement that stores the low bits of an unsigned number (of the kind that `modulo` gives)."""
        if target.bits > 128:
            return f"ss_wide_store({target.code}, {target.bits}, {code});"
        if target.bits == target.storage:
            return f"{target.code} = {CASTS['u128'] if target.storage == 128 else f'(uint{target.storage}_t)'}({code});"
        kind = "u64" if target.bits <= 64 else "u128"
        return f"{target.code} = ({code}) & {constant((1 << target.bits) - 1, kind)};"


def _interval(op: str, left: Value, right: Value) -> tuple[int, int]:
    match op:
        case "+":
            return left.low + right.low, left.high + right.high
        case "-":
            return left.low - right.high, left.high - right.low
        case "*":
            corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
            return min(corners), max(corners)
        case "&" if left.low >= 0 and right.low >= 0:
            return 0, min(left.high, right.high)
        case "&" if left.low >= 0:
            return 0, left.high
        case "&" if right.low >= 0:
            return 0, right.high
    reach = max(left.high.bit_length(), right.high.bit_length(), (~left.low).bit_length(), (~right.low).bit_length())
    if left.low >= 0 and right.low >= 0:
        return 0, (1 << max(left.high.bit_length(), right.high.bit_length())) - 1
    return -(1 << reach), (1 << reach) - 1
