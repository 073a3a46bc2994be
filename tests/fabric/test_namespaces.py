# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Network namespaces that belong to a process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from topologies import namespaces, processes

pytestmark = pytest.mark.fabric

ROOT = Path(__file__).parents[2]
OWNER = """
import subprocess
from topologies import namespaces
with namespaces.made("of-a-killed-process") as (name,):
    print(name, flush=True)
    subprocess.run(["ip", "netns", "exec", name, "sh", "-c", "echo $$; exec sleep 600"])
"""


def test_namespaces_of_a_killed_process_go_with_what_runs_in_them_and_others_stay() -> None:
    with namespaces.made("one", "two") as own:
        with subprocess.Popen([sys.executable, "-c", OWNER], cwd=ROOT, stdout=subprocess.PIPE, text=True) as owner:
            assert owner.stdout is not None
            name = owner.stdout.readline().strip()
            inside = processes.ProcessId.of(int(owner.stdout.readline()))
            assert inside is not None
            assert (namespaces.FOLDER / name).exists()
            assert namespaces.clear_orphaned() == []
            owner.kill()
        assert namespaces.clear_orphaned() == [name]
        assert not inside.is_running()
        assert all((namespaces.FOLDER / each).exists() for each in own)
        assert not (namespaces.FOLDER / name).exists()
    assert not any((namespaces.FOLDER / each).exists() for each in own)
