# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import binascii
import random
from collections.abc import Callable

import pytest
from bmv2_json import EGRESS_SPEC, Json, ProgramBuilder, assign, call, field, header, hexstr, local, op, param, wrapped
from reports import add_report, reported, split

from softswitch.objects import Objects
from softswitch.switch import Switch

Load = Callable[..., Switch]
STACK = {"type": "header_stack", "value": "s"}


def element(index: Json) -> Json:
    return op("dereference_header_stack", STACK, index)


def stack_program(*primitives: Json) -> ProgramBuilder:
    """Four bytes in a stack; the action runs `primitives`, and the stack is sent as it is then."""
    program = ProgramBuilder()
    program.add_type("byte_t", [["v", 8]])
    program.header("index", [["i", 8]])
    program.stack("s", "byte_t", 4)
    extract = {"op": "extract", "parameters": [{"type": "stack", "value": "s"}]}
    program.state("start", program.extract("index"), extract, extract, extract)
    program.action("act", [], *primitives, assign(EGRESS_SPEC, hexstr(1)))
    program.run("act")
    return program


@pytest.mark.parametrize(
    ("primitives", "result"),
    [
        ([call("push", STACK, hexstr(1))], "0a0b0c"),
        ([call("push", STACK, hexstr(2))], "0a0b"),
        ([call("push", STACK, hexstr(1)), call("add_header", header("s[0]"))], "000a0b0c"),
        ([call("push", STACK, hexstr(9))], ""),
        ([call("pop", STACK, hexstr(1))], "0b0c"),
        ([call("pop", STACK, hexstr(3))], ""),
        ([call("remove_header", header("s[1]"))], "0a0c"),
        ([call("assign_header", header("s[0]"), header("s[2]"))], "0c0b0c"),
        ([call("assign_header", header("s[0]"), header("s[3]"))], "0b0c"),
        ([call("assign_header", wrapped(element(hexstr(1))), wrapped(element(field("index", "i"))))], "0a0c0c"),
        ([assign(wrapped(op("access_field", element(field("index", "i")), 0)), hexstr(0xEE))], "0a0bee"),
        ([call("remove_header", wrapped(element(field("index", "i"))))], "0a0b"),
    ],
)  # fmt: skip
def test_stacks_are_pushed_popped_and_indexed(primitives: list[Json], result: str, load: Load) -> None:
    switch = load(stack_program(*primitives))
    assert switch.inject(0, bytes.fromhex("02 0a0b0c 77")) == [(1, bytes.fromhex("02" + result + "77"))]


def test_an_index_out_of_bounds_reads_zero_and_writes_nothing(load: Load) -> None:
    program = stack_program(
        assign(wrapped(op("access_field", element(field("index", "i")), 0)), hexstr(0xEE)),
        assign(field("index", "i"), wrapped(op("access_field", element(hexstr(200)), 0))),
    )
    switch = load(program)
    assert switch.inject(0, bytes.fromhex("09 0a0b0c 77")) == [(1, bytes.fromhex("ee 0a0b0c 77"))]
    assert switch.inject(0, bytes.fromhex("02 0a0b0c 77")) == [(1, bytes.fromhex("00 0a0bee 77"))]


@pytest.mark.parametrize(("index", "valid"), [(0, 1), (2, 1), (3, 0), (9, 0)])
def test_an_elements_validity_is_read_by_index(index: int, valid: int, load: Load) -> None:
    validity = {"type": "field", "value": [element(field("index", "i")), "$valid$"]}
    switch = load(stack_program(assign(field("index", "i"), validity)))
    assert switch.inject(0, bytes([index]) + b"abc!") == [(1, bytes([valid]) + b"abc!")]


def test_jumps_choose_a_branch(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["a", 8], ["b", 8]])
    program.state("start", program.extract("in"))
    program.action(
        "act",
        [],
        assign(EGRESS_SPEC, hexstr(1)),
        call("_jump_if_zero", wrapped(op(">", field("in", "a"), hexstr(9))), hexstr(4)),
        assign(field("in", "b"), hexstr(1)),
        call("_jump", hexstr(5)),
        assign(field("in", "b"), hexstr(2)),
    )
    program.run("act")
    switch = load(program)
    assert switch.inject(0, bytes([10, 0])) == [(1, bytes([10, 1]))]
    assert switch.inject(0, bytes([9, 0])) == [(1, bytes([9, 2]))]


def test_a_loop_of_jumps_counts_down(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["n", 8], ["sum", 16]])
    program.state("start", program.extract("in"))
    program.action(
        "act",
        [],
        assign(EGRESS_SPEC, hexstr(1)),
        call("_jump_if_zero", wrapped(op("!=", field("in", "n"), hexstr(0))), hexstr(5)),
        call("add_to_field", field("in", "sum"), field("in", "n")),
        call("subtract_from_field", field("in", "n"), hexstr(1)),
        call("_jump", hexstr(1)),
    )
    program.run("act")
    assert load(program).inject(0, bytes([100, 0, 0])) == [(1, bytes([0]) + (5050).to_bytes(2, "big"))]


def test_exit_ends_the_control_but_not_the_action(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["a", 8], ["b", 8]])
    program.state("start", program.extract("in"))
    program.action("leave", [], call("exit"), assign(field("in", "a"), hexstr(7)), assign(EGRESS_SPEC, hexstr(1)))
    program.action("never", [], assign(field("in", "b"), hexstr(9)))
    program.action("egress", [], call("add_to_field", field("in", "b"), hexstr(1)))
    program.run("leave", following="tbl_never")
    program.run("never")
    program.run("egress", pipeline="egress")
    assert load(program).inject(0, bytes(2)) == [(1, bytes([7, 1]))]


def test_a_failed_assertion_drops_the_packet_and_says_so(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["a", 8]])
    program.state("start", program.extract("in"))
    check = call("assert", wrapped(op("==", field("in", "a"), hexstr(1))))
    check["source_info"] = {"filename": "x.p4", "line": 3, "source_fragment": "assert(h.a == 1)"}
    program.action("act", [], assign(EGRESS_SPEC, hexstr(1)), check)
    program.run("act")
    switch = load(program)
    assert switch.inject(0, bytes([1])) == [(1, bytes([1]))]
    assert switch.inject(0, bytes([2])) == []
    assert switch.log_lines() == ["assert failed: assert(h.a == 1) (x.p4:3)"]
    assert switch.drops()["ingress_drop"] == 1


def test_log_msg_fills_in_its_values(load: Load) -> None:
    program = ProgramBuilder()
    program.add_type("in_t", [["a", 8, False], ["b", 16, True]])
    program.add_header("in", "in_t")
    program.state("start", program.extract("in"))
    values = {"type": "parameters_vector", "value": [field("in", "a"), field("in", "b")]}
    program.action("act", [], call("log_msg", {"type": "string", "value": 'a={} "b"={}?'}, values))
    program.run("act")
    switch = load(program)
    switch.inject(0, bytes([200, 0xFF, 0xFE]))
    assert switch.log_lines() == ['a=200 "b"=-2?']


def test_action_parameters_of_every_width_arrive_whole(load: Load) -> None:
    widths = [1, 8, 9, 33, 64, 65, 128, 129, 300]
    program = ProgramBuilder()
    program.header("in", [["k", 8]])
    program.state("start", program.extract("in"))
    total = sum(widths)
    program.header("out", [[f"w{n}", bits] for n, bits in enumerate(widths)] + [["pad", -total % 8 or 8]])
    program.action(
        "act",
        [(f"p{n}", bits) for n, bits in enumerate(widths)],
        call("add_header", header("out")),
        *(assign(field("out", f"w{n}"), param(n)) for n in range(len(widths))),
        assign(EGRESS_SPEC, hexstr(1)),
    )
    program.action("double", [("p", 300)], call("add_header", header("out")), assign(EGRESS_SPEC, hexstr(1)),
                   assign(field("out", "w8"), wrapped(op("+", local(0), local(0)))))  # fmt: skip
    program.table("t", [("exact", field("in", "k"))], ["act", "double"])
    switch = load(program)
    source = random.Random(5)
    values = [source.getrandbits(bits) for bits in widths]
    table = Objects(switch).table("t")
    table.insert([1], "act", values)
    table.insert([2], "double", [values[-1]])
    assert [entry.parameters for entry in table] == [tuple(values), (values[-1],)]
    [(_, out)] = switch.inject(0, b"\x01")
    packed = int.from_bytes(out[1:], "big") >> (-total % 8 or 8)
    for bits, value in reversed(list(zip(widths, values, strict=True))):
        assert packed & ((1 << bits) - 1) == value
        packed >>= bits
    [(_, out)] = switch.inject(0, b"\x02")
    packed = int.from_bytes(out[1:], "big") >> (-total % 8 or 8)
    assert packed & ((1 << 300) - 1) == 2 * values[-1] & ((1 << 300) - 1)


# ---- hashes ----


def crc(data: bytes, width: int, polynomial: int, start: int, reflect: bool, final: int) -> int:
    """Compute a CRC bit by bit."""
    register = start
    for byte in data:
        if reflect:
            byte = int(f"{byte:08b}"[::-1], 2)
        register ^= byte << (width - 8)
        for _ in range(8):
            top = register >> (width - 1)
            register = (register << 1 ^ (polynomial if top else 0)) & ((1 << width) - 1)
    if reflect:
        register = int(f"{register:0{width}b}"[::-1], 2)
    return register ^ final


def csum16(data: bytes) -> int:
    total = sum(int.from_bytes((data + b"\0")[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def xor(data: bytes, size: int) -> int:
    data += bytes(-len(data) % size)
    result = 0
    for at in range(0, len(data), size):
        result ^= int.from_bytes(data[at : at + size], "big")
    return result


HASHES: dict[str, Callable[[bytes], int]] = {
    "crc16": lambda data: crc(data, 16, 0x8005, 0, True, 0),
    "crc16_custom": lambda data: crc(data, 16, 0x8005, 0, True, 0),
    "crc32": binascii.crc32,
    "crc32_custom": binascii.crc32,
    "crcCCITT": lambda data: crc(data, 16, 0x1021, 0xFFFF, False, 0),
    "crc8_custom": lambda data: crc(data, 8, 0x07, 0, False, 0),
    "crc64_custom": lambda data: crc(data, 64, 0x1B, 0, True, 0),
    "csum16": csum16,
    "xor16": lambda data: xor(data, 2),
    "xor32": lambda data: xor(data, 4),
    "identity": lambda data: int.from_bytes(data[:8], "big"),
}
SHAPES = {
    "bytes": [8, 16, 32, 24],
    "ragged": [3, 13, 1, 30, 64, 7],
    "long": [128, 300, 16, 4],
    "short": [12],
}


@pytest.mark.parametrize("shape", SHAPES)
def test_hashes_agree_with_their_definitions(shape: str, load: Load) -> None:
    widths = SHAPES[shape]
    total = sum(widths)
    program = ProgramBuilder()
    program.header("in", [[f"f{n}", bits] for n, bits in enumerate(widths)] + [["pad", -total % 8 or 8]])
    program.header("absent", [["x", 16]])
    program.metadata([[algorithm, 64] for algorithm in HASHES])
    program.state("start", program.extract("in"))
    inputs = [field("in", f"f{n}") for n in range(len(widths))]
    constant = {"type": "hexstr", "value": "0xabcd", "bitwidth": 16}
    for number, algorithm in enumerate(HASHES):
        # A field of an invalid header is left out.
        program.sections["calculations"].append(
            {"name": algorithm, "id": number, "algo": algorithm, "input": [*inputs, field("absent", "x"), constant]}
        )
    program.action(
        "compute",
        [],
        *(
            call("modify_field_with_hash_based_offset", field("meta", algorithm), hexstr(0),
                 {"type": "calculation", "value": algorithm}, hexstr((1 << 64) - 1))
            for algorithm in HASHES
        ),
    )  # fmt: skip
    program.run("compute", following="tbl_report")
    add_report(program, [(algorithm, 64, field("meta", algorithm)) for algorithm in HASHES])
    switch = load(program, "tbl_compute")
    source = random.Random(shape)
    for _ in range(20):
        packed = source.getrandbits(total)
        frame = (packed << (-total % 8 or 8)).to_bytes((total + (-total % 8 or 8)) // 8, "big")
        values, rest = reported(switch, frame, [8] * len(HASHES))
        assert rest == frame
        bits = packed << 16 | 0xABCD
        data = (bits << (-(total + 16) % 8)).to_bytes((total + 16 + 7) // 8, "big")
        expected = {name: function(data) % ((1 << 64) - 1) for name, function in HASHES.items()}
        assert dict(zip(HASHES, values, strict=True)) == expected


def test_a_hash_stays_within_base_and_size(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["key", 32], ["size", 16]])
    program.metadata([["fixed", 16], ["given", 16]])
    program.state("start", program.extract("in"))
    program.sections["calculations"].append({"name": "c", "id": 0, "algo": "crc32", "input": [field("in", "key")]})
    hashed = {"type": "calculation", "value": "c"}
    program.action(
        "compute",
        [],
        call("modify_field_with_hash_based_offset", field("meta", "fixed"), hexstr(100), hashed, hexstr(7)),
        call("modify_field_with_hash_based_offset", field("meta", "given"), hexstr(100), hashed, field("in", "size")),
    )
    program.run("compute", following="tbl_report")
    add_report(program, [("fixed", 16, field("meta", "fixed")), ("given", 16, field("meta", "given"))])
    switch = load(program, "tbl_compute")
    for key in range(30):
        data = key.to_bytes(4, "big")
        for size in (0, 1, 5):
            values, _ = reported(switch, data + size.to_bytes(2, "big"), [2, 2])
            assert values == [100 + binascii.crc32(data) % 7, 100 + binascii.crc32(data) % max(size, 1)]


def test_random_numbers_keep_to_both_bounds(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["low", 64], ["high", 64]])
    program.metadata([["value", 64]])
    program.state("start", program.extract("in"))
    program.action(
        "draw",
        [],
        assign(field("meta", "value"), hexstr(0xDEAD)),
        call("modify_field_rng_uniform", field("meta", "value"), field("in", "low"), field("in", "high")),
    )
    program.run("draw", following="tbl_report")
    add_report(program, [("value", 64, field("meta", "value"))])
    switch = load(program, "tbl_draw")

    def draw(low: int, high: int) -> int:
        return reported(switch, low.to_bytes(8, "big") + high.to_bytes(8, "big"), [8])[0][0]

    assert {draw(3, 5) for _ in range(200)} == {3, 4, 5}
    assert draw(9, 9) == 9
    assert draw(9, 8) == 0xDEAD
    wide = [draw(0, (1 << 64) - 1) for _ in range(50)]
    assert len(set(wide)) == 50
    assert max(wide) > 1 << 60


# ---- headers ----


def test_packet_length_at_egress_counts_added_and_removed_headers(load: Load) -> None:
    program = ProgramBuilder()
    program.header("old", [["x", 24]])
    program.header("new", [["y", 40]])
    program.state("start", program.extract("old"))
    program.action("act", [], call("remove_header", header("old")), call("add_header", header("new")),
                   assign(EGRESS_SPEC, hexstr(1)))  # fmt: skip
    program.run("act")
    length = field("standard_metadata", "packet_length")
    add_report(program, [("length", 32, length)], pipeline="egress")
    [(_, out)] = load(program).inject(0, bytes(3) + b"payload")
    assert split(out, [4]) == ([3 - 3 + 5 + 7], bytes(5) + b"payload")


def test_a_removed_header_keeps_its_values_until_it_is_added_again(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["a", 8]])
    program.header("out", [["before", 8], ["after", 8]])
    program.state("start", program.extract("in"), program.extract("out"))
    program.action(
        "act", [], call("remove_header", header("in")), assign(field("out", "before"), field("in", "a")),
        call("add_header", header("in")), assign(field("out", "after"), field("in", "a")),
        call("remove_header", header("in")), assign(EGRESS_SPEC, hexstr(1)),
    )  # fmt: skip
    program.run("act")
    switch = load(program)
    assert switch.inject(0, bytes([5, 9, 9])) == [(1, bytes([5, 0]))]
    assert switch.inject(0, bytes([6, 9, 9])) == [(1, bytes([6, 0]))]


def test_an_added_header_is_zero_and_a_valid_one_stays(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["a", 8]])
    program.header("other", [["b", 8]])
    program.state("start", program.extract("in"))
    program.action(
        "act",
        [],
        assign(field("other", "b"), hexstr(9)),
        call("add_header", header("other")),
        call("add_header", header("in")),
        assign(EGRESS_SPEC, hexstr(1)),
    )
    program.run("act")
    assert load(program).inject(0, bytes([5])) == [(1, bytes([5, 0]))]


def test_headers_that_outgrow_the_buffer_are_dropped_and_counted(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["a", 8]])
    program.header("large", [["b", 8 * 3000]])
    program.state("start", program.extract("in"))
    program.action("act", [], call("add_header", header("large")), assign(EGRESS_SPEC, hexstr(1)))
    program.run("act")
    switch = load(program)
    [(_, out)] = switch.inject(0, bytes(1000))
    assert len(out) == 4000
    assert switch.inject(0, bytes(3000)) == []
    assert switch.drops()["oversize"] == 1
