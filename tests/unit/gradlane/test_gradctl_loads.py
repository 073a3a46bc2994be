# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""gradctl loads what a verb needs when it is called, and all its verbs are there."""

import json
import subprocess
import sys

import pytest

from controller.cli import run
from gradlane.cli import app

HEAVY = ("grpc", "numpy", "p4", "pydantic", "scipy", "yaml")
SAY_WHAT_IS_LOADED = f"""
import contextlib, io, json, sys
from controller.cli import run
from gradlane.cli import app
with contextlib.redirect_stdout(io.StringIO()):
    code = run(app, sys.argv[1:])
print(json.dumps([code, [name for name in {HEAVY} if name in sys.modules]]))
"""


@pytest.mark.parametrize("arguments", [["--help"], ["status", "--help"], ["replay", "--help"]], ids=" ".join)
def test_help_waits_for_no_heavy_library(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SAY_WHAT_IS_LOADED, *arguments], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [0, []]


@pytest.mark.parametrize(
    ("group", "verbs"),
    [
        ("policy", ["validate", "plan", "apply", "rollback", "show", "history", "schema"]),
        ("topology", ["schema"]),
        ("trace", ["record", "show"]),
        ("schedule", ["synth", "verify", "show", "export", "compare"]),
    ],
)
def test_every_group_has_its_verbs(group: str, verbs: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(app, [group, "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in verbs)
    for verb in verbs:
        assert run(app, [group, verb, "--help"]) == 0
    assert run(app, [group, "fly"]) == 2
    assert "No such command 'fly'" in capsys.readouterr().err
