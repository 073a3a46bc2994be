# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Every command in the README does what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import topologies
from controller.reconcile import install
from topologies.mininet_fabric import MininetFabric

pytestmark = [pytest.mark.fabric, pytest.mark.timeout(240)]

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
COMMANDS = [
    command
    for block in re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
    if (command := line.partition("#")[0].strip())
] + re.findall(r"`(make [^`]+)`", README)
GRADCTL = ".venv/bin/gradctl"
ENDLESS = {"top": ["--count", "1"]}


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("readme")
    path = folder / "fabric.json"
    with MininetFabric(topologies.load("leaf_spine"), instance=None, state_path=path, logs=folder):
        install(path, "dlcp").check()
        yield path


def test_the_readme_names_commands() -> None:
    assert {"make run", "make test"} <= set(COMMANDS)
    assert sum(command.startswith(GRADCTL) for command in COMMANDS) >= 5


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith(GRADCTL)])
def test_gradctl_commands_work_on_a_running_fabric(command: str, state: Path) -> None:
    program, verb, *arguments = shlex.split(command)
    line = [ROOT / program, verb, *arguments, *ENDLESS.get(verb, []), "--fabric-state", state]
    done = subprocess.run(line, cwd=ROOT, input="exit\n", capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("command", sorted({command for command in COMMANDS if command.startswith("make")}))
def test_make_commands_are_targets_with_these_variables(command: str) -> None:
    """What the targets do is tested where it is done; here, that make knows them and takes the variables."""
    done = subprocess.run(
        [*shlex.split(command), "--dry-run"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    for value in re.findall(r"=(\S+)", command):
        assert value in done.stdout


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text()
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout
    targets = set(re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split())
    assert targets == set(re.findall(r"^  make (\S+)", listed, re.MULTILINE))
