# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Headers whose bytes stay in their frame, but for what a program changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from bmv2_json import EGRESS_SPEC, Json, ProgramBuilder, assign, call, field, header, hexstr, op, wrapped

from softswitch.compiler.carried import carried_headers
from softswitch.compiler.model import read_program
from softswitch.compiler.phv import Layout
from softswitch.switch import Switch

Load = Callable[..., Switch]
FRAME = "0a b1b2 c1c2c3 0e0f"


def three_headers(*primitives: Json, order: str = "abc", operations: str = "abc") -> ProgramBuilder:
    """Headers of one, two and three bytes, and one of two that the parser never finds."""
    program = ProgramBuilder()
    program.header("a", [["high", 4], ["low", 4]])
    program.header("b", [["x", 3], ["y", 13]])
    program.header("c", [["first", 8], ["second", 16]])
    program.header("n", [["value", 16]])
    program.order[:] = list(order)
    skip = {"op": "advance", "parameters": [hexstr(8)]}
    program.state("start", *(skip if name == "." else program.extract(name) for name in operations))
    program.action("act", [], *primitives, assign(EGRESS_SPEC, hexstr(1)))
    program.run("act")
    return program


NEW = [call("add_header", header("n")), assign(field("n", "value"), hexstr(0xDEAD))]


@pytest.mark.parametrize(
    ("primitives", "layout", "frame"),
    [
        ([], {}, FRAME),
        ([assign(field("a", "low"), hexstr(5))], {}, "05 b1b2 c1c2c3 0e0f"),
        ([assign(field("b", "y"), field("b", "x"))], {}, "0a a005 c1c2c3 0e0f"),
        ([call("remove_header", header("a"))], {}, "b1b2 c1c2c3 0e0f"),
        ([call("remove_header", header("b"))], {}, "0a c1c2c3 0e0f"),
        ([call("remove_header", header("b")), assign(field("c", "first"), field("b", "y"))], {}, "0a b2c2c3 0e0f"),
        ([], {"order": "cab"}, "c1c2c3 0a b1b2 0e0f"),
        ([assign(field("b", "x"), hexstr(0))], {"order": "bca"}, "11b2 c1c2c3 0a 0e0f"),
        ([], {"order": "ac"}, "0a c1c2c3 0e0f"),
        (NEW, {"order": "nabc"}, "dead 0a b1b2 c1c2c3 0e0f"),
        (NEW, {"order": "abcn"}, "0a b1b2 c1c2c3 dead 0e0f"),
        ([*NEW, call("remove_header", header("b"))], {"order": "nabc"}, "dead 0a c1c2c3 0e0f"),
        ([*NEW, call("remove_header", header("b"))], {"order": "abnc"}, "0a dead c1c2c3 0e0f"),
        ([*NEW, call("remove_header", header("b"))], {"order": "acn"}, "0a c1c2c3 dead 0e0f"),
        ([], {"operations": "a.bc", "order": "abc"}, "0a b2c1 c2c30e 0f"),
        ([], {"operations": "aab", "order": "ab"}, "b1 b2c1 c2c30e0f"),
        ([assign(field("a", "high"), hexstr(7))], {"operations": "ba", "order": "ab"}, "72 0ab1 c1c2c30e0f"),
        ([assign(field("c", "second"), wrapped(op("+", field("c", "second"), hexstr(1))))], {}, "0a b1b2 c1c2c4 0e0f"),
    ],
)  # fmt: skip
def test_what_a_program_leaves_alone_leaves_as_it_came(
    primitives: list[Json], layout: dict[str, str], frame: str, load: Load
) -> None:
    switch = load(three_headers(*primitives, **layout))
    assert switch.inject(0, bytes.fromhex(FRAME)) == [(1, bytes.fromhex(frame))]


def test_a_copy_and_its_packet_change_apart(load: Load) -> None:
    program = three_headers(call("remove_header", header("b")), order="cab")
    program.action("copied", [], assign(field("c", "first"), field("standard_metadata", "egress_rid")))
    program.run("copied", pipeline="egress")
    program.actions[0]["primitives"].append(assign(field("standard_metadata", "mcast_grp"), hexstr(1)))
    switch = load(program)
    switch.set_multicast(1, [(2, 0x20), (3, 0x30)])
    frames = dict(switch.inject(0, bytes.fromhex(FRAME)))
    assert frames == {port: bytes.fromhex(f"{port}0c2c3 0a 0e0f") for port in (2, 3)}


@pytest.mark.parametrize(
    ("primitives", "carried"),
    [
        ([], "abc"),
        ([assign(field("a", "low"), hexstr(1))], "abc"),
        ([assign(field("a", "$valid$"), hexstr(1))], "bc"),
        ([call("add_header", header("b"))], "ac"),
        ([call("assign_header", header("b"), header("c"))], "a"),
        ([assign(field("a", "low"), wrapped(op("d2b", None, op("==", header("b"), header("b")))))], "ac"),
        ([call("remove_header", header("b"))], "abc"),
    ],
)  # fmt: skip
def test_headers_that_only_the_parser_makes_are_carried(primitives: list[Json], carried: str) -> None:
    program = read_program(three_headers(*primitives).document())
    assert set(carried_headers(program, Layout(program))) == set(carried)


def test_fields_are_told_apart_by_what_a_program_does_with_them() -> None:
    change = assign(field("c", "second"), wrapped(op("+", field("c", "first"), hexstr(1))))
    program = read_program(three_headers(change).document())
    found = carried_headers(program, Layout(program))
    assert (found["c"].used, found["c"].changed) == ({"first", "second"}, {"second"})
    assert (found["b"].used, found["b"].changed) == (set(), set())
