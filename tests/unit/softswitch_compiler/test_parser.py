# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bmv2_json import ERRORS, Json, ProgramBuilder, field, header, hexstr, op, wrapped
from reports import PARSER_ERROR, add_report, reported

from softswitch.objects import Objects
from softswitch.switch import Switch

Load = Callable[..., Switch]


def lookahead(offset: int, bits: int) -> Json:
    return {"type": "lookahead", "value": [offset, bits]}


def mpls(size: int = 3) -> ProgramBuilder:
    program = ProgramBuilder()
    program.add_type("label_t", [["value", 23], ["bottom", 1]])
    program.stack("labels", "label_t", size)
    program.state(
        "start",
        program.extract("labels", "stack"),
        key=[{"type": "stack_field", "value": ["labels", "bottom"]}],
        cases=[("0x0", None, "start")],
    )
    return program


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_stack_is_extracted_up_to_its_last_label(count: int, load: Load) -> None:
    program = mpls()
    last = {"type": "stack_field", "value": ["labels", "value"]}
    size = op("size_stack", None, {"type": "header_stack", "value": "labels"})
    index = op("last_stack_index", None, {"type": "header_stack", "value": "labels"})
    add_report(program, [PARSER_ERROR, ("last", 24, last), ("size", 8, size), ("index", 8, index)])
    switch = load(program)
    labels = b"".join((2 * (10 + i) + (i == count - 1)).to_bytes(3, "big") for i in range(count))
    values, rest = reported(switch, labels + b"payload", [1, 3, 1, 1])
    assert values == [0, 10 + count - 1, count, count - 1]
    assert rest == labels + b"payload"


def test_a_stack_that_overflows_is_an_error_and_the_rest_is_payload(load: Load) -> None:
    program = mpls(2)
    add_report(program, [PARSER_ERROR])
    switch = load(program)
    frame = bytes.fromhex("000002 000004 000006 000009") + b"x"
    values, rest = reported(switch, frame, [1])
    assert values == [ERRORS.index("StackOutOfBounds")]
    assert rest == frame


def option(load: Load, before: int = 4, after: int = 4) -> Switch:
    """A header of two small fields around a varbit of at most 6 bytes, whose length in bytes the first field tells."""
    program = ProgramBuilder()
    program.header("option", [["length", before], ["data", "*"], ["tail", after]], max_length=(before + after) // 8 + 6)
    bits = op("&", op("<<", field("meta", "length"), hexstr(3)), hexstr(0xFFFF))
    program.metadata([["length", before]])
    program.state(
        "start",
        {"op": "set", "parameters": [field("meta", "length"), lookahead(0, before)]},
        {"op": "extract_VL", "parameters": [{"type": "regular", "value": "option"}, wrapped(bits)]},
    )
    add_report(program, [PARSER_ERROR, ("tail", after, field("option", "tail")), ("pad", -after % 8 or 8, hexstr(0))])
    return load(program)


@pytest.mark.parametrize(("before", "after"), [(4, 4), (8, 8), (3, 13)])
@pytest.mark.parametrize("length", [0, 1, 6])
def test_a_varbit_comes_back_whatever_stands_around_it(before: int, after: int, length: int, load: Load) -> None:
    switch = option(load, before, after)
    data = bytes(range(0xA1, 0xA1 + length))
    tail = (1 << after) - 3
    total = before + 8 * length + after
    packed = (length << 8 * length | int.from_bytes(data, "big")) << after | tail
    frame = packed.to_bytes(total // 8, "big") + b"rest"
    [(_, out)] = switch.inject(0, frame)
    head = 1 + (after + (-after % 8 or 8)) // 8
    assert out[0] == 0
    assert int.from_bytes(out[1:head], "big") >> (-after % 8 or 8) == tail
    assert out[head:] == frame


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (bytes([7]) + bytes(20), "HeaderTooShort"),
        (bytes([5]) + bytes(3), "PacketTooShort"),
        (b"\x03", "PacketTooShort"),
    ],
)
def test_a_varbit_that_does_not_fit_is_an_error(frame: bytes, error: str, load: Load) -> None:
    switch = option(load, 8, 8)
    [(_, out)] = switch.inject(0, frame)
    assert out[0] == ERRORS.index(error)
    assert out[3:] == frame


def test_a_varbit_of_no_whole_bytes_is_an_error(load: Load) -> None:
    program = ProgramBuilder()
    program.header("option", [["length", 8], ["data", "*"]], max_length=9)
    program.metadata([["bits", 8]])
    program.state(
        "start",
        {"op": "set", "parameters": [field("meta", "bits"), lookahead(0, 8)]},
        {"op": "extract_VL", "parameters": [{"type": "regular", "value": "option"}, wrapped(field("meta", "bits"))]},
    )
    add_report(program, [PARSER_ERROR])
    values, _ = reported(load(program), bytes([12]) + bytes(9), [1])
    assert values == [ERRORS.index("ParserInvalidArgument")]


def test_lookahead_leaves_the_packet_where_it_is(load: Load) -> None:
    program = ProgramBuilder()
    program.header("one", [["a", 8]])
    program.metadata([["seen", 12]])
    program.state(
        "start",
        {"op": "set", "parameters": [field("meta", "seen"), lookahead(4, 12)]},
        key=[lookahead(0, 4)],
        cases=[("0x0a", None, "take")],
    )
    program.state("take", program.extract("one"))
    add_report(program, [PARSER_ERROR, ("seen", 16, field("meta", "seen")), ("a", 8, field("one", "a"))])
    switch = load(program)
    assert reported(switch, bytes.fromhex("abcd"), [1, 2, 1]) == ([0, 0xBCD, 0xAB], bytes.fromhex("abcd"))
    assert reported(switch, bytes.fromhex("bbcd"), [1, 2, 1]) == ([0, 0xBCD, 0], bytes.fromhex("bbcd"))
    short = reported(switch, b"\xab", [1, 2, 1])
    assert short == ([ERRORS.index("PacketTooShort"), 0, 0], b"\xab")


def test_advance_skips_bytes_for_good(load: Load) -> None:
    program = ProgramBuilder()
    program.header("one", [["a", 8]])
    program.state("start", {"op": "advance", "parameters": [hexstr(16)]}, program.extract("one"))
    add_report(program, [PARSER_ERROR, ("a", 8, field("one", "a"))])
    switch = load(program)
    assert reported(switch, bytes.fromhex("11223344"), [1, 1]) == ([0, 0x33], bytes.fromhex("3344"))
    assert reported(switch, b"\x11", [1, 1]) == ([ERRORS.index("PacketTooShort"), 0], b"\x11")


def test_advance_by_no_whole_bytes_is_an_error(load: Load) -> None:
    program = ProgramBuilder()
    program.metadata([["bits", 32]])
    program.state(
        "start",
        {"op": "set", "parameters": [field("meta", "bits"), lookahead(0, 8)]},
        {"op": "advance", "parameters": [field("meta", "bits")]},
    )
    add_report(program, [PARSER_ERROR])
    switch = load(program)
    assert reported(switch, bytes([8, 1]), [1]) == ([0], bytes([1]))
    assert reported(switch, bytes([9, 1]), [1]) == ([ERRORS.index("ParserInvalidArgument")], bytes([9, 1]))


def test_verify_raises_the_error_it_names_and_ends_parsing(load: Load) -> None:
    program = ProgramBuilder()
    program.errors.append(["Mine", 42])
    program.header("one", [["a", 8]])
    program.header("two", [["b", 8]])
    program.state(
        "start",
        program.extract("one"),
        {"op": "verify", "parameters": [op(">", field("one", "a"), hexstr(5)), hexstr(42)]},
        program.extract("two"),
    )
    add_report(program, [PARSER_ERROR, ("b", 8, field("two", "b"))])
    switch = load(program)
    assert reported(switch, bytes([6, 7]), [1, 1])[0] == [0, 7]
    assert reported(switch, bytes([5, 7]), [1, 1]) == ([42, 0], bytes([5, 7]))


def test_a_parser_that_goes_in_circles_ends_with_an_error(load: Load) -> None:
    program = ProgramBuilder()
    program.state("start", default="again")
    program.state("again", default="start")
    add_report(program, [PARSER_ERROR])
    assert reported(load(program), b"x", [1]) == ([ERRORS.index("ParserTimeout")], b"x")


def test_select_tries_masks_and_several_keys_in_order(load: Load) -> None:
    program = ProgramBuilder()
    program.header("key", [["a", 4], ["b", 12]])
    program.metadata([["state", 8]])
    names = ["exact", "masked", "first_only", "other"]
    program.state(
        "start",
        program.extract("key"),
        key=[field("key", "a"), field("key", "b")],
        cases=[
            ("0x010abc", None, "exact"),
            ("0x010a00", "0x0f0f00", "masked"),
            ("0x010000", "0x0f0000", "first_only"),
        ],
        default="other",
    )
    for number, name in enumerate(names):
        program.state(name, {"op": "set", "parameters": [field("meta", "state"), hexstr(number)]})
    add_report(program, [("state", 8, field("meta", "state"))])
    switch = load(program)
    for frame, state in (("1abc", 0), ("1abd", 1), ("1bbc", 2), ("2abc", 3)):
        assert reported(switch, bytes.fromhex(frame), [1])[0] == [state], frame


def test_a_value_set_is_empty_until_the_control_plane_fills_it(load: Load) -> None:
    program = ProgramBuilder()
    program.header("key", [["a", 4], ["b", 12]])
    program.metadata([["hit", 8]])
    program.sections["parse_vsets"].append({"name": "set", "id": 0, "compressed_bitwidth": 16})
    program.state(
        "start",
        program.extract("key"),
        key=[field("key", "a"), field("key", "b")],
        cases=[("set", None, "hit")],
    )
    program.state("hit", {"op": "set", "parameters": [field("meta", "hit"), hexstr(1)]})
    add_report(program, [("hit", 8, field("meta", "hit"))])
    switch = load(program)

    def hits() -> list[int]:
        return [reported(switch, bytes.fromhex(frame), [1])[0][0] for frame in ("1abc", "1abd", "2abc")]

    assert hits() == [0, 0, 0]
    objects = Objects(switch)
    objects.set_value_set("set", [[1, 0xABC], [(2, 0xF), (0, 0)]])
    assert hits() == [1, 0, 1]
    objects.set_value_set("set", [[(0, 0), 0xABD]])
    assert hits() == [0, 1, 0]
    objects.set_value_set("set", [])
    assert hits() == [0, 0, 0]


def union_program(load: Load) -> Switch:
    program = ProgramBuilder()
    program.header("kind", [["k", 8]])
    program.add_type("byte_t", [["v", 8]])
    program.add_type("word_t", [["v", 16]])
    members = [program.add_header("u.byte", "byte_t"), program.add_header("u.word", "word_t")]
    program.order += ["u.byte", "u.word"]
    program.sections["header_union_types"].append(
        {"name": "u_t", "id": 0, "headers": [["byte", "byte_t"], ["word", "word_t"]]}
    )
    program.sections["header_unions"].append({"name": "u", "id": 0, "union_type": "u_t", "header_ids": members})
    program.state(
        "start",
        program.extract("kind"),
        key=[field("kind", "k")],
        cases=[("0x01", "byte"), ("0x02", "word"), ("0x03", "both")],
    )
    program.state("byte", program.extract("u.byte"))
    program.state("word", program.extract("u.word"))
    program.state("both", program.extract("u.byte"), program.extract("u.word"))
    valid: Any = {"type": "header_union", "value": "u"}
    add_report(
        program,
        [
            ("byte", 8, op("b2d", None, op("valid", None, header("u.byte")))),
            ("word", 8, op("b2d", None, op("valid", None, header("u.word")))),
            ("any", 8, op("b2d", None, op("valid_union", None, valid))),
        ],
    )
    return load(program)


def test_one_member_of_a_union_is_valid_at_a_time(load: Load) -> None:
    switch = union_program(load)
    assert reported(switch, bytes.fromhex("00 aa"), [1] * 3) == ([0, 0, 0], bytes.fromhex("00 aa"))
    assert reported(switch, bytes.fromhex("01 aa"), [1] * 3) == ([1, 0, 1], bytes.fromhex("01 aa"))
    assert reported(switch, bytes.fromhex("02 aabb"), [1] * 3) == ([0, 1, 1], bytes.fromhex("02 aabb"))
    # The second extraction takes the place of the first.
    assert reported(switch, bytes.fromhex("03 aabbcc"), [1] * 3) == ([0, 1, 1], bytes.fromhex("03 bbcc"))


def test_fields_of_a_header_that_was_not_parsed_are_zero(load: Load) -> None:
    program = ProgramBuilder()
    program.header("one", [["a", 16], ["b", 128]])
    program.state("start", key=[lookahead(0, 8)], cases=[("0x01", "one")])
    program.state("one", program.extract("one"))
    add_report(program, [("a", 16, field("one", "a")), ("b", 128, field("one", "b"))])
    switch = load(program)
    full = bytes([1]) + bytes(range(2, 19))
    assert reported(switch, full, [2, 16])[0] == [0x0102, int.from_bytes(full[2:], "big")]
    assert reported(switch, bytes([2]) + full[1:], [2, 16])[0] == [0, 0]
