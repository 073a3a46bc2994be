# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Start a job's processes on this machine: `python -m traffic.frameworks.launch train.py`.

Parameter servers and one copy of the script for each worker, on addresses of the loopback interface, or in hosts of the
running fabric. The script finds its job and rank in the environment (joining.py); torch's `env://` finds its own. When
one process fails, the others have the job's patience to say what became of them, then all are ended. With `--roster`,
for `gradlane.abs_sgd`, a roster stands in the server's place, and the others go on as long as one is left.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

from topologies import processes, state
from topologies.errors import FailureError, GradlaneError, UsageError
from traffic.collectives.job import Job, Op
from traffic.frameworks.joining import ADDRESS_VARIABLE, JOB_VARIABLE, RANK_VARIABLE, ROSTER_VARIABLE
from traffic.hosts import site_of
from traffic.training.roster import PORT, RosterSettings
from traffic.transport import core
from traffic.transport.tolerance import Tolerance

ROOT = Path(__file__).resolve().parents[2]
PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.05
GRACE_SECONDS = 5.0
IMPORT_SECONDS = 180.0
"""How long all may take to come: a framework's import takes long on a busy machine."""
LOOPBACK_RATE = 10e9
"""Bit/s, where no link says less."""
FIRST_SERVER = 100
"""On loopback workers have addresses from 1 up, servers from 101 up."""


@dataclass(frozen=True)
class Place:
    """Where a process runs: its address, the command that enters its host, and the rate of its link in bit/s."""

    address: str
    enter: tuple[str, ...] = ()
    line_rate: float = math.inf


def places_of(wanted: str, network: str, first: int = 0) -> list[Place]:
    """Return so many places on loopback, from `first + 1` on in a network like 127.0.0, or hosts of the running fabric.

    `wanted` is a number, or hosts' names with commas between them. Raises GradlaneError.
    """
    if wanted.isdigit():
        if not 0 <= int(wanted) <= FIRST_SERVER:
            raise UsageError(f"at most {FIRST_SERVER} processes run on loopback, not {wanted}")
        return [Place(f"{network}.{first + number + 1}") for number in range(int(wanted))]
    running = state.load()
    known = [host.name for host in running.fabric.hosts]
    if unknown := [name for name in wanted.split(",") if name not in known]:
        raise UsageError(f"fabric {running.fabric.name} has no host {unknown[0]!r}")
    sites = [site_of(running, name) for name in wanted.split(",")]
    return [Place(site.station.ipv4, site.enter, site.line_rate) for site in sites]


class Launch:
    """A job's processes; a context manager that ends them all when it is left."""

    def __init__(
        self,
        job: Job,
        command: Sequence[str],
        workers: Sequence[Place],
        servers: Sequence[Place],
        *,
        roster: bool = False,
    ) -> None:
        self.job, self._command, self._places = job, list(command), (list(workers), list(servers))
        self._roster = roster
        self._stack = ExitStack()
        self.folder: Path | None = None
        """Holds the job file until the launch is left."""
        self.workers: list[subprocess.Popen[str]] = []
        self.servers: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Launch:
        core.load()  # here, once, before all processes build it at the same time
        processes.clear_orphaned_scratch()
        folder = Path(self._stack.enter_context(processes.scratch("job", os.environ)))
        file = folder / "job.json"
        self.job.save(file)
        self.folder = folder
        workers, servers = self._places
        with ExitStack() as undo:
            undo.push(self.__exit__)
            for index, place in enumerate(servers):
                module = ["-m", "traffic.collectives.server", str(file), "--index", str(index)]
                if self._roster:
                    settings = RosterSettings(
                        self.job.as_dict(), PORT, patience=self.job.patience, start_seconds=IMPORT_SECONDS
                    )
                    module = ["-m", "traffic.training.roster", json.dumps(asdict(settings))]
                self.servers.append(self._start(place, module, {}, subprocess.DEVNULL))
            environment = {
                JOB_VARIABLE: str(file),
                "WORLD_SIZE": str(len(workers)),
                "MASTER_ADDR": workers[0].address,
                "MASTER_PORT": str(_free_port()),
            }
            for rank, place in enumerate(workers):
                own = {**environment, RANK_VARIABLE: str(rank), "LOCAL_RANK": "0" if place.enter else str(rank)}
                if self._roster:
                    own |= {ROSTER_VARIABLE: f"{servers[0].address}:{PORT}", ADDRESS_VARIABLE: place.address}
                self.workers.append(self._start(place, self._command, own, None))
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        started = self.workers + self.servers
        known = [processes.ProcessId.of(process.pid) for process in started if process.poll() is None]
        processes.end([process for process in known if process], GRACE_SECONDS)
        for process in started:
            process.wait()
        self._stack.close()

    def _start(
        self, place: Place, arguments: Sequence[str], own: Mapping[str, str], output: int | None
    ) -> subprocess.Popen[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **own}
        command = [*place.enter, sys.executable, *arguments]
        try:
            return subprocess.Popen(command, env=environment, stdout=output, text=True, preexec_fn=_die_with_parent)
        except OSError as error:
            raise FailureError(f"cannot start {command[0]}: {error.strerror}") from None

    def wait(self, seconds: float | None = None) -> list[int]:
        """Return the workers' exit codes once all have ended, or at the latest after `seconds`, or some time after one
        failed: those that are still running then are ended, and so are the servers.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        failed = False
        while any(process.poll() is None for process in self.workers):
            needed = self.servers if self._roster else self.workers + self.servers
            codes = [process.poll() for process in needed]
            if not failed and any(codes):
                failed = True
                patience = time.monotonic() + self.job.patience + GRACE_SECONDS
                deadline = patience if deadline is None else min(deadline, patience)
            if deadline is not None and time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
        self.__exit__(None, None, None)
        return [process.returncode for process in self.workers]


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _free_port() -> int:
    with socket.socket() as opened:
        opened.bind(("", 0))
        port: int = opened.getsockname()[1]
        return port


def main(arguments: list[str] | None = None) -> int:
    """Launch a job and return the first exit code of a worker that is not 0."""
    parser = argparse.ArgumentParser(prog="python -m traffic.frameworks.launch", description=__doc__.split("\n")[0])
    parser.add_argument("--workers", default="2", help="how many on loopback, or hosts of the running fabric: h1,h2")
    parser.add_argument("--servers", default="1", help="parameter servers, likewise; 0 with another collective")
    parser.add_argument("--collective", default="ps", help="ps, ring, halving_doubling, or the path of a schedule")
    parser.add_argument("--tolerance", type=float, default=0.0, help="share of a gradient that may be lost")
    parser.add_argument("--patience", type=float, default=5.0, help="seconds of silence after which one is lost")
    parser.add_argument("--roster", action="store_true", help="go on without workers that are lost: gradlane.abs_sgd")
    parser.add_argument("--network", default="127.0.0", help="loopback addresses; two jobs at once need two")
    parser.add_argument("script", help="a Python script")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="the script's own")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        workers, servers = (
            places_of(options.workers, options.network),
            places_of(options.servers, options.network, FIRST_SERVER),
        )
        try:
            tolerance = Tolerance(push=options.tolerance)
        except ValueError as error:
            raise UsageError(str(error)) from None
        job = Job(
            number=1,
            workers=tuple(place.address for place in workers),
            servers=tuple(place.address for place in servers),
            collective=options.collective,
            tolerance=tolerance,
            patience=options.patience,
            connect_timeout=IMPORT_SECONDS,
            line_rate=min(LOOPBACK_RATE, *(place.line_rate for place in (*workers, *servers))),
            op=Op.SUM if options.roster else Op.MEAN,
        )
        if options.roster and (len(servers) != 1 or options.collective != "ps"):
            raise UsageError("a roster stands in the place of one parameter server")
        if not Path(options.script).is_file():
            raise UsageError(f"there is no script {options.script}")
        command = [options.script, *options.arguments]
        with Launch(job, command, workers, servers, roster=options.roster) as launched:
            codes = launched.wait()
            went_on = options.roster and 0 in codes
            return 0 if went_on else next((abs(code) for code in codes if code), 0)
    except GradlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
