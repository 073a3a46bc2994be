# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One tensor of one round at one node: the executor of every plan, without I/O.

Each chunk goes through its arrivals and departures in the plan's order, and so do the departures to each node. A
message is taken when it is here and everything before it is done; nothing else ever waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from traffic.collectives.job import Job, Op
from traffic.collectives.names import Name
from traffic.collectives.plan import Plan, Send
from traffic.packer import TensorId, decode, encode
from traffic.transport.loss import ErrorFeedback, Fill, fill_lost, least_important
from traffic.transport.receiver import Expectation, ReceiveReport
from traffic.transport.sender import SendReport
from traffic.wire import FULL_FRAME, DataType

Floats = NDArray[np.float32]


class Host(Protocol):
    """What an operation needs of the node that it runs at."""

    job: Job
    node: int
    feedback: ErrorFeedback
    previous: dict[tuple[int, int, int], Floats]
    """By source, tensor and number: what came in the last round."""

    def send(
        self, node: int, values: Floats, ids: TensorId, name: Name, tolerance: float, path: int, blank: bool
    ) -> Future[SendReport]:
        """Begin to send; the future is there at once. With `blank` packets of zeros are told and not sent."""

    def receive(self, node: int, ids: TensorId, name: Name, expected: Expectation) -> Future[ReceiveReport]:
        """Ask for a message."""

    def tolerance(self, name: Name) -> float:
        """Return the share that may be lost of values to be summed."""

    def left_out(self, name: Name) -> float | None:
        """Return the share that is left out of a sum; None: nothing of it ever is."""

    def guard(self, function: Callable[[], None]) -> None:
        """Run a function; what it raises ends the job."""

    def now(self) -> int:
        """Return the time, ns."""

    def at(self, due: int, function: Callable[[], None]) -> None:
        """Have a function run at a time."""

    def finished(self, operation: Operation) -> None:
        """Take note that nothing more is to be done."""


@dataclass
class Partial:
    """A sum in the making."""

    values: Floats
    weight: int
    scaled: bool
    """The values are times their weight: the sum of a weighted mean."""


class Operation:
    """A tensor of a round at a node.

    `bounds` says where the chunks lie in the tensor, shape (chunks, 2). `values`, flat, are what this node gives, None:
    nothing. `result`, flat, is where the outcome goes, None at a server.
    """

    def __init__(
        self,
        host: Host,
        plan: Plan,
        name: Name,
        bounds: NDArray[np.int64],
        *,
        values: Floats | None,
        weight: int,
        result: Floats | None,
    ) -> None:
        self.host, self.name, self.result = host, name, result
        self._plan = plan
        self.weight = weight
        """Samples behind the result, once it is there."""
        self.sent: list[Future[SendReport]] = []
        """What became of the values to be summed that left this node."""
        self._weighted = host.job.op is Op.WEIGHTED_MEAN and not name.broadcast
        self._bounds = [(int(first), int(end)) for first, end in bounds]
        self._begun, self._tick = host.now(), 0.0
        self._alarms: set[Send] = set()
        if plan.timed_for:
            packets = -(-int(bounds[:, 1].max()) // host.job.per_packet)
            self._tick = packets * FULL_FRAME / plan.timed_for / 1000  # ns of a picosecond of the plan
        part = plan.parts[host.node]
        held = [chunk for chunk, (first, end) in enumerate(self._bounds) if end > first]
        self._events = {chunk: deque(part.events.get(chunk, ())) for chunk in held}
        self._links = {
            node: deque(send for send in sends if send.chunk in self._events) for node, sends in part.links.items()
        }
        self._arrived: dict[tuple[int, int], ReceiveReport] = {}
        self._partial: dict[int, Partial] = {}
        self._final: dict[int, Floats] = {}
        if values is not None:
            for chunk in [chunk for chunk in held if plan.gives(host.node, chunk)]:
                first, end = self._bounds[chunk]
                if name.broadcast:
                    self._final[chunk] = values[first:end]
                else:
                    self._partial[chunk] = Partial(values[first:end], weight, scaled=False)
        self._open = len(held)

    def start(self) -> None:
        """Ask for what is to come, and send what can be sent."""
        for events in list(self._events.values()):
            for send in [event for event in events if event.destination == self.host.node]:
                self._expect(send, last=send is events[-1])
        for chunk in list(self._events):
            self._advance(chunk)
        if not self._events and self._open == 0:
            self._done()

    def waits_for(self, node: int) -> bool:
        """Whether something is still to come from a node."""
        return any(
            event.source == node and (event.source, event.number) not in self._arrived
            for events in self._events.values()
            for event in events
        )

    def _expect(self, send: Send, *, last: bool) -> None:
        first, end = self._bounds[send.chunk]
        out = self.result[first:end] if self.result is not None and last and not send.reduces else None
        expected = Expectation(values=end - first, eager=self.host.job.eager, out=out)
        ids = self.name.ids(self.host.job.number, send.source, send.number, 0)
        key = send.source, send.number

        def arrived(future: Future[ReceiveReport]) -> None:
            if not future.exception():
                self._arrived[key] = future.result()
                self.host.guard(lambda: self._advance(send.chunk))

        self.host.receive(send.source, ids, self.name, expected).add_done_callback(arrived)

    # ---- progress

    def _advance(self, chunk: int) -> None:
        ready = [chunk]
        while ready:
            chunk = ready.pop()
            events = self._events.get(chunk)
            if events is None:
                continue
            while events:
                event = events[0]
                if event.destination == self.host.node:
                    report = self._arrived.pop((event.source, event.number), None)
                    if report is None:
                        break
                    self._take(event, report)
                else:
                    link = self._links[event.destination]
                    if link[0] is not event or self._waits(event):
                        break
                    self._depart(event)
                    link.popleft()
                    if link:
                        ready.append(link[0].chunk)
                events.popleft()
            else:
                del self._events[chunk]
                self._close(chunk)
        if not self._events and self._open == 0:
            self._done()

    def _waits(self, send: Send) -> bool:
        """Whether a send's time has not come, where the plan has times: others use the same ports before it."""
        if not self._tick:
            return False
        due = self._begun + int(send.start * self._tick)
        if due <= self.host.now():
            return False
        if send not in self._alarms:
            self._alarms.add(send)
            self.host.at(due, lambda: self._advance(send.chunk))
        return True

    def _take(self, send: Send, report: ReceiveReport) -> None:
        if not send.reduces:
            self._final[send.chunk] = report.values
            self.weight = report.weight
            return
        values = report.values
        self._mend(send, report)
        if self._weighted:
            values *= np.float32(report.weight)
        partial = self._partial.get(send.chunk)
        if partial is not None:
            np.add(self._scaled(partial), values, out=values)
        weight = report.weight + (partial.weight if partial is not None else 0)
        self._partial[send.chunk] = Partial(values, weight, scaled=self._weighted)

    def _mend(self, send: Send, report: ReceiveReport) -> None:
        """Put something in the place of what was lost."""
        fill, known = self.host.job.fill, self.host.previous
        if fill is not Fill.PREVIOUS:
            fill_lost(report.values, report.missing, fill)
            return
        key = send.source, self.name.tensor, send.number
        before = known.get(key)
        fits = before is not None and before.shape == report.values.shape
        fill_lost(report.values, report.missing, fill if fits else Fill.ZERO, before)
        known[key] = report.values.copy()

    def _scaled(self, partial: Partial) -> Floats:
        if not self._weighted or partial.scaled:
            return partial.values
        return partial.values * np.float32(partial.weight)

    def _depart(self, send: Send) -> None:
        host, name = self.host, self.name
        if not send.reduces:
            whole = self._whole(send.chunk)
            ids = name.ids(host.job.number, host.node, send.number, self.weight)
            host.send(send.destination, whole, ids, name, 0.0, send.path, host.left_out(name) is not None)
            return
        partial = self._partial[send.chunk]
        ids = name.ids(host.job.number, host.node, send.number, partial.weight)
        tolerance = host.tolerance(name)
        weightless = self._weighted and not partial.weight  # what is owed would be given away for nothing
        if not host.job.feeds_back or name.exact or weightless:
            values = self._unscaled(partial)
            self.sent.append(host.send(send.destination, values, ids, name, tolerance, send.path, False))
            return
        owed_to = send.destination, name.tensor, send.chunk
        total = host.feedback.add(owed_to, self._scaled(partial), name.round)
        if np.may_share_memory(
            total, partial.values
        ):  # perhaps the user's, who may change it before the report is here
            total = total.copy()
        message = self._unscaled(Partial(total, partial.weight, self._weighted))
        sending = host.send(send.destination, message, ids, name, tolerance, send.path, False)

        def settle(future: Future[SendReport]) -> None:
            if not future.exception():
                host.feedback.settle(owed_to, total, future.result().missing, name.round)

        sending.add_done_callback(settle)
        self.sent.append(sending)

    @staticmethod
    def _unscaled(partial: Partial) -> Floats:
        if not partial.scaled:
            return partial.values
        return partial.values / np.float32(max(partial.weight, 1))

    def _whole(self, chunk: int) -> Floats:
        """Return a chunk's final values; where they were summed here, as they will be at the other ranks."""
        if chunk not in self._final:
            host, partial = self.host, self._partial[chunk]
            self.weight = partial.weight
            values = self._unscaled(Partial(self._scaled(partial), partial.weight, self._weighted))
            if host.job.op is Op.MEAN:
                values = values / np.float32(len(host.job.workers))
            if (share := host.left_out(self.name)) is not None:
                values = self._leave_out(chunk, values, share)
            if host.job.wire is not DataType.FLOAT32 and not self.name.exact:
                values = decode(encode(values, host.job.wire), host.job.wire)
            self._final[chunk] = values
        return self._final[chunk]

    def _leave_out(self, chunk: int, values: Floats, share: float) -> Floats:
        """Return a sum without its least important packets, which are owed (DoubleSqueeze, arXiv 1905.05957)."""
        host, owed = self.host, (self.host.node, self.name.tensor, chunk)
        total = host.feedback.add(owed, values, self.name.round) if host.job.owes_left_out else values
        ranges = least_important(total, host.job.per_packet, share)
        if host.job.owes_left_out:
            host.feedback.settle(owed, total, ranges, self.name.round)
        kept = total.copy()
        for first, end in ranges:
            kept[first:end] = 0
        return kept

    def _close(self, chunk: int) -> None:
        self._open -= 1
        if self.result is not None and self._plan.takes(self.host.node, chunk):
            first, end = self._bounds[chunk]
            final = self._whole(chunk)
            if not np.may_share_memory(final, self.result):
                self.result[first:end] = final

    def _done(self) -> None:
        self._open = -1
        self.host.finished(self)
