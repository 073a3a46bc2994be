# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The roster of a training: `python -m traffic.training.roster SETTINGS` at the parameter server's host.

Workers call it over TCP, each with one JSON object a line. It makes a job of those who are there, serves its sums, and
makes another whenever a worker dies, falls silent or comes late: a generation. What workers tell it prints, and what
happens to them: one JSON object a line.

    worker to roster    join name address | ready generation | failed generation reason | told ... | done ...
    roster to worker    job rank generation | regroup generation reason | dropped reason | stop reason
"""

from __future__ import annotations

import json
import selectors
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from topologies.errors import FailureError, GradlaneError, UsageError
from traffic.collectives.job import Job, Op
from traffic.collectives.server import Server
from traffic.exchanges.tcp import TcpSettings
from traffic.training.tcp_sums import TcpSumServer

PORT = 18600
"""Where a roster is called, unless told otherwise."""
LOOK_SECONDS = 0.02
MOST_JOBS = 1 << 16


@dataclass(frozen=True)
class RosterSettings:
    """What the roster goes by."""

    job: dict[str, Any]
    """The first job, as Job.as_dict: its workers' addresses say how many are waited for at the start."""
    port: int
    values: int = 0
    """Of the model; for sums over TCP, which must know."""
    transport: str = "gradlane"
    """How sums travel: "gradlane" (bounded loss) or "tcp"."""
    stop_on_death: bool = False
    """Whether training ends with an error when a worker is lost."""
    patience: float = 3.0
    """Seconds that a worker may take to come to a new generation, before it is lost."""
    start_seconds: float = 60.0
    """How long the first workers may take to call."""


@dataclass(eq=False)
class Member:
    """A worker that has called."""

    connection: socket.socket
    name: str = ""
    address: str = ""
    waiting: bool = False
    """For the next generation."""
    done: bool = False
    said: bytes = b""

    def send(self, **message: Any) -> None:
        """Send a line; a worker that is gone is noticed when its connection is read."""
        with suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")


@dataclass
class Roster:
    """The members, and the generation that trains."""

    settings: RosterSettings
    first: Job
    generation: int = 0
    """Counted from 1; 0: none yet."""
    members: list[Member] = field(default_factory=list)
    serving: Server | TcpSumServer | None = None
    since: float | None = None
    """When the wait for the next generation began."""
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def run(self) -> None:
        """Serve until all workers have done. Raises FailureError if the training cannot go on."""
        if self.first.op is not Op.SUM:
            raise UsageError(f"workers count samples: a roster's job has the operation sum, not {self.first.op.value}")
        listener = socket.create_server((self.first.servers[0], self.settings.port), backlog=64)
        self.selector.register(listener, selectors.EVENT_READ)
        began = time.monotonic()
        say(ready=True)
        try:
            while not (self.generation and all(member.done for member in self.members)):
                for key, _ in self.selector.select(LOOK_SECONDS):
                    if key.fileobj is listener:
                        self._accept(listener)
                    else:
                        self._read(key.data)
                self._look(time.monotonic() - began)
            say(over=True)
        finally:
            self._stop_serving("the training is over")
            for member in self.members:
                member.connection.close()
            listener.close()
            self.selector.close()

    def _accept(self, listener: socket.socket) -> None:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.selector.register(connection, selectors.EVENT_READ, Member(connection))

    def _read(self, member: Member) -> None:
        if member.connection.fileno() < 0:  # lost by another's event that came with this one
            return
        try:
            more = member.connection.recv(65536)
        except OSError:
            more = b""
        if not more:
            self._lost(member, "has died")
            return
        member.said += more
        *lines, member.said = member.said.split(b"\n")
        for line in lines:
            try:
                self._heard(member, json.loads(line))
            except ValueError:
                self._lost(member, "said what is no JSON")
                return

    def _heard(self, member: Member, message: dict[str, Any]) -> None:
        match message:
            case {"join": {"name": name, "address": address}}:
                member.name, member.address, member.waiting = name, address, True
                before = [other for other in self._living if other.address == address]
                self.members.append(member)  # first: it may be the only one that is left
                for other in before:
                    other.send(stop=f"another worker calls from {address}: each needs an address of its own")
                    self._lost(other, "has called anew")
                if self.generation:
                    say(event="joins", worker=name)
                    self._regroup(f"{name} joins")
            case {"ready": generation}:
                member.waiting = generation == self.generation
            case {"failed": reason, "generation": generation}:
                if generation == self.generation:
                    member.waiting = True
                    self._regroup(reason)
            case {"told": told}:
                say(told=told)
            case {"done": spent}:
                member.done = True
                say(done=spent)

    def _lost(self, member: Member, how: str) -> None:
        """Take a member out."""
        self.selector.unregister(member.connection)
        member.connection.close()
        if member not in self.members:
            return
        if member.done:
            return
        self.members.remove(member)
        what = f"the worker in {member.name} ({member.address}) {how}"
        say(event="lost", worker=member.name, how=how)
        if self.settings.stop_on_death or (self.generation and not self.members):
            for other in self._living:
                other.send(stop=what)
            raise FailureError(what if self.members else f"{what}, and no worker is left")
        if self.generation and self._living:
            self._regroup(what)

    @property
    def _living(self) -> list[Member]:
        return [member for member in self.members if not member.done]

    def _regroup(self, reason: str) -> None:
        """Have everybody come to a new generation."""
        if self.since is not None:
            return
        self.since = time.monotonic()
        for member in self._living:
            if not member.waiting:
                member.send(regroup=self.generation, reason=reason)
        self._stop_serving(reason)  # last: who misses the server by itself tells the others and waits for answers

    def _look(self, seconds: float) -> None:
        """Begin a generation when all are there, and lose those who do not come."""
        if not self.generation:
            if len(self._living) >= len(self.first.workers):
                self._begin()
            elif seconds > self.settings.start_seconds:
                wanted = len(self.first.workers)
                raise FailureError(f"{len(self._living)} of {wanted} workers came within {seconds:.0f} s")
            return
        if self.since is None:
            return
        if time.monotonic() - self.since > self.settings.patience:
            for member in [member for member in self._living if not member.waiting]:
                member.send(dropped=f"it was silent for {self.settings.patience:g} s")
                self._lost(member, f"was silent for {self.settings.patience:g} s")
        if self._living and all(member.waiting for member in self._living):
            self._begin()

    def _begin(self) -> None:
        members = self._living
        self.generation += 1
        job = replace(
            self.first,
            number=(self.first.number + self.generation - 1) % MOST_JOBS,
            workers=tuple(member.address for member in members),
        )
        if self.settings.transport == "tcp":
            tcp = TcpSettings(self.settings.port + self.generation)
            self.serving = TcpSumServer(tcp, job.servers[0], len(members), self.settings.values)
        else:
            self.serving = Server(job, 0)
        gap = 0.0 if self.since is None else time.monotonic() - self.since
        self.since = None
        for rank, member in enumerate(members):
            member.waiting = False
            member.send(job=job.as_dict(), rank=rank, generation=self.generation)
        names = [member.name for member in members]
        say(event="generation", number=self.generation, workers=names, regrouped_in=round(gap, 4))

    def _stop_serving(self, reason: str) -> None:
        if self.serving is not None:
            self.serving.abandon(reason)
            self.serving.close()
            self.serving = None


def say(**message: Any) -> None:
    """Print a line for whoever watches the training."""
    print(json.dumps(message), flush=True)


def main() -> int:
    """Serve a training; a failure is one line on standard error."""
    settings = RosterSettings(**json.loads(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        Roster(settings, Job.of_dict(settings.job)).run()
    except GradlaneError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"the roster cannot serve: {error.strerror or error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
