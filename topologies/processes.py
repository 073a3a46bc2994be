# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Processes told apart for good: by pid and start time, and by the mark of the run that started them.

A pid is used again once its process is gone. A pid with its start time is not, so only that is ever signalled.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_FIRST = -10  # nice
_ALONE = "process"  # begins the owner's part of a folder's name where the owner is a process, not a run
RUN_VARIABLE = "GRADLANE_RUN"  # in the environment of every process of a fabric: which run it belongs to


@dataclass(frozen=True)
class ProcessId:
    """A process: its pid, and its start time in clock ticks since boot (proc(5), stat field 22)."""

    pid: int
    started: int

    @staticmethod
    def of(pid: int) -> ProcessId | None:
        """Return the identity of a running process; None if there is none, or it is a zombie."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        fields = stat[stat.rindex(")") + 2 :].split()  # the name before may hold anything
        return None if fields[0] in "ZX" else ProcessId(pid, int(fields[19]))

    def is_running(self) -> bool:
        """Tell whether this very process still runs."""
        return ProcessId.of(self.pid) == self


def mark(run: int) -> str:
    """Return the text by which everything of one run is marked."""
    return f"{run:08x}"


def ending(code: int) -> str:
    """Say how a process ended, by subprocess's return code."""
    return f"exited with {code}" if code >= 0 else f"was killed by signal {-code}"


def go_first(pid: int) -> None:
    """Let a process that leads a session go before others' computing, where this one may decide that.

    Under autogroups (sched(7)), which Linux has on by default, nice counts within a session only; among sessions the
    autogroup's own nice does.
    """
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, _FIRST)
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text(str(_FIRST))


def inside(pid: int) -> list[str]:
    """Return what to put before a command line to run it in the namespaces of a host's process, at this root folder.

    Not `mnexec -a`, which leaves a chroot for the root of the mount namespace that it enters.
    """
    namespaces = (f"--target={pid}", "--net", "--mount", "--root")
    return ["nsenter", *namespaces, f"--wdns={Path.cwd()}", "--"]


def environment(run: int) -> dict[str, str]:
    """Return this process's environment with the mark of a run, for its children."""
    return {**os.environ, RUN_VARIABLE: mark(run)}


def scratch(what: str, marked_environment: Mapping[str, str]) -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder, a context manager, for a job whose programs have this environment.

    It is named after the run that they belong to, or after this process where they belong to none, so that others can
    clear it if its owner was killed.
    """
    owner = marked_environment.get(RUN_VARIABLE)
    prefix = own(f"{what}-") if owner is None else f"gradlane-{owner}-{what}-"
    return tempfile.TemporaryDirectory(prefix=prefix)


def own(what: str) -> str:
    """Return a name that tells that this process owns what bears it."""
    this = ProcessId.of(os.getpid())
    assert this is not None  # it runs
    return f"gradlane-{_ALONE}{this.pid}.{this.started}-{what}"


def orphaned(folder: Path) -> list[Path]:
    """Return what lies in a folder and is named after a process that is gone."""
    found = []
    for path in sorted(folder.glob(f"gradlane-{_ALONE}*")):
        owner = re.match(rf"gradlane-{_ALONE}(\d+)\.(\d+)-", path.name)
        if owner and not ProcessId(int(owner[1]), int(owner[2])).is_running():
            found.append(path)
    return found


def clear_scratch(run: int) -> None:
    """Remove the temporary folders of a run that are left."""
    for folder in Path(tempfile.gettempdir()).glob(f"gradlane-{mark(run)}-*"):
        shutil.rmtree(folder, ignore_errors=True)


def clear_orphaned_scratch() -> list[Path]:
    """Remove the temporary folders of processes that are gone and belonged to no run; return them."""
    folders = orphaned(Path(tempfile.gettempdir()))
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    return folders


def marked(run: int) -> list[ProcessId]:
    """Return every process that carries the mark of `run`, save this one."""
    wanted = f"{RUN_VARIABLE}={mark(run)}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        identity = ProcessId.of(int(entry.name))
        with suppress(OSError):
            if identity and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(identity)
    return found


def end(processes: Iterable[ProcessId], grace: float = 3.0, first: signal.Signals = signal.SIGTERM) -> list[ProcessId]:
    """End processes: `first` to all, SIGKILL after `grace` seconds to those that are left.

    Returns the ones that had to be killed. Whoever is gone already, or whose pid is another's now, is left alone.
    """
    watched: dict[int, ProcessId] = {}
    try:
        for process in set(processes):
            with suppress(ProcessLookupError, PermissionError):
                descriptor = os.pidfd_open(process.pid)
                if process.is_running():  # asked after the descriptor is open: from here on it is this one
                    watched[descriptor] = process
                else:
                    os.close(descriptor)
        _signal(watched, first)
        left = _wait(watched, grace)
        _signal(left, signal.SIGKILL)
        _wait(left, grace)
        return list(left.values())
    finally:
        for descriptor in watched:
            os.close(descriptor)


def _signal(processes: dict[int, ProcessId], number: signal.Signals) -> None:
    for descriptor in processes:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, number)


def _wait(processes: dict[int, ProcessId], seconds: float) -> dict[int, ProcessId]:
    """Wait until all have ended or the time is over; return the ones that run on."""
    deadline = time.monotonic() + seconds
    left = dict(processes)
    poller = select.poll()
    for descriptor in left:
        poller.register(descriptor, select.POLLIN)
    while left and (remaining := deadline - time.monotonic()) > 0:
        for descriptor, _ in poller.poll(remaining * 1000):
            poller.unregister(descriptor)
            del left[descriptor]
    return left
