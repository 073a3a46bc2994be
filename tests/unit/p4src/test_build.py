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
    assert build.unexpected_warnings(f"{known}\n    table path_group {{\n{other}\n") == [other]


def test_every_alias_of_the_control_plane_is_a_plain_name() -> None:
    """Controllers use aliases: a dotted one would mean that two objects share a name."""
    info = read_p4info(ROOT / COMPILED / P4INFO)
    objects = [*info.tables, *info.actions, *info.counters, *info.direct_counters, *info.action_profiles]
    dotted = [one.preamble.alias for one in objects if "." in one.preamble.alias]
    assert dotted == []


def test_every_table_has_a_size() -> None:
    info = read_p4info(ROOT / COMPILED / P4INFO)
    assert all(table.size > 1 for table in info.tables)
