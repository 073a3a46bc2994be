# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Expressions against the same expressions on Python's unbounded integers."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from bmv2_json import EGRESS_SPEC, Json, ProgramBuilder, assign, field, hexstr, op

from softswitch.switch import Switch

Load = Callable[..., Switch]
WIDTHS = {
    "small": [(1, False), (3, False), (8, False), (9, False), (16, True), (32, False), (32, True), (7, True)],
    "word": [(64, False), (64, True), (48, False), (63, False), (33, True), (16, False)],
    "double": [(128, False), (128, True), (100, False), (65, False), (64, False), (32, False)],
    "wide": [(256, False), (192, True), (129, False), (2048, False), (16, False), (64, True)],
}
SIGNED_TARGETS = 0.3


class Generator:
    """Random expressions as p4c writes them: every + - * << ~ is cut to a width at once."""

    def __init__(self, source: random.Random, fields: list[tuple[str, int, bool]]) -> None:
        self.source = source
        self.fields = fields
        self.values: dict[str, int] = {}

    def leaf(self) -> tuple[Json, Callable[[], int]]:
        if self.source.random() < 0.25:
            value = self.source.choice([0, 1, 2, 255, self.source.getrandbits(self.source.choice([4, 16, 60, 100]))])
            return hexstr(value), lambda: value
        name, _, _ = self.source.choice(self.fields)
        return field("in", name), lambda: self.values[name]

    def cut(self, node: Json, value: Callable[[], int]) -> tuple[Json, Callable[[], int]]:
        bits = self.source.choice([f[1] for f in self.fields])
        if self.source.random() < SIGNED_TARGETS:
            return op("two_comp_mod", node, hexstr(bits)), lambda: signed(value(), bits)
        return op("&", node, hexstr((1 << bits) - 1)), lambda: value() & ((1 << bits) - 1)

    def number(self, depth: int) -> tuple[Json, Callable[[], int]]:
        if depth == 0:
            return self.leaf()
        choice = self.source.choice(
            ["+", "-", "*", "&", "|", "^", "~", "neg", "<<", ">>", ">>", "/", "%", "?", "usat", "sat", "b2d", "shl"]
        )
        a, x = self.number(depth - 1)
        b, y = self.number(depth - 1)
        match choice:
            case "+":
                return self.cut(op("+", a, b), lambda: x() + y())
            case "-":
                return self.cut(op("-", a, b), lambda: x() - y())
            case "*":
                return self.cut(op("*", a, b), lambda: x() * y())
            case "&":
                return op("&", a, b), lambda: x() & y()
            case "|":
                return op("|", a, b), lambda: x() | y()
            case "^":
                return op("^", a, b), lambda: x() ^ y()
            case "~":
                return self.cut(op("~", None, a), lambda: ~x())
            case "neg":
                return self.cut(op("-", None, a), lambda: -x())
            case "<<":
                distance = self.source.choice([0, 1, 5, 31, 64, 100, 127])
                return self.cut(op("<<", a, hexstr(distance)), lambda: x() << distance)
            case "shl":
                c, z = self.cut_to(b, y, 7)
                return self.cut(op("<<", a, c), lambda: x() << z())
            case ">>":
                c, z = self.cut_to(b, y, 7)
                return op(">>", a, c), lambda: x() >> z()
            case "/":
                c, z = self.cut_to(b, y, 16)
                d, w = self.cut_to(a, x, 60)
                return op("/", d, c), lambda: w() // z() if z() else 0
            case "%":
                c, z = self.cut_to(b, y, 16)
                d, w = self.cut_to(a, x, 60)
                return op("%", d, c), lambda: w() % z() if z() else 0
            case "?":
                c, z = self.boolean(depth - 1)
                return op("?", a, b, cond=c), lambda: x() if z() else y()
            case "usat":
                bits = self.source.choice([f[1] for f in self.fields])
                return op("usat_cast", op("-", a, b), hexstr(bits)), lambda: clamp(x() - y(), 0, (1 << bits) - 1)
            case "sat":
                bits = self.source.choice([f[1] for f in self.fields if f[1] > 1])
                top = 1 << (bits - 1)
                return op("sat_cast", op("+", a, b), hexstr(bits)), lambda: clamp(x() + y(), -top, top - 1)
            case _:
                c, z = self.boolean(depth - 1)
                return op("b2d", None, c), lambda: int(z())

    def cut_to(self, node: Json, value: Callable[[], int], bits: int) -> tuple[Json, Callable[[], int]]:
        return op("&", node, hexstr((1 << bits) - 1)), lambda: value() & ((1 << bits) - 1)

    def boolean(self, depth: int) -> tuple[Json, Callable[[], bool]]:
        if depth > 0 and self.source.random() < 0.4:
            a, x = self.boolean(depth - 1)
            b, y = self.boolean(depth - 1)
            match self.source.choice(["and", "or", "not", "=="]):
                case "and":
                    return op("and", a, b), lambda: x() and y()
                case "or":
                    return op("or", a, b), lambda: x() or y()
                case "not":
                    return op("not", None, a), lambda: not x()
                case _:
                    return op("==", a, b), lambda: bool(x()) == bool(y())
        a, v = self.number(max(depth - 1, 0))
        b, w = self.number(max(depth - 1, 0))
        comparison = self.source.choice(["==", "!=", "<", "<=", ">", ">=", "d2b"])
        if comparison == "d2b":
            return op("d2b", None, a), lambda: v() != 0
        compare: dict[str, Callable[[int, int], bool]] = {
            "==": int.__eq__, "!=": int.__ne__, "<": int.__lt__, "<=": int.__le__, ">": int.__gt__, ">=": int.__ge__,
        }  # fmt: skip
        return op(comparison, a, b), lambda: compare[comparison](v(), w())


def signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def clamp(value: int, low: int, high: int) -> int:
    return max(low, min(high, value))


@pytest.mark.parametrize("family", WIDTHS)
@pytest.mark.parametrize("seed", [1, 2])
def test_expressions_agree_with_unbounded_integers(family: str, seed: int, load: Load) -> None:
    source = random.Random(f"{family} {seed}")
    fields = [(f"f{i}", bits, sign) for i, (bits, sign) in enumerate(WIDTHS[family])]
    spare = -sum(f[1] for f in fields) % 8
    program = ProgramBuilder()
    declared: list[list[Any]] = [[name, bits, sign] for name, bits, sign in fields]
    program.add_type("in_t", declared)
    program.add_header("in", "in_t")
    results = []
    generator = Generator(source, fields)
    for number in range(40):
        node, value = generator.number(source.choice([1, 2, 3, 4]))
        bits = source.choice([f[1] for f in fields])
        results.append((f"r{number}", bits, node, value))
    program.header("out", [[name, bits] for name, bits, _, _ in results])
    program.state("start", program.extract("in"))
    program.action(
        "compute",
        [],
        call_valid("out"),
        *(assign(field("out", name), node) for name, _, node, _ in results),
        assign(EGRESS_SPEC, hexstr(1)),
    )
    program.run("compute")
    switch = load(program)
    size = (sum(f[1] for f in fields) + spare) // 8
    for _ in range(60):
        packed = 0
        for name, bits, sign in fields:
            raw = source.choice([0, 1, (1 << bits) - 1, 1 << (bits - 1), source.getrandbits(bits)])
            generator.values[name] = signed(raw, bits) if sign else raw
            packed = packed << bits | raw
        [(port, frame)] = switch.inject(0, (packed << spare).to_bytes(size, "big"))
        assert port == 1
        total = sum(bits for _, bits, _, _ in results)
        left = int.from_bytes(frame, "big") >> (-total % 8)
        for name, bits, node, value in reversed(results):
            assert left & ((1 << bits) - 1) == value() & ((1 << bits) - 1), (name, bits, node, generator.values)
            left >>= bits


def call_valid(name: str) -> Json:
    return {"op": "add_header", "parameters": [{"type": "header", "value": name}]}
