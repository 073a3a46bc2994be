# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A worker's end of the roster (traffic/training/roster.py): training that goes on when others die or come late."""

from __future__ import annotations

import json
import queue
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np

from topologies.errors import FailureError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Job
from traffic.exchanges.tcp import TcpSettings
from traffic.training.real import NOTES, Keeper, NotFiniteError, RealTraining, Reducer
from traffic.training.rule import State
from traffic.training.tcp_sums import BARRIER, NEWEST, TcpSums

KEPT = BARRIER + 1
"""Tensors that carry what a rule keeps: its length, then its bytes, two in a value. Both are exact."""
HIGH = float(1 << 20)
"""Counts of samples travel as a multiple of this and a rest, both exact in float32."""

SILENCE = {
    socket.TCP_KEEPIDLE: 10, socket.TCP_KEEPINTVL: 5, socket.TCP_KEEPCNT: 4, socket.TCP_USER_TIMEOUT: 30_000,
}  # fmt: skip
"""When a roster has died whose host says nothing more: after 30 s, be something under way or not."""


@dataclass(frozen=True)
class Caller:
    """How a worker calls."""

    name: str
    address: str
    """Of the worker; empty: the one from which its host reaches the roster."""
    server: str
    port: int
    transport: str
    """As RosterSettings has it."""
    values: int


@dataclass(frozen=True)
class Seat:
    """A worker's place in a generation."""

    job: Job
    rank: int
    generation: int


class Sums(Reducer, Protocol):
    """A Communicator, or what stands in its place."""

    def barrier(self) -> None:
        """Wait for all."""

    def abandon(self, reason: str) -> None:
        """Fail what waits."""


class Membership:
    """A connection to the roster; a context manager. Raises FailureError where there is none."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._lock = threading.Lock()
        self._sums: Sums | None = None
        self._over, self._reason = 0, ""
        """The latest generation that is over, and why."""
        self._seats: queue.Queue[Seat | FailureError | None] = queue.Queue()
        self._closing = False
        self._call()

    def __enter__(self) -> Membership:
        return self

    def __exit__(self, *_: object) -> None:
        self._closing = True
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._connection.close()

    def _call(self) -> None:
        caller = self._caller
        try:
            self._connection = socket.create_connection(
                (caller.server, caller.port), timeout=30, source_address=(caller.address, 0)
            )
        except OSError as error:
            raise FailureError(f"the roster at {caller.server} does not answer: {error.strerror or error}") from None
        self._connection.settimeout(None)
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in SILENCE.items():
            self._connection.setsockopt(socket.IPPROTO_TCP, option, value)
        address = caller.address or self._connection.getsockname()[0]
        self._say(join={"name": caller.name or address, "address": address})
        self._thread = threading.Thread(target=self._listen, name="roster", daemon=True)
        self._thread.start()

    def _say(self, **message: Any) -> None:
        with self._lock, suppress(OSError):  # who listens no more is noticed by the listener
            self._connection.sendall(json.dumps(message).encode() + b"\n")

    def _listen(self) -> None:
        dropped = False
        try:
            for line in self._connection.makefile():
                match json.loads(line):
                    case {"job": job, "rank": rank, "generation": generation}:
                        self._seats.put(Seat(Job.of_dict(job), rank, generation))
                    case {"regroup": generation, "reason": reason}:
                        self._end(generation, reason)
                    case {"dropped": _}:
                        dropped = True
                    case {"stop": reason}:
                        self._seats.put(FailureError(reason))
                        self._end(1 << 62, reason)
        except (OSError, ValueError):
            pass
        if not self._closing:
            gone = "the roster has gone on without this worker" if dropped else "the roster has died"
            self._seats.put(None if dropped else FailureError(gone))
            self._end(1 << 62, gone)

    def _end(self, generation: int, reason: str) -> None:
        with self._lock:
            self._over, self._reason = generation, reason
            sums = self._sums
        if sums is not None:
            sums.abandon(reason)

    def _attend(self, seat: Seat, sums: Sums | None) -> None:
        """Let a generation's end reach its sums, also if it has come already."""
        with self._lock:
            self._sums = sums
            over = self._over >= seat.generation
        if over and sums is not None:
            sums.abandon(self._reason)

    def _seat(self) -> Seat:
        """Wait for a place in the next generation; a worker that was left behind calls anew. Raises FailureError."""
        while True:
            match self._seats.get():
                case None:
                    self._thread.join()
                    self._connection.close()
                    self._over = 0
                    self._call()
                case FailureError() as error:
                    raise error
                case Seat() as seat:
                    if seat.generation > self._over:
                        return seat
                    self._say(ready=self._over)

    def tell(self, told: dict[str, Any]) -> None:
        """Have the roster print something."""
        self._say(told=told)

    def train(self, training: RealTraining, connected: Callable[[Any], None] = lambda sums: None) -> None:
        """Train to the end, generation after generation. Raises FailureError if the roster says so, or is gone, and
        NotFiniteError if this worker cannot go on; the others do.

        `connected` is told of every generation's sums, once the worker has the newest state.
        """
        while True:
            seat = self._seat()
            try:
                with self._open(seat) as sums:
                    worker, size = training.worker, len(seat.job.workers)
                    state, worker.ending = newest(sums, seat.rank, size, worker.state, worker.rule, worker.ending)
                    training.regroup(sums, seat.rank, size, state)
                    connected(sums)
                    training.run()
                    sums.barrier()
                    return
            except NotFiniteError:
                raise
            except (FailureError, OSError) as error:
                self._say(failed=str(error), generation=seat.generation)
            finally:
                self._attend(seat, None)

    def done(self, spent: dict[str, Any]) -> None:
        """Tell that this worker has done."""
        self._say(done=spent)

    def _open(self, seat: Seat) -> Any:
        caller, job = self._caller, seat.job
        if caller.transport == "tcp":
            settings = TcpSettings(caller.port + seat.generation)
            return TcpSums(settings, seat.rank, job.workers, job.servers[0], caller.values)
        return Communicator(job, seat.rank, opening=partial(self._attend, seat))


def newest(
    sums: Reducer, rank: int, size: int, state: State, rule: object = None, ending: bool = False
) -> tuple[State, bool]:
    """Return the state of whoever has applied the most sums, the same on every rank, and whether it was to end.

    Replicas of as many sums are equal, and travel only if somebody has applied fewer, or nobody any; with them goes
    what the rule keeps. Raises CollectiveError.
    """
    told = np.zeros(size + 1, np.float32)
    told[rank] = state.updates + 1
    updates = sums.all_reduce(told, tensor=NOTES, round=0).result().values[:size]
    if updates.min() == updates.max() > 1:
        return state, ending
    values, mine = state.weights.size, rank == int(np.argmax(updates))
    packed = np.zeros(2 * values + 3, np.float32)
    if mine:
        packed[:values] = state.weights
        if state.velocity is not None:
            packed[values:-3] = state.velocity
        packed[-3] = (state.velocity is not None) + 2 * ending
        packed[-2:] = divmod(state.samples, HIGH)
    packed = sums.all_reduce(packed, tensor=NEWEST, round=0).result().values
    if isinstance(rule, Keeper):
        _pass_on(sums, rule, mine=mine)
    flags = int(packed[-3])
    velocity = packed[values:-3].copy() if flags & 1 else None
    samples = float(packed[-2]) * HIGH + float(packed[-1])
    return State(packed[:values].copy(), velocity, round(float(updates.max())) - 1, samples), flags >= 2


def _pass_on(sums: Reducer, rule: Keeper, *, mine: bool) -> None:
    """Give every rank's rule what one of them keeps."""
    kept = rule.kept() if mine else b""
    told = np.array(divmod(len(kept), HIGH), np.float32)
    high, low = sums.all_reduce(told, tensor=KEPT, round=0).result().values
    length = int(high * HIGH + low)
    content = np.zeros(length // 2 + 1, np.float32)
    if mine:
        padded = kept + bytes(2 * content.size - length)
        content[:] = np.frombuffer(padded, np.uint16)
    content = sums.all_reduce(content, tensor=KEPT + 1, round=0).result().values
    if not mine:
        rule.keep(np.rint(content).astype(np.uint16).tobytes()[:length])
