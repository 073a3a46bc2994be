# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""docs/targets.md names tests that exist, and tables that the programs have."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DOCUMENT = (ROOT / "docs/targets.md").read_text()


def test_every_test_that_is_named_exists() -> None:
    tests = list((ROOT / "tests").rglob("test_*.py"))
    defined = {name for file in tests for name in re.findall(r"def (test_\w+)", file.read_text())}
    defined |= {file.name for file in tests}
    named = set(re.findall(r"`(test_\w+(?:\.py)?)`", DOCUMENT))
    assert named, "none is named"
    assert named <= defined, f"no such test: {sorted(named - defined)}"


def test_both_programs_have_the_same_tables_but_for_those_the_document_names() -> None:
    def tables(target: str) -> set[str]:
        files = [*(ROOT / "p4src/shared").glob("*.p4"), *(ROOT / f"p4src/{target}").glob("*.p4")]
        return {name for file in files for name in re.findall(r"(?<!@hidden\n    )\btable (\w+) \{", file.read_text())}

    differing = tables("v1model") ^ tables("tna")
    assert differing == {"path_group_alternative", "importance_color", "trim_session"}
    assert all(f"`{name}`" in DOCUMENT for name in differing)


def test_the_action_that_both_programs_write_down_has_one_signature() -> None:
    def parameters(target: str) -> list[str]:
        text = (ROOT / f"p4src/{target}/spray.p4").read_text()
        (arguments,) = re.findall(r"action set_path\((.*?)\) \{", text)
        return re.findall(r'@name\("(\w+)"\)', arguments)

    assert parameters("v1model") == parameters("tna") == ["next_hop", "port"]
