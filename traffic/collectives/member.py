# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A node of a job, rank or server, without I/O: its operations, the others, and how all hear of a failure.

Everything here runs in one thread, the channel's. A node that fails tells all others why, so that nobody waits for what
will never come: whoever misses a peer notices within the transport's patience, everybody else a round trip later.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast

import numpy as np
from numpy.typing import NDArray

from traffic.collectives.errors import CollectiveError
from traffic.collectives.job import Job
from traffic.collectives.names import NOTICE, TENSORS, Name, Origin
from traffic.collectives.operation import Floats, Operation
from traffic.collectives.plan import ALL_REDUCE, Plan, chain, ring
from traffic.collectives.statistics import Spending, Statistics
from traffic.packer import TensorId
from traffic.transport.errors import Cancelled, Overdue, PeerLost, Refused
from traffic.transport.loss import ErrorFeedback
from traffic.transport.receiver import Expectation, ReceiveReport
from traffic.transport.sender import SendReport
from traffic.transport.timing import SECOND
from traffic.transport.tolerance import LossBudget
from traffic.wire import IPV4_VALUES, DataType

log = logging.getLogger(__name__)

HELLO, FAILED, LEAVING = 0, 1, 2
"""Numbers of notices."""
NOTICES = Name(NOTICE, 0, 0)
MOST_TEXT = 1200
REMEMBERED = 4096


class Channel(Protocol):
    """Messages between nodes; the futures' callbacks run in the member's thread."""

    def now(self) -> int:
        """Return the time, ns."""

    def send(
        self,
        node: int,
        values: Floats,
        ids: TensorId,
        *,
        tolerance: float,
        data_type: DataType,
        path: int,
        blank: bool = False,
    ) -> Future[SendReport]:
        """Begin to send a message. Raises TransportError."""

    def receive(self, node: int, ids: TensorId, expected: Expectation) -> Future[ReceiveReport]:
        """Ask for a message. Raises TransportError."""

    def at(self, due: int, function: Callable[[], None]) -> None:
        """Have a function run at a time, ns."""

    def met(self, node: int) -> None:
        """Take note that a node is there: what is heard of it from now on has the job's patience."""


@dataclass(frozen=True)
class Reduced:
    """A tensor's outcome: the same on every rank, unless a schedule of another collective was run."""

    values: Floats
    """In the shape of what was given; the user's."""
    weight: int
    """Samples behind it, all ranks together."""
    tensor: int
    layer: int
    round: int
    seconds: float
    """Since it was submitted."""
    sent: tuple[Future[SendReport], ...]
    """What became of this rank's own part: there at once or a round trip later."""


@dataclass(frozen=True)
class _Running:
    """An operation, when it began, and what becomes of its end."""

    operation: Operation
    begun: int
    done: Callable[[Operation], None]
    failed: Callable[[CollectiveError], None]


class Member:
    """A rank (node < workers) or a parameter server of a job."""

    def __init__(self, job: Job, node: int, channel: Channel) -> None:
        self.job, self.node, self.channel = job, node, channel
        self.worker = node < len(job.workers)
        self.feedback = ErrorFeedback()
        self.previous: dict[tuple[int, int, int], Floats] = {}
        self.statistics = Statistics()
        self.error: CollectiveError | None = None
        self.all_met: Future[None] = Future()
        self.drained: Callable[[], None] = lambda: None
        """Called when nothing is left to send."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when this node has failed, or all ranks have left."""
        self.left: set[int] = set()
        self._running: dict[tuple[int, int, bool], _Running] = {}
        self._finished: OrderedDict[tuple[int, int, bool], None] = OrderedDict()
        """What the transport may still remember, so that a name is not given to other values."""
        self._sending = 0
        self.unreported: set[Future[SendReport]] = set()
        """Of messages that may lose values: those of which nobody has said yet what they lost."""
        self._last_words: list[Future[SendReport]] = []
        self._unmet: dict[int, int] = {}
        """Which of the two hellos, theirs and ours, are still under way."""
        self._introduced: set[int] = set()
        """Nodes that have heard ours."""
        self._watched: set[int] = set()
        self._chains: dict[int, Plan] = {}
        self._sum = job.plan if job.plan.collective == ALL_REDUCE else ring(len(job.workers))
        budget = job.budget
        self._spending = Spending(LossBudget(budget.share, budget.rounds)) if budget else None

    @property
    def others(self) -> list[int]:
        """The nodes that this one has to do with: servers do not know each other."""
        count = len(self.job.addresses) if self.worker else len(self.job.workers)
        return [node for node in range(count) if node != self.node]

    @property
    def met(self) -> bool:
        """Whether all others have been there."""
        return self.all_met.done() and self.all_met.exception() is None

    @property
    def idle(self) -> bool:
        """Whether all that was begun has been sent."""
        return not self._sending

    # ---- the others

    def meet(self) -> None:
        """Say hello to everybody; `all_met` is done when all have heard it and said it, of the same job."""
        self._unmet = dict.fromkeys(self.others, 2)
        for node in self.others:
            ids = NOTICES.ids(self.job.number, node, HELLO, 0)
            self.receive(node, ids, NOTICES, Expectation()).add_done_callback(partial(self._hello, node))
            self._notify(node, HELLO, self.job.fingerprint)
        self._check_met()

    def _hello(self, node: int, future: Future[ReceiveReport]) -> None:
        if future.exception():
            return
        if _bytes(future.result().values) != self.job.fingerprint:
            self.fail(f"{self.job.who(node)} runs another job: other members, or another way to sum")
            return
        self._greeted(node)

    def _greeted(self, node: int) -> None:
        self._unmet[node] -= 1
        if not self._unmet[node]:
            del self._unmet[node]
            self.channel.met(node)
            if not self.worker and node not in self._watched:
                self._watch(node)
        self._check_met()

    def _watch(self, node: int) -> None:
        """Wait for a rank to leave, so that its death is noticed also when nothing else is to come from it."""
        self._watched.add(node)
        ids = NOTICES.ids(self.job.number, node, LEAVING, 0)
        leaving = self.receive(node, ids, NOTICES, Expectation(whenever=True))
        leaving.add_done_callback(partial(self._noticed, node, LEAVING))

    def _check_met(self) -> None:
        if not self._unmet and not self.all_met.done():
            self.all_met.set_result(None)

    def _notify(self, node: int, number: int, content: bytes) -> Future[SendReport] | None:
        padded = content + b"\0" * (-len(content) % 4) or bytes(4)
        values: Floats = np.frombuffer(padded, np.float32)
        ids = NOTICES.ids(self.job.number, self.node, number, len(content))
        if number == HELLO:
            return self.send(node, values, ids, NOTICES, 0.0, 0, False)
        try:
            return self.channel.send(node, values, ids, tolerance=0.0, data_type=DataType.FLOAT32, path=0)
        except Cancelled:  # the endpoint is closed
            return None

    def leave(self) -> list[Future[SendReport]]:
        """Tell the others that this node needs them no more; returns what must be heard before it may go."""
        if self.error is None:
            told = {node: self._notify(node, LEAVING, b"") for node in self.others if node not in self.left}
            return [future for node, future in told.items() if node >= len(self.job.workers) and future is not None]
        return self._last_words

    def renewed(self, node: int) -> None:
        """Take note that a node has started anew: before the job has begun it is met again, later it has lost too much.

        It is not told of the failure: where everybody is started again, it may be the first to wait for the others.
        """
        if node in self.left:
            return
        if self.all_met.done():
            self.fail(f"{self.job.who(node)} has started anew in the midst of the job: start all again", culprit=node)
        elif node in self._introduced:
            self._introduced.discard(node)
            self._unmet[node] = self._unmet.get(node, 0) + 1
            self._notify(node, HELLO, self.job.fingerprint)

    def unasked(self, node: int, key: bytes, values: int) -> None:
        """Take note of a message that nobody here has asked for: a notice, or the first of a tensor at a server."""
        origin = Origin.of(key)
        if origin.job != self.job.number or origin.node != node:
            log.warning("%s sent a message of job %d, node %d: ignored", self.job.who(node), origin.job, origin.node)
        elif origin.name.tensor == NOTICE:
            if origin.number != HELLO:
                ids = NOTICES.ids(self.job.number, node, origin.number, 0)
                taken = self.channel.receive(node, ids, Expectation())
                taken.add_done_callback(partial(self._noticed, node, origin.number))
        elif not self.worker and not origin.name.broadcast:
            self._serve(origin, values)

    def _noticed(self, node: int, number: int, future: Future[ReceiveReport]) -> None:
        if future.exception():
            return
        if number == FAILED:
            report = future.result()
            self.fail(_bytes(report.values)[: report.weight].decode(errors="replace"), tell=False)
            return
        self.left.add(node)
        for running in list(self._running.values()):
            if running.operation.waits_for(node):
                self.fail(f"{self.job.who(node)} has left, but {running.operation.name} needs it")
        if self.left >= set(range(len(self.job.workers))) - {self.node}:
            self.on_end()

    # ---- operations

    def all_reduce(self, name: Name, values: Floats, weight: int, future: Future[Reduced]) -> None:
        """Begin to sum a tensor; the future is done in this thread."""
        bounds = self._sum.cut(values.size, self.job.per_packet, name.tensor)
        self._begin(self._sum, name, bounds, values, weight, future, gives=True)

    def owed(self, tensor: int, size: int, failed: int | None) -> Floats | None:
        """Return what this node owes to the sums of a tensor, flat, shape (size,); None: nothing.

        `failed` is the round of a sum that came to nothing: what went into it is owed as before.
        """
        total: Floats | None = None
        bounds = self._sum.cut(size, self.job.per_packet, tensor)
        for key, late in self.feedback.debts(failed).items():
            _, of, chunk = cast(tuple[int, int, int], key)  # as Operation names what it owes
            if of == tensor:
                total = np.zeros(size, np.float32) if total is None else total
                total[slice(*bounds[chunk])] += late
        return total

    def run(self, name: Name, values: Floats, future: Future[Reduced]) -> None:
        """Begin to do what the job's plan says, the first chunk at the tensor's beginning."""
        bounds = self.job.plan.cut(values.size, self.job.per_packet, 0)
        self._begin(self.job.plan, name, bounds, values, 1, future, gives=True)

    def broadcast(self, name: Name, values: Floats, root: int, future: Future[Reduced]) -> None:
        """Begin to pass on the root's values."""
        plan = self._chains.setdefault(root, chain(len(self.job.workers), len(self.job.addresses), root))
        bounds = plan.cut(values.size, IPV4_VALUES, 0)
        self._begin(plan, name, bounds, values, 0, future, gives=self.node == root)

    def _begin(
        self,
        plan: Plan,
        name: Name,
        bounds: NDArray[np.int64],
        values: Floats,
        weight: int,
        future: Future[Reduced],
        *,
        gives: bool,
    ) -> None:
        begun = self.channel.now()
        result = (np.empty if plan.takers is None else np.zeros)(values.size, np.float32)
        given = values.reshape(-1) if gives else None
        operation = Operation(self, plan, name, bounds, values=given, weight=weight, result=result)

        def done(operation: Operation) -> None:
            seconds = (self.channel.now() - begun) / SECOND
            outcome = result.reshape(values.shape)
            ids = name.tensor, name.layer, name.round
            if self._spending and not name.exact:
                self._spending.reduced(outcome)
            future.set_result(Reduced(outcome, operation.weight, *ids, seconds, tuple(operation.sent)))

        self._run(_Running(operation, begun, done, future.set_exception))

    def _serve(self, origin: Origin, values: int) -> None:
        """Begin to sum the part of a tensor that this server has, since a rank has begun to send its own."""
        plan, chunk = self.job.plan, self.node - len(self.job.workers)
        bounds = np.zeros((plan.chunks, 2), np.int64)
        bounds[chunk, 1] = values
        operation = Operation(self, plan, origin.name, bounds, values=None, weight=0, result=None)
        self._run(_Running(operation, self.channel.now(), lambda _: None, lambda _: None))

    def _run(self, running: _Running) -> None:
        name = running.operation.name
        if self.error is None and (before := self._running.get(_place(name))) is not None:
            other = before.operation.name
            detail = "twice" if other == name else f"of layer {other.layer} and of layer {name.layer}"
            self.fail(f"{self.job.who(self.node)} was given {name} {detail}")
        if self.error is None and _place(name) in self._finished:
            self.fail(f"{self.job.who(self.node)} was given {name} again after it was done: number rounds anew")
        if self.error is not None:
            running.failed(self.error)
            return
        self._running[_place(name)] = running
        self.guard(running.operation.start)

    def guard(self, function: Callable[[], None]) -> None:
        """Run a function; what it raises ends the job, not the thread."""
        try:
            function()
        except Exception as error:
            log.exception("a collective failed")
            self.fail(f"{self.job.who(self.node)} failed: {error!r}")

    def now(self) -> int:
        """Return the time, ns."""
        return self.channel.now()

    def at(self, due: int, function: Callable[[], None]) -> None:
        """Have a function run at a time, unless the job has failed by then."""
        self.channel.at(due, lambda: None if self.error else self.guard(function))

    def finished(self, operation: Operation) -> None:
        """Take note that nothing more is to be done for a tensor."""
        place = _place(operation.name)
        if running := self._running.pop(place, None):
            self._finished[place] = None
            if len(self._finished) > REMEMBERED:
                self._finished.popitem(last=False)
            running.done(operation)

    def tolerance(self, name: Name) -> float:
        """Return the share that may be lost of values to be summed."""
        if name.exact:
            return 0.0
        if self._spending is not None:
            return self._spending.tolerance(name.round)
        return self.job.tolerated(name.layer, name.round)

    def left_out(self, name: Name) -> float | None:
        """Return the share of a sum that is left out of it for all ranks alike; None: nothing of it ever is."""
        never = name.exact or not self.job.tolerance.pull
        return None if never else self.job.left_out(name.layer, name.round)

    # ---- messages

    def send(
        self, node: int, values: Floats, ids: TensorId, name: Name, tolerance: float, path: int, blank: bool
    ) -> Future[SendReport]:
        """Begin to send; a failure is the whole job's."""
        data_type = DataType.FLOAT32 if name.exact else self.job.wire
        try:
            sending = self.channel.send(
                node, values, ids, tolerance=tolerance, data_type=data_type, path=path, blank=blank
            )
        except Cancelled as error:
            sending = Future()
            sending.set_exception(error)
        self._sending += 1
        if not name.exact:
            self.unreported.add(sending)
        sending.add_done_callback(partial(self._sent, node, name))
        return sending

    def _sent(self, node: int, name: Name, future: Future[SendReport]) -> None:
        self._sending -= 1
        self.unreported.discard(future)
        if error := future.exception():
            self._missed(node, name, error)
        elif name.tensor == NOTICE:
            self._introduced.add(node)
            self._greeted(node)
        elif name.tensor < TENSORS:
            self.statistics.add(future.result())
            if self._spending and not name.exact:
                self._spending.reported(future.result())
        if not self._sending:
            self.drained()

    def receive(self, node: int, ids: TensorId, name: Name, expected: Expectation) -> Future[ReceiveReport]:
        """Ask for a message; a failure is the whole job's."""
        try:
            receiving = self.channel.receive(node, ids, expected)
        except (Cancelled, ValueError) as error:
            receiving = Future()
            receiving.set_exception(error)
        receiving.add_done_callback(partial(self._received, node, name))
        if not receiving.done() and node in self.left:
            self.fail(f"{self.job.who(node)} has left, but {name} needs it")
        return receiving

    def _received(self, node: int, name: Name, future: Future[ReceiveReport]) -> None:
        if error := future.exception():
            self._missed(node, name, error)

    # ---- failure

    def _missed(self, node: int, name: Name, error: BaseException) -> None:
        who = self.job.who(node)
        if name == NOTICES:  # whatever else waits for this node says more
            waiting = (running.operation for running in self._running.values())
            name = next((operation.name for operation in waiting if operation.waits_for(node)), name)
        running = self._running.get(_place(name))
        after = f" {(self.channel.now() - running.begun) / SECOND:.1f} s after it began" if running else ""
        match error:
            case PeerLost() if node in self._unmet:
                self.fail(f"{who} did not come within {self.job.connect_timeout:g} s")
            case PeerLost():
                what = f", {name} failed{after}" if name != NOTICES else ""
                self.fail(f"{who} is lost: nothing was heard of it for {self.job.patience:g} s{what}", culprit=node)
            case Overdue() if node in self._unmet:
                self.fail(f"{who} did not come within {self.job.connect_timeout:g} s")
            case Overdue():
                self.fail(f"{_what(name)} failed{after}: {who} lives, but its part did not come through")
            case Refused():
                self.fail(f"{who} has another size or type of {name}")
            case _:
                self.fail(f"{_what(name)} failed{after}: {error}")

    def fail(self, reason: str, *, tell: bool = True, culprit: int | None = None) -> None:
        """End every operation, also those to come, on this node and all others."""
        if self.error is not None:
            return
        self.error = CollectiveError(reason)
        if tell:
            for node in self.others:
                if node != culprit and node not in self.left:
                    told = self._notify(node, FAILED, reason.encode()[:MOST_TEXT])
                    self._last_words += [told] if told is not None else []
        if not self.all_met.done():
            self.all_met.set_exception(self.error)
        stopped, self._running = list(self._running.values()), {}
        for running in stopped:
            running.failed(self.error)
        self.on_end()


def _place(name: Name) -> tuple[int, int, bool]:
    return name.tensor, name.round, name.broadcast


def _what(name: Name) -> str:
    return "a notice" if name.tensor == NOTICE else str(name)


def _bytes(values: NDArray[np.float32]) -> bytes:
    return values.tobytes()
