# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What is committed under p4src/compiled is what the sources say, and a drift is noticed."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from p4src import build
from p4src.build import COMPILED, JSON, MANIFEST, P4INFO, BuildError, Manifest, check_hashes, read_p4info, sources

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources and artefacts, in a place where they can be spoilt."""
    shutil.copytree(ROOT / "p4src", tmp_path / "p4src", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


@pytest.mark.timeout(600)  # a p4c built without optimisation takes its time
def test_sources_and_artefacts_have_not_drifted_apart() -> None:
    """By hashes everywhere, by compiling where p4c is present."""
    assert build.check(ROOT)


def test_a_changed_source_is_noticed(copy: Path) -> None:
    with (copy / "p4src/shared/judge.p4").open("a") as file:
        file.write("// changed\n")
    with pytest.raises(BuildError, match=r"^p4src/shared/judge\.p4: changed since"):
        check_hashes(copy, Manifest.load(copy))


def test_a_new_source_is_noticed(copy: Path) -> None:
    (copy / "p4src/v1model/extra.p4").write_text("")
    with pytest.raises(BuildError, match=r"^p4src/v1model/extra\.p4: changed"):
        check_hashes(copy, Manifest.load(copy))


def test_a_removed_source_is_noticed(copy: Path) -> None:
    (copy / "p4src/shared/arp.p4").unlink()
    with pytest.raises(BuildError, match=r"^p4src/shared/arp\.p4: changed"):
        check_hashes(copy, Manifest.load(copy))


@pytest.mark.parametrize("name", [JSON, P4INFO])
def test_a_changed_artefact_is_noticed(copy: Path, name: str) -> None:
    with (copy / COMPILED / name).open("a") as file:
        file.write(" ")
    with pytest.raises(BuildError, match=re.escape(f"{COMPILED / name}: is not the file")):
        check_hashes(copy, Manifest.load(copy))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"compiler": "x"}'])
def test_a_broken_manifest_is_one_clear_line(copy: Path, text: str) -> None:
    (copy / COMPILED / MANIFEST).write_text(text)
    with pytest.raises(BuildError, match=r"^p4src/compiled/manifest\.json: [^\n]+$"):
        Manifest.load(copy)


def test_the_command_line_fails_on_drift(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def drifted(root: Path = ROOT) -> list[str]:
        raise BuildError("x.p4: changed")

    monkeypatch.setattr(build, "check", drifted)
    assert build.main(["--check"]) == 1
    assert capsys.readouterr().err == "x.p4: changed\n"


def test_without_a_compiler_the_hashes_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert build.build(ROOT) == [
        "v1model: not compiled: no p4c-bm2-ss on PATH",
        "v1model: sources and artefacts match the manifest",
    ]


def test_the_artefacts_name_no_machine() -> None:
    for name in (JSON, P4INFO, MANIFEST):
        assert not re.search(r'"(/|\.\./)[a-z]', (ROOT / COMPILED / name).read_text()), name
    assert json.loads((ROOT / COMPILED / JSON).read_text())["program"] == "p4src/v1model/gradlane.p4"


def test_the_manifest_names_sources_from_the_root() -> None:
    assert sources(ROOT).keys() == Manifest.load(ROOT).sources.keys()
    assert all(path.startswith("p4src/") for path in sources(ROOT))


def test_unexpected_warnings_are_told_from_the_known_one() -> None:
    known = "spray.p4(60): [--Wwarn=missing] warning: path_group: no default_action"
    other = "judge.p4(1): [--Wwarn=unused] warning: 'x' is unused"
    padded = "warning: Parser state min_parse_depth_accept_loop will be unrolled up to 4 times due to @pragma x."
    assert build.unexpected_warnings(f"{known}\n    table path_group {{\n{other}\n{padded}\n") == [other, padded]


CONSTRAINTS = """\
warning: Parser state x will be unrolled up to 4 times.
error: This program violates action constraints imposed by Tofino.

p4src/tna/ingress.p4(148):
        hdr.bridge.port_index = (bit<8>)meta.port_index;
        ^

  Action ingress148 must be rewritten, because it requires too many sources.
        Source 1 is action data/constant, which write(s) the following field slices:

error: PHV allocation was not successful
"""


@pytest.mark.parametrize(
    ("output", "line"),
    [
        ("", "the compiler said nothing"),
        ("\nKilled\n", "Killed"),
        (
            "a.p4(3): warning: x\na.p4(7): [--Werror=type-error] error: y\n    z = 1;\n    ^\na.p4(9): error: w\n",
            "a.p4(7): [--Werror=type-error] error: y",
        ),
        (
            CONSTRAINTS,
            "error: This program violates action constraints imposed by Tofino. | "
            "p4src/tna/ingress.p4(148): hdr.bridge.port_index = (bit<8>)meta.port_index; | "
            "Action ingress148 must be rewritten, because it requires too many sources.",
        ),
        ("error: one\nerror: PHV\np4src/a.p4(1):\n", "error: one"),
    ],
    ids=["silence", "no error", "with its place", "place below", "another error's place"],
)
def test_a_compilers_complaint_is_one_line_with_its_place(output: str, line: str) -> None:
    assert build.complaint(output) == line


def test_what_tofinos_compiler_says_is_kept_and_its_error_told(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for the compiler, and an assembly of an earlier run in its way."""
    (copy / "build/p4/tna").mkdir(parents=True)
    (copy / "build/p4/tna/old.bfa").write_text("parser ingress:\n")
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("p4c-barefoot", "p4c"):
        (tools / name).write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{CONSTRAINTS}END\nexit 1\n")
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    with pytest.raises(BuildError, match=r"^p4src/tna/gradlane\.p4: error: This program .*\(148\): [^\n]*$") as caught:
        build.compile_tna(copy)
    log = copy / "build/p4/tna/compiler.log"
    assert str(caught.value).endswith("(all of it in build/p4/tna/compiler.log)")
    assert log.read_text() == CONSTRAINTS
    assert not (copy / "build/p4/tna/old.bfa").exists()


def test_every_alias_of_the_control_plane_is_a_plain_name() -> None:
    """Controllers use aliases: a dotted one would mean that two objects share a name."""
    info = read_p4info(ROOT / COMPILED / P4INFO)
    objects = [*info.tables, *info.actions, *info.counters, *info.direct_counters, *info.action_profiles]
    dotted = [one.preamble.alias for one in objects if "." in one.preamble.alias]
    assert dotted == []


def test_every_table_has_a_size() -> None:
    info = read_p4info(ROOT / COMPILED / P4INFO)
    assert all(table.size > 1 for table in info.tables)
