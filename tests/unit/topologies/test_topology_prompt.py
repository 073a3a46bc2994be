# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Mininet's prompt goes on after whatever a line of it meets."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from topologies.errors import UsageError
from topologies.prompt import prompt


class Net(dict[str, object]):
    """A network without nodes, but with a switch that knows none of the verbs of Open vSwitch."""

    switches = (SimpleNamespace(name="s1"),)


def refuse(line: str) -> str:
    raise UsageError(f"no {line}")


def test_the_prompt_outlives_what_its_verbs_raise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = tmp_path / "script"
    script.write_text("ours thing\nsource /nowhere\ndpctl show\nsaid\n")
    with script.open() as stdin:
        prompt(Net(), {"ours": refuse, "said": lambda line: "the end"}, stdin)
    shown = capsys.readouterr().out
    assert re.findall("error: ([a-z]+ [/a-z]+)", shown) == ["no thing", "source /nowhere", "dpctl show"]
    assert "the end" in shown
