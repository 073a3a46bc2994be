# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What cannot be compiled is refused by name and place, and a missing compiler is said in one line."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bmv2_json import EGRESS_SPEC, ProgramBuilder, assign, call, field, header, hexstr, op, wrapped

from softswitch import build as build_module
from softswitch.compiler import compile_program
from softswitch.errors import BuildError, ProgramError
from softswitch.native import ffi, opened

Document = dict[str, Any]


def document() -> Document:
    program = ProgramBuilder()
    program.header("in", [["a", 8], ["b", 8]])
    program.state("start", program.extract("in"), key=[field("in", "a")], cases=[("0x01", None, "start")])
    program.action("act", [("p", 8)], assign(field("in", "a"), hexstr(1)), assign(EGRESS_SPEC, hexstr(1)))
    program.table("t", [("exact", field("in", "a"))], ["act"], default=("act", [5]))
    return json.loads(json.dumps(program.document()))  # type: ignore[no-any-return]


def primitive(action: Any) -> Callable[[Document], None]:
    def change(document: Document) -> None:
        document["actions"][0]["primitives"].append(action)

    return change


def with_value(*path: Any) -> Callable[[Document], None]:
    *keys, last, value = path

    def change(document: Document) -> None:
        node: Any = document
        for key in keys:
            node = node[key]
        node[last] = value

    return change


TABLE = ("pipelines", 0, "tables", 0)
STATE = ("parsers", 0, "parse_states", 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (primitive(call("fly_away")), "actions/act/primitives[2]: primitive 'fly_away' is unknown"),
        (primitive(call("drop", hexstr(1))), "actions/act/primitives[2]: primitive 'drop' takes 0 parameters, not 1"),
        (primitive(assign(field("in", "z"), hexstr(1))), "primitives[2] assign: header type 'in_t' has no field 'z'"),
        (primitive(assign(field("out", "a"), hexstr(1))), "primitives[2] assign: no header 'out'"),
        (
            primitive(assign(field("in", "a"), wrapped(op("**", hexstr(1), hexstr(2))))),
            "actions/act/primitives[2] assign: operator '**' is unknown",
        ),
        (primitive(call("add_header", header("x"))), "primitives[2] add_header: no header 'x'"),
        (primitive(call("count", {"type": "counter_array", "value": "c"}, hexstr(0))), "count: no counter 'c'"),
        (primitive(call("_jump", hexstr(9))), "jumps to 9, beyond the action's end"),
        (primitive(call("generate_digest", hexstr(1), hexstr(3))), "no learn list 3"),
        (primitive(call("resubmit", hexstr(3))), "no field list 3"),
        (with_value(*TABLE, "key", 0, "match_type", "fuzzy"), "t/key[0]: match type 'fuzzy' is unknown"),
        (with_value(*TABLE, "key", 0, "target", ["in", "q"]), "t/key[0]: header type 'in_t' has no field 'q'"),
        (with_value(*TABLE, "type", "magic"), "pipelines/ingress/tables/t: table type 'magic' is unknown"),
        (with_value(*TABLE, "action_ids", [7]), "pipelines/ingress/tables/t: no action with id 7"),
        (with_value(*TABLE, "base_default_next", "x"), "pipelines/ingress/tables/t: no table or conditional 'x'"),
        (with_value(*TABLE, "default_entry", "action_data", []), "the default action 'act' takes 1 parameters"),
        (with_value(*STATE, "parser_ops", [{"op": "warp"}]), "start/parser_ops[0]: parser operation 'warp' is unknown"),
        (with_value(*STATE, "transitions", 0, "next_state", "x"), "parsers/parser/start/transitions[0]: no state 'x'"),
        (with_value("parsers", 0, "init_state", "x"), "parsers/parser: no state 'x'"),
        (with_value("headers", 1, "header_type", "x_t"), "headers/in: no header type 'x_t'"),
        (with_value("calculations", [{"name": "c", "id": 0}]), "calculations/c: lacks 'algo'"),
        (with_value("extern_instances", [{"name": "e", "type": "Thing"}]), "extern type 'Thing' is unknown"),
        (with_value("__meta__", {"version": [3, 0]}), "__meta__: BMv2 JSON version 3.0: only version 2 is known"),
        (with_value("gadgets", []), "unknown section 'gadgets'"),
        (with_value("deparsers", 0, "order", ["x"]), "deparsers/deparser/order: no header 'x'"),
        (with_value("pipelines", []), "pipelines: no pipeline 'ingress'"),
        (with_value("header_types", 1, "fields", [["a", None]]), "header_types/in_t: field 'a' has no width"),
        (with_value("actions", 0, "primitives", 5), "malformed BMv2 JSON"),
        (primitive({"op": "assign", "parameters": 5}), "actions/act/primitives[2]: malformed BMv2 JSON (TypeError"),
        (with_value(*TABLE, "key", 0, "target", 5), "tables/t/key[0]: "),
        (with_value(*TABLE, "action_ids", [0, 0]), "pipelines/ingress/tables/t: lists action 'act' twice"),
        (with_value("register_arrays", [{"name": "r", "id": 0, "size": 1 << 40, "bitwidth": 8}]),
         "register_arrays/r: has 1099511627776 cells: there is room for 0 to 134217728"),
        (with_value("register_arrays", [{"name": "r", "id": 0, "size": 1, "bitwidth": 0}]),
         "register_arrays/r: has cells of 0 bits"),
        (with_value("counter_arrays", [{"name": "c", "id": 0, "size": -1}]), "counter_arrays/c: has -1 cells"),
        (with_value("meter_arrays", [{"name": "m", "id": 0, "type": "bytes", "size": 1 << 25}]),
         "meter_arrays/m: has 33554432 cells"),
        (with_value("headers", 1, "header_type", "a\nb"), "headers/in: no header type 'a\\nb'"),
    ],
)  # fmt: skip
def test_what_is_unknown_is_refused_by_name_and_place(change: Callable[[Document], None], message: str) -> None:
    program = document()
    compile_program(program, "good.json")
    change(program)
    with pytest.raises(ProgramError) as refused:
        compile_program(program, "bad.json")
    assert str(refused.value).startswith("bad.json: ")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("algorithm", ["md5", "toeplitz"])
def test_an_unknown_hash_is_refused_where_it_stands(algorithm: str) -> None:
    program = document()
    program["calculations"] = [{"name": "c", "id": 0, "algo": algorithm, "input": []}]
    program["actions"][0]["primitives"] = [
        call("modify_field_with_hash_based_offset", field("in", "a"), hexstr(0),
             {"type": "calculation", "value": "c"}, hexstr(9))
    ]  # fmt: skip
    with pytest.raises(ProgramError, match=f"calculations/c: hash algorithm '{algorithm}' is unknown"):
        compile_program(program, "bad.json")


@pytest.mark.parametrize(("text", "message"), [("{", "not JSON"), ("[]", "not a BMv2 program"), ("{}", "lacks")])
def test_a_file_that_is_no_program_is_refused(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(ProgramError, match=message):
        build_module.build(path)


def test_a_missing_file_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ProgramError, match="No such file"):
        build_module.build(tmp_path / "none.json")


def test_a_missing_compiler_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(document()))
    monkeypatch.setenv("GRADLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(BuildError, match="no C compiler found .*install gcc or clang, or set CC"):
        build_module.build(path)
    monkeypatch.setenv("CC", "no-such-compiler -x")
    with pytest.raises(BuildError, match="no-such-compiler"):
        build_module.build(path)


@pytest.mark.parametrize(
    ("variable", "command", "complaint"),
    [
        ("CC", "true", "true ended well and wrote no tables-.*: it is no C compiler"),
        ("CC", "false", "false failed on tables-.*: it ended with 1"),
        ("CC", "sh -c 'echo one >&2; echo two >&2; exit 3'", "sh failed on tables-.*: one"),
        ("CC", "gcc 'x", r"\$CC: no closing quotation: gcc 'x"),
        ("CFLAGS", "-O0 'x", r"\$CFLAGS: no closing quotation: -O0 'x"),
    ],
)
def test_what_is_no_compiler_is_one_clear_line(
    variable: str, command: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(document()))
    if variable == "CC":
        monkeypatch.setenv("GRADLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv(variable, command)
    with pytest.raises(BuildError, match=complaint) as raised:
        build_module.build(path)
    assert "\n" not in str(raised.value)


def test_a_cache_that_cannot_be_written_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.json"
    path.write_text(json.dumps(document()))
    monkeypatch.setenv("GRADLANE_CACHE", str(tmp_path))

    def refused(**_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "x")

    build_module.tables_library()
    monkeypatch.setattr(build_module.tempfile, "TemporaryDirectory", refused)
    with pytest.raises(BuildError, match=f"cannot write into the build cache {tmp_path}: Permission denied"):
        build_module.library("more", [build_module.RUNTIME / "log.c"])


def test_a_library_that_was_cut_short_is_one_clear_line(tmp_path: Path) -> None:
    empty = tmp_path / "engine-0.so"
    empty.touch()
    with pytest.raises(BuildError, match="engine-0.so': .*file too short; remove it, and it is built anew$"):
        opened(ffi(), empty)


def test_a_program_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADLANE_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "p.json"
    path.write_text(json.dumps(document()))
    first = build_module.build(path)
    stamp = first.stat().st_mtime_ns
    assert first.parent == tmp_path / "cache"
    assert build_module.build(path) == first
    assert first.stat().st_mtime_ns == stamp
    changed = document()
    changed["actions"][0]["primitives"][0] = assign(field("in", "a"), hexstr(2))
    path.write_text(json.dumps(changed))
    assert build_module.build(path) != first
    left = {entry.name for entry in (tmp_path / "cache").iterdir()}
    assert not [name for name in left if name.startswith(".build-")]


def test_processes_that_start_together_compile_a_program_once(tmp_path: Path) -> None:
    path, calls, wrapper = tmp_path / "p.json", tmp_path / "calls", tmp_path / "cc"
    path.write_text(json.dumps(document()))
    compiler = " ".join(build_module.compiler_command())
    wrapper.write_text(f'#!/bin/sh\ncase "$*" in *-shared*) echo built >> {calls};; esac\nexec {compiler} "$@"\n')
    wrapper.chmod(0o755)
    environment = os.environ | {"GRADLANE_CACHE": str(tmp_path / "cache"), "CC": str(wrapper)}
    line = [sys.executable, "-c", f"from softswitch.build import build; print(build({str(path)!r}))"]
    processes = [subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = {process.communicate(timeout=100)[0] for process in processes}
    assert len(said) == 1 and Path(said.pop().strip()).exists()
    assert calls.read_text().split() == ["built", "built"]  # the tables and the program
    assert {entry.suffix for entry in (tmp_path / "cache").iterdir()} == {".so"}
