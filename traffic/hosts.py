# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Programs in the hosts of a running fabric: where they run, and processes that always have an end."""

import math
import os
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

from topologies import processes
from topologies.errors import FailureError
from topologies.state import RunningFabric
from traffic.replay.frames import Station

ROOT = Path(__file__).resolve().parents[1]
CHECK_SECONDS = 0.5

Entered = TypeVar("Entered", bound="End")


@dataclass(frozen=True)
class Site:
    """A host as its programs see it: the command that enters its namespace, its interface, addresses and link."""

    name: str
    enter: tuple[str, ...]
    interface: str
    station: Station
    environment: Mapping[str, str]
    line_rate: float = math.inf
    """Of its network card, in bit/s: what a sender never exceeds, even to catch up."""


def site_of(running: RunningFabric, name: str) -> Site:
    """Return a host of a running fabric.

    Raises UsageError if it has none of that name, FailureError if the fabric is still starting and has not got it yet.
    """
    fabric = running.fabric
    host = fabric.host(name)
    if name not in running.hosts:
        raise FailureError(f"fabric {fabric.name} is starting and has no host {name} yet; try again in a moment")
    return Site(
        name=name,
        enter=tuple(processes.inside(running.hosts[name].process.pid)),
        interface=fabric.interface(name, 0),
        station=Station(host.mac, fabric.switch(host.switch).mac, host.ipv4, host.ipv6),
        environment=processes.environment(running.run),
        line_rate=fabric.link(name, host.switch).rate_from(name) or math.inf,
    )


class End:
    """A Python module as a process in a host's namespace, ended when the context is left."""

    def __init__(
        self, name: str, site: Site, module: str, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        command = [*site.enter, sys.executable, "-m", module, *arguments]
        self._name = name
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C reaches us alone, and we end them
                env={**site.environment, **(environment or {}), "PYTHONPATH": str(ROOT)},
            )
        except OSError as error:
            raise FailureError(f"cannot start the {self._name}: {command[0]}: {error.strerror}") from None
        processes.go_first(self._process.pid)  # a late end makes bursts that are the machine's, not the job's
        self._said = b""
        self._input, self._output = _pipe(self._process.stdin), _pipe(self._process.stdout)

    def __enter__(self: Entered) -> Entered:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def check(self) -> None:
        """Raise FailureError if the process has ended with an error."""
        if self._process.poll():
            raise self._failure()

    def say(self, line: str) -> None:
        """Write one line to the process."""
        try:
            self._input.write(line + "\n")
            self._input.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def hang_up(self) -> None:
        """Tell the process that there is no more to wait for."""
        self._input.close()
        self._process.stdin = None

    def expect_line(self, seconds: float, check: Callable[[], None] = lambda: None) -> str:
        """Return the next line that the process prints. Raises FailureError if it ends or stays silent."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._said:
            while not select.select([self._output], [], [], CHECK_SECONDS)[0]:
                check()
                if time.monotonic() > deadline:
                    raise FailureError(f"the {self._name} gave no answer in {seconds:.0f} s")
            more = os.read(self._output.fileno(), 65536)
            if not more:
                raise self._failure()
            self._said += more
        line, _, self._said = self._said.partition(b"\n")
        return line.decode()

    def _failure(self) -> FailureError:
        self._process.kill()
        _, errors = self._process.communicate()
        reason = (errors.strip().splitlines() or ["it ended early"])[-1]
        return FailureError(f"the {self._name} failed: {reason}")


def _pipe(pipe: IO[Any] | None) -> IO[Any]:
    assert pipe is not None
    return pipe
