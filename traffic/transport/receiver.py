# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The receiving end of one message: a state machine that knows no sockets and no clock but the times it is told.

EXPECTED -> OPEN -> COMPLETE, drawn in docs/transport.md. It answers; the sender asks. Its one timer is the grace that
it grants to packets which may still be on their way when the sender says that all were sent.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from traffic.packer import decode
from traffic.transport.control import Control, Feedback, Opening, Status, Stop, parts_of, value_type
from traffic.transport.core import InboundMessage
from traffic.transport.errors import Overdue, Refused, TransportError
from traffic.transport.ranges import mask_of, value_ranges
from traffic.transport.timing import MILLISECOND, SECOND
from traffic.wire import VALUE_BYTES, DataType, GradientType

if TYPE_CHECKING:
    from traffic.transport.endpoint import Peer

UNMEASURED_TRIP = 20 * MILLISECOND
LEAST_WINDOW = MILLISECOND


class State(Enum):
    """Where a message that arrives stands."""

    EXPECTED = auto()
    """Asked for here, not heard of yet."""
    OPEN = auto()
    COMPLETE = auto()
    """Enough arrived; remembered so that what comes late is answered."""
    FAILED = auto()


@dataclass(frozen=True)
class Expectation:
    """What the user who asks for a message knows of it."""

    values: int | None = None
    """How many; None: as many as the sender says."""
    tolerance: float = 1.0
    """Share of the values that may be missing; the sender's own limit holds too."""
    eager: bool = True
    """Complete as soon as the tolerance permits; else wait for what is still on its way."""
    whenever: bool = False
    """It may take as long as its sender lives."""
    out: NDArray[np.float32] | None = None
    """Where the values go, a contiguous array; None: into an array of its own. What is missing is left as it was."""

    def __post_init__(self) -> None:
        if self.out is not None and (self.out.dtype != np.float32 or not self.out.flags.c_contiguous):
            raise ValueError("values are received into contiguous arrays of float32")

    def accepts(self, values: int) -> bool:
        """Whether a message of so many values is what is expected."""
        return self.values in (None, values) and (self.out is None or self.out.size == values)


@dataclass(frozen=True)
class ReceiveReport:
    """A message that arrived."""

    values: NDArray[np.float32]
    missing: NDArray[np.int64]
    """Ranges of values that did not arrive, shape (ranges, 2); there `values` is zero, or what `out` held."""
    weight: int
    """Samples behind the values."""
    data_type: DataType
    seconds: float
    """Since it was asked for; 0 for one that was there before."""
    packets: int
    """Data packets that came, duplicates and trimmed ones included."""
    duplicates: int
    trimmed: int
    marked: int
    requests: int
    """How often packets were asked for again."""

    @property
    def missing_values(self) -> int:
        """How many values did not arrive."""
        return int((self.missing[:, 1] - self.missing[:, 0]).sum())


class Receiving:
    """A message on its way from a peer."""

    def __init__(self, peer: Peer, key: bytes, handle: int, now: int) -> None:
        self.peer, self.key, self.handle = peer, key, handle
        self.result: Future[ReceiveReport] = Future()
        self.state = State.EXPECTED
        self.deadline: int | None = None
        self.claimed = False
        """Somebody here has asked for it."""
        self.charged = 0
        """Bytes that its values take while nobody has."""
        self._absent = (0, 0)
        """Packets and values that are missing for good."""
        self._report_parts: list[bytes] = []
        self._expected = Expectation()
        self._begin = now
        self._opening: Opening | None = None
        self._report: ReceiveReport | None = None
        self._message: InboundMessage | None = None
        self._store: NDArray[np.uint8] = np.zeros(0, np.uint8)
        self._weight = 0
        self._data_type = DataType.FLOAT32
        self._fed_back = 0
        self._finish_sent = 0
        self._finish_ns: int | None = None
        self._number = 0
        self._asked_for: int | None = None
        """How many packets had been sent, by the last FINISH, when packets were asked for; and the request's number."""
        self._asked_number = 0
        self._written_off = 0
        """Values known to be lost, and tolerated."""
        self._requests = 0
        self.known = False
        """The sender has said that it knows how it ended."""

    # ---- the user

    @property
    def arrived_packets(self) -> int:
        """How many of the message's packets are here, 0 before it is open."""
        return int(self._message.struct.arrived_packets) if self._message is not None else 0

    def claim(self, expected: Expectation, now: int) -> None:
        """Note that the user wants it, and what is known of it. Raises ValueError if it is already wanted."""
        if self.claimed:
            raise ValueError("this message is expected already")
        self._expected, self.claimed, self._begin = expected, True, now
        self.peer.discharge(self)
        if self._opening is not None and not expected.accepts(self._opening.values):
            self._refuse(self._opening.values)
        elif self._report is not None:
            self._deliver(self._report)
            self._arm(now + (self.peer.settings.linger if self.known else self.peer.settings.overdue))
        else:
            self._arm(None)
            if self.state is State.OPEN:
                self._settle(now)

    def _deliver(self, report: ReceiveReport) -> None:
        """Hand over the report, with the values where the user wants them."""
        out = self._expected.out
        if out is not None and report.values is not out:  # it began to arrive before `out` was known, or as 16 bits
            present = ~mask_of(report.missing, out.size)
            out.reshape(-1)[present] = report.values[present]
            report = replace(report, values=out)
        self._report = None
        self.result.set_result(report)

    def _refuse(self, values: int) -> None:
        error = Refused(f"{self.peer} sends {values} values, which is not what was expected")
        self.state, self.deadline = State.FAILED, None
        self.peer.forget_receiving(self)
        self.result.set_exception(error)

    def discard(self) -> None:
        """Leave the core."""
        if self._message is not None:
            self.peer.core.remove(self.key)
            self._message = None

    # ---- in

    def opened(self, control: Control, opening: Opening, now: int) -> None:
        """Take START or FINISH; raises Malformed."""
        if self.state is State.COMPLETE:
            self._say_stop(now, control.counter)
            return
        if self.state is State.FAILED:
            return
        expected = self._expected.accepts(opening.values)
        if not expected or self._other_than_open(control, opening):
            self._say(GradientType.ACK, self._feedback(Status.REFUSED, now).pack(), now, control.counter)
            if not expected:
                self._refuse(opening.values)
            return
        restarted = self._opening is not None and opening.first_sequence != self._opening.first_sequence
        if self._message is None or restarted:
            self._open(control, opening, now)
        self._opening = opening
        if opening.blank is not None and self._message is not None:
            self._message.blank(opening.blank)
        if control.kind is GradientType.FINISH:
            if self._finish_ns is None or opening.sent > self._finish_sent:  # a probe again is no news
                self._finish_sent, self._finish_ns = opening.sent, now
            if self._settle(now):
                return
            if self._asked_for == opening.sent:  # the request, or what was sent upon it, got lost
                self._ask(now)
        self._feed_back(now, control.counter)

    def _other_than_open(self, control: Control, opening: Opening) -> bool:
        known = self._opening
        if known is None or known.first_sequence != opening.first_sequence:
            return False
        return (known.values, known.per_packet, self._data_type) != (
            opening.values,
            opening.per_packet,
            value_type(control.data_type),
        )

    def _open(self, control: Control, opening: Opening, now: int) -> None:
        data_type = value_type(control.data_type)
        if self._message is not None:
            self.peer.core.remove(self.key)
        size = opening.values * VALUE_BYTES[data_type]
        out = self._expected.out
        if out is not None and data_type is DataType.FLOAT32:
            self._store = out.reshape(-1).view(np.uint8)
        else:
            self._store = np.zeros(size, np.uint8)
        self._message = InboundMessage(
            self.key,
            values=self._store,
            value_count=opening.values,
            data_type=data_type,
            per_packet=opening.per_packet,
            first_sequence=opening.first_sequence,
            source=self.peer.source,
            handle=self.handle,
        )
        self.peer.core.add(self.key, self._message)
        self._weight, self._data_type, self._opening = control.weight, data_type, opening
        self._message.struct.enough_values = opening.values - (self._allowed() if self._expected.eager else 0)
        self._message.struct.enough_protected = opening.protected
        self._finish_sent, self._finish_ns, self._asked_for = 0, None, None
        self._written_off = 0
        self.state, self._fed_back = State.OPEN, now
        self._arm(None)
        self.peer.replay_early(self.key, now)

    def news(self, now: int) -> None:
        """Take note that packets of this message came."""
        if self.state is State.COMPLETE:
            if now - self._fed_back >= self._feedback_interval():
                self._say_stop(now, 0)
            return
        if self.state is State.OPEN and not self._settle(now) and now - self._fed_back >= self._feedback_interval():
            self._ask_for_trimmed(now)
            self._feed_back(now, 0)

    def closed(self, now: int) -> None:
        """Take note that the sender knows how it ended: what still comes was late."""
        self.known = True
        if self.claimed:
            self._arm(now + self.peer.settings.linger)

    # ---- decisions

    def _allowed(self) -> int:
        assert self._opening is not None
        return min(self._opening.allowed, int(self._expected.tolerance * self._opening.values))

    def _settle(self, now: int) -> bool:
        """Complete the message, or ask for what is missing, or wait; returns whether it is complete."""
        assert self._opening is not None and self._message is not None
        struct = self._message.struct
        missing = self._opening.values - struct.arrived_values
        enough = missing <= self._allowed() and struct.arrived_protected >= self._opening.protected
        if not missing or (enough and self._expected.eager):
            self._complete(now)
            return True
        if self._finish_ns is None or self._asked_for == self._finish_sent:
            return False
        due = self._patient_until()
        if struct.lost_packets == struct.packets - struct.arrived_packets:
            due = now  # the fabric said of every missing packet that it is lost
        if now < due:
            self._arm(due)
            return False
        if enough:
            self._complete(now)
            return True
        self._ask(now)
        return False

    def _patient_until(self) -> int:
        """Return until when missing packets may be on their way: nothing is asked for before.

        Once the last packet sent has come, the others were overtaken: grant what overtaking was seen to take (as RACK
        does, RFC 8985). Before that, the packets may stand in a queue that FINISH has passed: a round trip of data.
        """
        assert self._opening is not None and self._message is not None and self._finish_ns is not None
        struct = self._message.struct
        trip = self._opening.round_trip_us * 1000 or UNMEASURED_TRIP
        gap = (struct.highest_ns - struct.first_ns) // max(struct.highest - 1, 1)
        window = max(2 * struct.reordering * gap, trip // 8, LEAST_WINDOW) * self.peer.overtaking
        last = struct.latest_ns if struct.seen else 0
        if struct.highest >= self._finish_sent:
            return int(last + min(window, SECOND))
        tail = trip + 4 * self._opening.variation_us * 1000
        return int(max(last, self._finish_ns) + min(max(window, tail * self.peer.overtaking), SECOND))

    def _ask(self, now: int) -> None:
        """Ask for what is missing: under the same number if the sender has not sent anything since it was asked."""
        assert self._opening is not None and self._message is not None
        if self._asked_for != self._finish_sent:
            self._number += 1
            self._requests += 1
            self._asked_for, self._asked_number = self._finish_sent, self._number
        need = max(self._opening.values - self._message.struct.arrived_values - self._allowed(), 1)
        self._message.forget_lost()
        self._written_off = 0
        for part in parts_of(self._message.missing, number=self._asked_number, need=need):
            self._say(GradientType.REQUEST, part.pack(), now)
        self._arm(None)

    def _ask_for_trimmed(self, now: int) -> None:
        """Ask at once for what is known to be lost, if more is lost than may be."""
        assert self._message is not None
        struct = self._message.struct
        need = struct.lost_values - (self._allowed() - self._written_off)
        if need <= 0 and not struct.lost_protected:
            return
        need = max(need, 1)
        self._number += 1
        self._requests += 1
        if self._finish_ns is not None:  # another FINISH follows what is sent again
            self._asked_for, self._asked_number = self._finish_sent, self._number
        self._written_off += max(struct.lost_values - need, 0)
        lost = self._message.lost
        self._message.forget_lost()
        for part in parts_of(lost, number=self._number, need=need):
            self._say(GradientType.REQUEST, part.pack(), now)

    def _complete(self, now: int) -> None:
        assert self._opening is not None and self._message is not None
        struct = self._message.struct
        missing = self._message.missing
        self._message.close()
        self.state = State.COMPLETE
        self._learn()
        self._absent = int(np.count_nonzero(missing)), self._opening.values - struct.arrived_values
        self._report_parts = [part.pack() for part in parts_of(missing)] if self._absent[0] else []
        self._say_stop(now, 0)
        report = ReceiveReport(
            values=self._values(),
            missing=value_ranges(missing, self._opening.per_packet, self._opening.values),
            weight=self._weight,
            data_type=self._data_type,
            seconds=(now - self._begin) / SECOND,
            packets=struct.seen,
            duplicates=struct.duplicates,
            trimmed=struct.trimmed,
            marked=struct.marked,
            requests=self._requests,
        )
        self._arm(now + self.peer.settings.overdue)
        self.peer.completed(self)
        self._report = report
        if self.claimed:
            self._deliver(report)

    def _values(self) -> NDArray[np.float32]:
        out = self._expected.out
        if out is not None and np.shares_memory(self._store, out):
            values: NDArray[np.float32] = out
        else:
            values = decode(self._store, self._data_type)
        self._store = np.zeros(0, np.uint8)
        return values

    def _learn(self) -> None:
        """Be more patient with a peer whose packets come although they were asked for again."""
        assert self._message is not None
        peer = self.peer
        if self._requests and self._message.struct.spurious:
            peer.overtaking = min(peer.overtaking * 2, 64.0)
        else:
            peer.overtaking = max(peer.overtaking * 0.95, 1.0)

    # ---- out

    def _feedback_interval(self) -> int:
        assert self._opening is not None
        least, most = self.peer.settings.feedback
        return min(max(self._opening.round_trip_us * 500, least), most)

    def _feedback(self, status: Status, now: int) -> Feedback:
        if self._message is None or not self._message.struct.seen:
            return Feedback(status, clock_us=now // 1000)
        struct = self._message.struct
        return Feedback(
            status=status,
            seen=struct.seen,
            marked=struct.marked,
            trimmed=struct.trimmed,
            highest=struct.highest,
            latest=struct.latest,
            hold_us=(now - struct.latest_ns) // 1000,
            clock_us=struct.latest_ns // 1000,
        )

    def _feed_back(self, now: int, answers: int) -> None:
        self._fed_back = now
        self._say(GradientType.ACK, self._feedback(Status.FLOWING, now).pack(), now, answers)

    def _say_stop(self, now: int, answers: int) -> None:
        self._fed_back = now
        feedback = self._feedback(Status.FLOWING, now)  # as of now: its sender takes the round trip from it
        stop = Stop(feedback, *self._absent, len(self._report_parts))
        self._say(GradientType.STOP, stop.pack(), now, answers)
        for part in self._report_parts:
            self._say(GradientType.REPORT, part, now, answers)

    def _say(self, kind: GradientType, body: bytes, now: int, answers: int = 0) -> None:
        self.peer.say(kind, self.key, body, now, data_type=self._data_type, answers=answers)

    # ---- time

    def _arm(self, due: int | None) -> None:
        if self.state in (State.EXPECTED, State.OPEN) and (overdue := self._overdue()) is not None:
            due = overdue if due is None else min(due, overdue)
        self.deadline = due
        if due is not None:
            self.peer.schedule(self, due)

    def _overdue(self) -> int | None:
        waits = self.claimed and not self._expected.whenever
        return self._begin + self.peer.settings.overdue if waits else None

    def tick(self, now: int) -> None:
        """Do what is due."""
        if self.state is State.COMPLETE and self.claimed:
            self.peer.forget_receiving(self)
        elif self.state in (State.EXPECTED, State.OPEN):
            overdue = self._overdue()
            if overdue is not None and now >= overdue:
                limit = self.peer.settings.overdue / SECOND
                self.fail(Overdue(f"a message of {self.peer} took longer than {limit:g} s"))
            elif self.state is State.OPEN and self._finish_ns is not None and not self._settle(now):
                if self.deadline is not None and self.deadline <= now:
                    self._arm(None)

    def fail(self, error: TransportError) -> None:
        """Give the message up."""
        if self.state in (State.EXPECTED, State.OPEN):
            self.state, self.deadline = State.FAILED, None
            self.peer.forget_receiving(self)
            self.result.set_exception(error)
