# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from bmv2_json import EGRESS_SPEC, ProgramBuilder, assign, call, field, header, hexstr, op, param, wrapped
from reports import add_report, reported
from test_actions import csum16

from softswitch.objects import MemberOfGroup, ObjectError, Objects
from softswitch.switch import Switch

Load = Callable[..., Switch]
SECOND = 10**9


def one_byte(*primitives: object) -> ProgramBuilder:
    program = ProgramBuilder()
    program.header("in", [["a", 8], ["b", 8]])
    program.state("start", program.extract("in"))
    program.action("act", [], assign(EGRESS_SPEC, hexstr(1)), *primitives)  # type: ignore[arg-type]
    program.run("act")
    return program


# ---- counters, registers, meters ----


def test_a_counter_counts_packets_and_bytes_and_ignores_a_wrong_index(load: Load) -> None:
    program = one_byte(call("count", {"type": "counter_array", "value": "c"}, field("in", "a")))
    program.sections["counter_arrays"].append({"name": "c", "id": 0, "is_direct": False, "size": 4})
    switch = load(program)
    for index in (3, 3, 4, 255):
        switch.inject(0, bytes([index, 0]) + bytes(10))
    objects = Objects(switch)
    assert [objects.counter("c", index) for index in range(4)] == [(0, 0), (0, 0), (0, 0), (2, 24)]


def test_direct_counters_count_hits_and_misses(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["a", 8]])
    program.state("start", program.extract("in"))
    program.action("act", [], assign(EGRESS_SPEC, hexstr(1)))
    program.table("t", [("exact", field("in", "a"))], ["act"], default=("act", []), with_counters=True)
    switch = load(program)
    table = Objects(switch).table("t")
    table.insert([1], "act")
    for value in (1, 1, 2):
        switch.inject(0, bytes([value]) + bytes(4))
    assert [(entry.packets, entry.bytes) for entry in table] == [(2, 10)]
    out = table.objects.ffi.new("struct ss_entry *")
    table.objects.lib.ss_table_get_default(table.raw, out, table.objects.ffi.NULL)
    assert (out.packets, out.bytes) == (1, 5)


@pytest.mark.parametrize("bits", [1, 8, 17, 64, 128, 200])
def test_registers_keep_values_of_any_width(bits: int, load: Load) -> None:
    program = ProgramBuilder()
    spare = -bits % 8
    program.header("in", [["write", 8], ["index", 8], ["value", bits], *([["pad", spare]] if spare else [])])
    program.metadata([["read", bits]])
    program.state("start", program.extract("in"))
    program.sections["register_arrays"].append({"name": "r", "id": 0, "size": 5, "bitwidth": bits})
    reg = {"type": "register_array", "value": "r"}
    program.action(
        "act",
        [],
        call("_jump_if_zero", field("in", "write"), hexstr(2)),
        call("register_write", reg, field("in", "index"), field("in", "value")),
        call("register_read", field("meta", "read"), reg, field("in", "index")),
    )
    program.run("act", following="tbl_report")
    add_report(program, [("read", -(-bits // 8) * 8, field("meta", "read"))])
    switch = load(program, "tbl_act")
    objects = Objects(switch)
    size = (bits + 7) // 8

    def ask(write: int, index: int, value: int) -> int:
        frame = bytes([write, index]) + (value << spare).to_bytes(size, "big")
        return reported(switch, frame, [size])[0][0]

    value = (1 << bits) - 1 if bits < 3 else (1 << bits) - 3
    assert ask(1, 4, value) == value
    assert ask(0, 4, 0) == value
    assert ask(0, 3, 0) == 0
    assert ask(1, 5, value) == 0
    assert objects.register("r", 4) == value
    objects.set_register("r", 3, value - 1)
    assert ask(0, 3, 0) == value - 1
    with pytest.raises(ObjectError):
        objects.register("r", 5)


def meter_switch(load: Load, kind: str) -> tuple[Switch, Objects]:
    program = ProgramBuilder()
    program.header("in", [["index", 8]])
    program.metadata([["colour", 8]])
    program.state("start", program.extract("in"))
    program.sections["meter_arrays"].append(
        {"name": "m", "id": 0, "is_direct": False, "size": 2, "rate_count": 2, "type": kind}
    )
    program.action(
        "act",
        [],
        assign(field("meta", "colour"), hexstr(9)),
        call("execute_meter", {"type": "meter_array", "value": "m"}, field("in", "index"), field("meta", "colour")),
    )
    program.run("act", following="tbl_report")
    add_report(program, [("colour", 8, field("meta", "colour"))])
    switch = load(program, "tbl_act")
    switch.set_clock(SECOND)
    return switch, Objects(switch)


def colours(switch: Switch, count: int, frame: bytes = b"\0") -> list[int]:
    return [reported(switch, frame, [1])[0][0] for _ in range(count)]


def test_a_meter_without_rates_is_green_and_a_wrong_index_leaves_the_colour(load: Load) -> None:
    switch, _ = meter_switch(load, "packets")
    assert colours(switch, 3) == [0, 0, 0]
    assert colours(switch, 1, b"\2") == [9]


def test_a_meter_honours_bursts_and_rates(load: Load) -> None:
    switch, objects = meter_switch(load, "packets")
    objects.set_meter("m", 0, cir=10, cburst=2, pir=20, pburst=5)
    assert colours(switch, 7) == [0, 0, 1, 1, 1, 2, 2]
    switch.set_clock(SECOND + SECOND // 10)  # one committed and two peak tokens
    assert colours(switch, 3) == [0, 1, 2]
    switch.set_clock(9 * SECOND)  # full again, no more than the bursts
    assert colours(switch, 7) == [0, 0, 1, 1, 1, 2, 2]


def test_a_meter_of_bytes_charges_the_length_of_packets(load: Load) -> None:
    switch, objects = meter_switch(load, "bytes")
    objects.set_meter("m", 0, cir=1000, cburst=100, pir=1000, pburst=150)
    assert colours(switch, 4, bytes(50)) == [0, 0, 1, 2]


def test_a_meter_keeps_its_mean_rate(load: Load) -> None:
    switch, objects = meter_switch(load, "packets")
    objects.set_meter("m", 0, cir=333, cburst=1, pir=1000, pburst=1000)
    green = 0
    for tick in range(2000):
        switch.set_clock(SECOND + tick * SECOND // 1000)
        green += colours(switch, 1) == [0]
    assert abs(green - 666) <= 2


def test_a_peak_rate_below_the_committed_one_is_refused(load: Load) -> None:
    _, objects = meter_switch(load, "packets")
    with pytest.raises(ObjectError):
        objects.set_meter("m", 0, cir=10, cburst=1, pir=9, pburst=1)


def test_a_direct_meter_colours_hits_and_forgets_a_removed_entry(load: Load) -> None:
    program = ProgramBuilder()
    program.header("in", [["a", 8]])
    program.metadata([["colour", 8]])
    program.state("start", program.extract("in"))
    program.sections["meter_arrays"].append(
        {"name": "m", "id": 0, "is_direct": True, "size": 8, "rate_count": 2, "type": "packets", "binding": "t",
         "result_target": ["meta", "colour"]}
    )  # fmt: skip
    program.action("act", [])
    program.table("t", [("exact", field("in", "a"))], ["act"], default=("act", []), direct_meters="m",
                  following="tbl_report", size=8)  # fmt: skip
    add_report(program, [("colour", 8, field("meta", "colour"))])
    switch = load(program, "t")
    switch.set_clock(SECOND)
    objects = Objects(switch)
    table = objects.table("t")
    table.insert([1], "act")
    table.insert([2], "act")
    objects.set_meter("m", 1, cir=1, cburst=1, pir=1, pburst=2)
    assert colours(switch, 3, b"\1") == [0, 0, 0]
    assert colours(switch, 3, b"\2") == [0, 1, 2]
    table.remove([2])
    table.insert([3], "act")
    assert colours(switch, 3, b"\3") == [0, 0, 0]


# ---- digests, truncation, preserved metadata ----


def test_a_digest_carries_the_values_of_the_end_of_ingress(load: Load) -> None:
    program = one_byte(
        call("generate_digest", hexstr(1), hexstr(1)),
        assign(field("meta", "wide"), hexstr(0x1FFFFFFFFFFFFFFFFF)),
        assign(field("in", "b"), hexstr(0x77)),
    )
    program.metadata([["wide", 70]])
    elements = [field("in", "b"), field("meta", "wide"), field("standard_metadata", "ingress_port")]
    program.sections["learn_lists"].append({"name": "d", "id": 1, "elements": elements})
    switch = load(program)
    switch.inject(5, bytes([1, 2]))
    expected = b"\x77" + 0x1FFFFFFFFFFFFFFFFF.to_bytes(9, "big") + (5).to_bytes(2, "big")
    assert switch.digests() == [(1, expected)]


def test_truncation_cuts_the_frame_as_sent(load: Load) -> None:
    program = one_byte(call("truncate", field("in", "a")), call("add_header", header("more")))
    program.header("more", [["x", 16]])
    program.order.insert(0, program.order.pop())
    switch = load(program)
    assert switch.inject(0, bytes([3, 9]) + b"payload") == [(1, bytes([0, 0, 3]))]
    assert switch.inject(0, bytes([99, 9]) + b"x") == [(1, bytes([0, 0, 99, 9]) + b"x")]


def again(load: Load, primitive: str, pipeline: str) -> Switch:
    """Send a packet round once; it tells which of two metadata fields came along, and what was zero."""
    program = ProgramBuilder()
    program.header("in", [["a", 8], ["b", 8]])
    program.metadata([["kept", 16], ["lost", 16]])
    program.state("start", program.extract("in"))
    program.sections["field_lists"].append({"name": "l", "id": 1, "elements": [field("meta", "kept")]})
    instance = field("standard_metadata", "instance_type")
    program.action(
        "first",
        [],
        assign(field("meta", "kept"), hexstr(0x1234)),
        assign(field("meta", "lost"), hexstr(0x5678)),
        assign(field("in", "b"), hexstr(1)),
        assign(EGRESS_SPEC, hexstr(1)),
    )
    program.action("second", [], call(primitive, hexstr(1)))
    program.condition("fresh", op("==", instance, hexstr(0)), "tbl_first", "tbl_report")
    following = "tbl_second" if pipeline == "ingress" else None
    program.run("first", following=following)
    program.run("second", pipeline=pipeline)
    add_report(
        program,
        [("kept", 16, field("meta", "kept")), ("lost", 16, field("meta", "lost")), ("instance", 8, instance)],
    )
    if pipeline == "egress":
        program.condition("once", op("d2b", None, field("meta", "lost")), "tbl_second", None, "egress")
        return load(program, "fresh", "once")
    return load(program, "fresh")


def test_resubmit_keeps_the_listed_metadata_and_the_original_bytes(load: Load) -> None:
    switch = again(load, "resubmit", "ingress")
    assert reported(switch, bytes([7, 0]), [2, 2, 1]) == ([0x1234, 0, 6], bytes([7, 0]))


def test_recirculate_keeps_the_listed_metadata_and_the_deparsed_bytes(load: Load) -> None:
    switch = again(load, "recirculate", "egress")
    assert reported(switch, bytes([7, 0]), [2, 2, 1]) == ([0x1234, 0, 4], bytes([7, 1]))


# ---- selectors ----


def selector(load: Load, algorithm: str, inputs: list[tuple[str, int]]) -> tuple[Switch, Objects]:
    program = ProgramBuilder()
    program.header("in", [["group", 8], *([name, bits] for name, bits in inputs)])
    program.state("start", program.extract("in"))
    program.action("send", [("port", 9)], assign(EGRESS_SPEC, param(0)))
    program.action("miss", [], assign(EGRESS_SPEC, hexstr(7)))
    profile = {"name": "p", "id": 0, "max_size": 64,
               "selector": {"algo": algorithm, "input": [field("in", name) for name, _ in inputs]}}  # fmt: skip
    program.pipelines["ingress"]["action_profiles"].append(profile)
    program.table(
        "t",
        [("exact", field("in", "group"))],
        ["send"],
        type="indirect_ws",
        action_profile="p",
        following={"__HIT__": None, "__MISS__": "tbl_miss"},
    )
    program.run("miss")
    return (switch := load(program, "t")), Objects(switch)


def ports(switch: Switch, group: int, values: range) -> list[int]:
    return [switch.inject(0, bytes([group]) + value.to_bytes(2, "big"))[0][0] for value in values]


def test_an_identity_selector_walks_the_members_by_ascending_id(load: Load) -> None:
    switch, objects = selector(load, "identity", [("h", 16)])
    profile, table = objects.profile("p"), objects.table("t")
    for member, port in ((30, 3), (10, 1), (20, 2)):
        profile.insert_member(member, "send", [port])
    profile.insert_group(1, [MemberOfGroup(30), MemberOfGroup(10), MemberOfGroup(20)])
    table.insert([1], group=1)
    table.insert([2], member=20)
    assert ports(switch, 1, range(6)) == [1, 2, 3, 1, 2, 3]
    assert ports(switch, 2, range(3)) == [2, 2, 2]
    assert ports(switch, 9, range(2)) == [7, 7]
    profile.modify_member(20, "send", [5])
    assert ports(switch, 1, range(3)) == [1, 5, 3]


def test_members_of_a_shared_selector_may_name_either_tables_copy_of_an_action(load: Load) -> None:
    """p4c copies an action for each table that uses it; tables that share a profile run either copy."""
    program = ProgramBuilder()
    program.header("in", [["group", 8], ["h", 16]])
    program.state("start", program.extract("in"))
    program.action("send", [("port", 9)], assign(EGRESS_SPEC, param(0)))
    program.action("send_1", [("port", 9)], assign(EGRESS_SPEC, param(0)))
    profile = {"name": "p", "id": 0, "max_size": 64, "selector": {"algo": "identity", "input": [field("in", "h")]}}
    program.pipelines["ingress"]["action_profiles"].append(profile)
    for name, action, following in (("first", "send", None), ("second", "send_1", None)):
        program.table(
            name, [("exact", field("in", "group"))], [action], type="indirect_ws", action_profile="p",
            following={"__HIT__": following, "__MISS__": "second" if name == "first" else None},
        )  # fmt: skip
    switch = load(program, "first")
    objects = Objects(switch)
    members = objects.profile("p")
    members.insert_member(1, "send", [1])
    members.insert_member(2, "send_1", [2])
    members.insert_group(1, [MemberOfGroup(1), MemberOfGroup(2)])
    objects.table("first").insert([1], group=1)
    objects.table("second").insert([2], group=1)
    assert ports(switch, 1, range(4)) == ports(switch, 2, range(4)) == [1, 2, 1, 2]


def test_weights_give_shares(load: Load) -> None:
    switch, objects = selector(load, "identity", [("h", 16)])
    profile = objects.profile("p")
    for member in (1, 2):
        profile.insert_member(member, "send", [member])
    profile.insert_group(1, [MemberOfGroup(1, weight=1), MemberOfGroup(2, weight=3)])
    objects.table("t").insert([1], group=1)
    assert Counter(ports(switch, 1, range(40))) == {1: 10, 2: 30}


def test_a_member_that_watches_a_port_leaves_and_returns_with_it(load: Load) -> None:
    switch, objects = selector(load, "identity", [("h", 16)])
    profile = objects.profile("p")
    for member in (1, 2):
        profile.insert_member(member, "send", [member])
    profile.insert_group(1, [MemberOfGroup(member, watch=member) for member in (1, 2)])
    objects.table("t").insert([1], group=1)
    assert ports(switch, 1, range(4)) == [1, 2, 1, 2]
    switch.set_port_up(1, False)
    assert ports(switch, 1, range(4)) == [2, 2, 2, 2]
    switch.set_port_up(2, False)
    assert ports(switch, 1, range(2)) == [7, 7]  # an empty group is a miss
    switch.set_port_up(1, True)
    switch.set_port_up(2, True)
    assert ports(switch, 1, range(4)) == [1, 2, 1, 2]


@pytest.mark.parametrize("algorithm", ["crc16", "crc32", "random", "round_robin"])
def test_selectors_spread_over_all_members(algorithm: str, load: Load) -> None:
    switch, objects = selector(load, algorithm, [("h", 16)])
    profile = objects.profile("p")
    for member in (1, 2, 3):
        profile.insert_member(member, "send", [member])
    profile.insert_group(1, [MemberOfGroup(member) for member in (1, 2, 3)])
    objects.table("t").insert([1], group=1)
    found = ports(switch, 1, range(300))
    assert min(Counter(found)[member] for member in (1, 2, 3)) > 60
    if algorithm == "round_robin":
        assert found[:6] == [1, 2, 3, 1, 2, 3]
    if algorithm.startswith("crc"):
        assert found == ports(switch, 1, range(300))


def test_what_is_in_use_is_not_removed(load: Load) -> None:
    _, objects = selector(load, "identity", [("h", 16)])
    profile, table = objects.profile("p"), objects.table("t")
    profile.insert_member(1, "send", [1])
    profile.insert_member(2, "send", [2])
    profile.insert_group(1, [MemberOfGroup(1)])
    table.insert([1], group=1)
    table.insert([2], member=2)
    for refused in (
        lambda: profile.remove_member(1),
        lambda: profile.remove_group(1),
        lambda: profile.remove_member(2),
    ):
        with pytest.raises(ObjectError) as error:
            refused()
        assert error.value.status == "in use"
    with pytest.raises(ObjectError, match="not found"):
        profile.modify_group(1, [MemberOfGroup(9)])
    table.remove([1])
    profile.remove_group(1)
    profile.remove_member(1)
    table.modify([2], member=2)
    table.remove([2])
    profile.remove_member(2)


# ---- checksums ----


def checksummed(load: Load, *, payload: bool) -> Switch:
    program = ProgramBuilder()
    program.header("h", [["a", 4], ["b", 12], ["c", 32], ["sum", 16]])
    program.header("absent", [["x", 16]])
    program.state("start", program.extract("h"))
    inputs: list[object] = [field("h", "a"), field("h", "b"), field("absent", "x"), field("h", "c")]
    if payload:
        inputs.append({"type": "payload", "value": None})
    program.sections["calculations"].append({"name": "calc", "id": 0, "algo": "csum16", "input": inputs})
    common = {"target": ["h", "sum"], "type": "generic", "calculation": "calc"}
    program.sections["checksums"] += [
        {
            "name": "v",
            "id": 0,
            "verify": True,
            "update": False,
            "if_cond": op("!=", field("h", "a"), hexstr(0)),
            **common,
        },
        {
            "name": "u",
            "id": 1,
            "verify": False,
            "update": True,
            "if_cond": op("==", field("h", "a"), hexstr(5)),
            **common,
        },
    ]
    error = field("standard_metadata", "checksum_error")
    program.action("act", [], assign(field("meta", "error"), wrapped(error)))
    program.metadata([["error", 8]])
    program.run("act", following="tbl_report")
    add_report(program, [("error", 8, field("meta", "error"))])
    return load(program, "tbl_act")


@pytest.mark.parametrize("payload", [False, True])
def test_checksums_are_verified_and_updated_under_their_conditions(payload: bool, load: Load) -> None:
    switch = checksummed(load, payload=payload)
    tail = b"odd" if payload else b"anything"

    def ask(a: int, given: int | None) -> tuple[int, int, int]:
        head = (a << 12 | 0xABC).to_bytes(2, "big") + bytes.fromhex("01020304")
        right = csum16(head + (tail if payload else b""))
        sent = head + (right if given is None else given).to_bytes(2, "big") + tail
        [error], rest = reported(switch, sent, [1])
        assert rest[:6] == head
        assert rest[8:] == tail
        return error, int.from_bytes(rest[6:8], "big"), right

    assert ask(1, None)[0] == 0
    error, left, _ = ask(1, 0x1111)
    assert (error, left) == (1, 0x1111)
    assert ask(0, 0x1111)[0] == 0
    error, mended, right = ask(5, 0x1111)
    assert (error, mended) == (1, right)
