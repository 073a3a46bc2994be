# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A share of a processor for a process, by a control group: a machine that is slow in everything it does."""

from __future__ import annotations

import os
import time
from pathlib import Path

from topologies.errors import FailureError

MOUNT = Path("/sys/fs/cgroup")
PERIOD_US = 10_000
"""Short, so that a slow worker is slow all the time and not stopped for long."""
END_SECONDS = 5.0


class Quota:
    """A control group whose processes have `share` of a processor together; a context manager.

    Raises FailureError where this machine lets nobody make one. Leave it after its processes have ended.
    """

    def __init__(self, name: str, share: float) -> None:
        quota = max(int(share * PERIOD_US), 1000)
        self._folder, limits = _place(f"gradlane-{os.getpid()}-{name}", quota)
        try:
            self._folder.mkdir()
            for file, limit in limits.items():
                (self._folder / file).write_text(limit)
        except OSError as error:
            if self._folder.is_dir():
                self._folder.rmdir()
            raise FailureError(f"no control group can limit a processor here: {error.strerror or error}") from None

    def __enter__(self) -> Quota:
        return self

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + END_SECONDS
        while True:
            try:
                self._folder.rmdir()
                return
            except OSError as error:  # a process that was killed is still on its way out
                if time.monotonic() > deadline:
                    raise FailureError(f"cannot remove {self._folder}: {error.strerror}") from None
                time.sleep(0.01)

    def add(self, pid: int) -> None:
        """Put a process in."""
        (self._folder / "cgroup.procs").write_text(str(pid))


def _place(name: str, quota: int) -> tuple[Path, dict[str, str]]:
    """Return the folder of a group below this process's own, and the files that limit it."""
    own: dict[str, str] = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        own |= dict.fromkeys(controllers.split(","), path.lstrip("/"))
    if "cpu" in own:
        for mounted in ("cpu", "cpu,cpuacct"):
            for folder in (MOUNT / mounted / own["cpu"], MOUNT / mounted):
                if folder.is_dir():
                    return folder / name, {"cpu.cfs_period_us": str(PERIOD_US), "cpu.cfs_quota_us": str(quota)}
    return MOUNT / own.get("", "") / name, {"cpu.max": f"{quota} {PERIOD_US}"}
