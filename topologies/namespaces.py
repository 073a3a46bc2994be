# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Named network namespaces that belong to a process, and those whose process was killed."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

from topologies import processes
from topologies.errors import FailureError

FOLDER = Path("/run/netns")
"""Where ip-netns(8) keeps them."""


@contextlib.contextmanager
def made(*what: str) -> Iterator[tuple[str, ...]]:
    """Give new namespaces, their loopback up, and always remove them; what killed processes left is removed before.

    Raises FailureError.
    """
    clear_orphaned()
    names = tuple(processes.own(each) for each in what)
    try:
        for name in names:
            for command in (["netns", "add", name], ["-n", name, "link", "set", "lo", "up"]):
                done = subprocess.run(["ip", *command], capture_output=True, text=True, check=False)
                if done.returncode:
                    raise FailureError(f"ip {' '.join(command)}: {done.stderr.strip()}")
        yield names
    finally:
        for name in names:
            _delete(name)


def clear_orphaned() -> list[str]:
    """End what runs in the namespaces of processes that are gone, and delete them; returns their names. Needs root."""
    names = [path.name for path in processes.orphaned(FOLDER)]
    for name in names:
        listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
        inside = (processes.ProcessId.of(int(pid)) for pid in listed.stdout.split())
        processes.end([process for process in inside if process])
        _delete(name)
    return names


def _delete(name: str) -> None:
    subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)
