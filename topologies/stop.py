# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Stop a running fabric, or clear what a killed one left: `python -m topologies.stop`.

Ends exactly what belongs to the run that the state file names, and can be repeated.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from topologies import namespaces, processes, state
from topologies.errors import GradlaneError, UsageError


def stop(path: str | Path | None = None, owner_grace: float = 10.0) -> str | None:
    """Stop the fabric of the state file and remove the file; return the fabric's name, None if none ran.

    A living owner is asked first (SIGTERM) and given `owner_grace` seconds to put its own things away.
    """
    file = state.path_in_use(path)
    running = state.find(file)
    if running is None:
        return None
    _require_root()
    if running.owner.pid != os.getpid():
        processes.end([running.owner], grace=owner_grace)
    clear(running)
    latest = state.find(file)
    if latest is not None and latest.run == running.run:  # not a fabric that started meanwhile
        file.unlink(missing_ok=True)
    return running.fabric.name


def clear_abandoned(folder: Path = state.DEFAULT_PATH.parent) -> list[str]:
    """Clear the further instances (`fabric-N.json`) whose owner is gone; return the fabrics' names."""
    cleared = []
    for file in sorted(folder.glob("fabric-*.json")):
        running = state.find(file)
        if running is not None and not running.owner.is_running():
            cleared.append(stop(file) or "")
    return cleared


def clear(running: state.RunningFabric) -> None:
    """End every process of a fabric, listed or marked, and delete its interfaces. The owner is left alone."""
    shells = [host.process for host in running.hosts.values()]
    processes.end([process for process in running.processes if process not in shells], grace=10.0)
    processes.end(shells, first=signal.SIGHUP)  # an interactive shell ignores SIGTERM
    clear_run(running.run)


def clear_run(run: int) -> None:
    """End every process that carries the mark of a run, and delete the run's interfaces and temporary folders."""
    from topologies import kernel  # here, so that "nothing to stop" needs no netlink

    for _ in range(3):  # again, as one may have been between fork and exec
        processes.end(processes.marked(run))
    kernel.delete_group(run)
    processes.clear_scratch(run)


def _require_root() -> None:
    if os.geteuid() != 0:
        raise UsageError("stopping a fabric needs root; run it with sudo")


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m topologies.stop", description=__doc__)
    parser.add_argument("--state", type=Path, help=f"state file (default: ${state.PATH_VARIABLE}, build/fabric.json)")
    parser.add_argument("--run", metavar="MARK", help="clear a run whose state file is lost, by its mark")
    options = parser.parse_args(arguments)
    try:
        if options.run is not None:
            _require_root()
            clear_run(_run(options.run))
            print(f"cleared run {options.run}")
        else:
            name = stop(options.state)
            print("no fabric is running" if name is None else f"stopped fabric {name}")
            if options.state is None:
                for abandoned in clear_abandoned():
                    print(f"cleared what fabric {abandoned} left")
                for folder in processes.clear_orphaned_scratch():
                    print(f"removed {folder}, whose process is gone")
                for name in namespaces.clear_orphaned() if os.geteuid() == 0 else ():
                    print(f"removed namespace {name}, whose process is gone")
    except GradlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _run(text: str) -> int:
    try:
        run = int(text, 16)
    except ValueError:
        run = 0
    if not state.is_run(run):
        raise UsageError(f"{text!r} is not the mark of a run; it has eight hexadecimal digits and begins with 67")
    return run


if __name__ == "__main__":
    sys.exit(main())
