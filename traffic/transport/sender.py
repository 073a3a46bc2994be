# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The sending end of one message: a state machine that knows no sockets and no clock but the times it is told.

OPENING -> FLOWING -> PROBING -> CLOSING -> DONE, drawn in docs/transport.md. The sender drives the protocol: it is its
timer that sends START again until it is heard, and FINISH until a STOP or a REQUEST comes.
"""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from traffic.packer import TensorId
from traffic.transport.control import Control, Feedback, Missing, Opening, Status, Stop
from traffic.transport.core import OutboundMessage
from traffic.transport.errors import Overdue, Refused, TransportError
from traffic.transport.ranges import value_ranges
from traffic.transport.timing import MILLISECOND, SECOND
from traffic.wire import BANDS, GRADIENT_BYTES, DataType, GradientType

if TYPE_CHECKING:
    from traffic.transport.endpoint import Peer

LEAST_CLOCK_STEP = 200
"""us of the receiver's clock below which a rate of delivery says nothing."""


class State(Enum):
    """Where a message that leaves stands."""

    OPENING = auto()
    """START is not answered yet; packets may flow already."""
    FLOWING = auto()
    PROBING = auto()
    """All was sent; FINISH asks what arrived."""
    CLOSING = auto()
    """STOP came, its report not yet."""
    DONE = auto()


@dataclass(frozen=True)
class SendReport:
    """What became of a message."""

    ids: TensorId
    values: int
    missing: NDArray[np.int64]
    """Ranges of values that never arrived, shape (ranges, 2): first, and one past the last."""
    packets: int
    """The message's packets."""
    sent: int
    """Packets sent, those sent again included."""
    sent_bytes: int
    """Their headers and values."""
    bands: NDArray[np.int64]
    """Shape (2, 8): packets by band of importance, least first, and those of them that never arrived."""
    seconds: float
    """From the call to the end of the exchange."""

    @property
    def missing_values(self) -> int:
        """How many values never arrived."""
        return int((self.missing[:, 1] - self.missing[:, 0]).sum())


class Sending:
    """A message on its way to a peer."""

    def __init__(
        self,
        peer: Peer,
        ids: TensorId,
        message: OutboundMessage,
        data_type: DataType,
        allowed: int,
        priority: int,
        now: int,
    ) -> None:
        self.peer, self.ids, self.message = peer, ids, message
        self.key, self.priority = message.key, priority
        self.result: Future[SendReport] = Future()
        self.state = State.OPENING
        self.deadline: int | None = None
        self.paused = peer.must_be_known
        """Send no data: the peer has no room, or has not proved yet that it is there."""
        self._data_type, self._allowed = data_type, allowed
        self._held = int(message.counts[message.held].sum())
        """Values held back, of those that are not told to be zero."""
        self._told = int(message.counts[message.blank].sum())
        self._protected = int(np.count_nonzero(message.protected))
        self.begun = now
        """When it was given, ns."""
        self.precedence = priority, -now
        """The greatest of a peer's goes first."""
        self._attempt = 0
        self._counted_bytes = 0
        self._listen_to(0)

    # ---- out

    def start(self, now: int) -> None:
        """Say what is to come."""
        self._say(GradientType.START, self._opening().pack(), now)
        self._arm(now)
        if not self.message.has_packets:  # all of it is told
            self.transmitted(now)

    def transmitted(self, now: int) -> None:
        """Take note that the driver has sent packets of this message, perhaps the last."""
        frames = self.message.struct.sent_bytes - self._counted_bytes
        if not frames and self.message.has_packets:  # another message had its turn
            return
        self._counted_bytes += frames
        packets = -(-frames // (GRADIENT_BYTES + self.message.struct.payload_bytes))
        self.peer.rate.sent(frames + packets * self.peer.settings.frame_overhead)
        if self.message.has_packets:
            return
        self.peer.waiting.pop(self.key, None)
        if self.state in (State.OPENING, State.FLOWING):
            self.state, self._attempt = State.PROBING, 0
            self._probe(now)

    def _probe(self, now: int) -> None:
        self._say(GradientType.FINISH, self._opening().pack(), now)
        self._arm(now)

    def _opening(self) -> Opening:
        trip = self.peer.data_trip
        return Opening(
            values=self.message.value_count,
            protected=self._protected,
            allowed=self._allowed,
            first_sequence=self.message.struct.first_sequence,
            sent=self.message.struct.sent,
            round_trip_us=min(trip.smoothed // 1000, 0xFFFFFFFF),
            variation_us=min(trip.variation // 1000, 0xFFFFFFFF),
            per_packet=self.message.per_packet,
            priority=self.priority,
            blank=self.message.blank if self._told else None,
        )

    def _say(self, kind: GradientType, body: bytes, now: int, answers: int = 0) -> None:
        self.peer.say(kind, self.key, body, now, data_type=self._data_type, weight=self.ids.weight, answers=answers)

    # ---- in

    def _listen_to(self, session: int) -> None:
        """Forget what an earlier life of the receiver has said."""
        self._session = session
        self._last = Feedback(Status.FLOWING)
        self._overdue = 0
        """Packets that were missing at the feedback before the last, and at the last too: lost, not overtaken."""
        self._request = 0
        self._request_parts: set[int] = set()
        self._report: dict[int, Missing] = {}
        self._stop: Stop | None = None

    def heard(self, control: Control, now: int) -> None:
        """Take a control message about this message; raises Malformed."""
        if self.state is State.DONE:
            return
        if control.session != self._session:
            self._listen_to(control.session)
        match control.kind:
            case GradientType.ACK:
                self._acknowledged(Feedback.parse(control.body), now)
            case GradientType.REQUEST:
                self._asked(Missing.parse(control.body), now)
            case GradientType.STOP:
                self._stopped(Stop.parse(control.body), control, now)
            case GradientType.REPORT:
                self._reported(Missing.parse(control.body), control, now)
            case _:
                pass

    def _acknowledged(self, feedback: Feedback, now: int) -> None:
        match feedback.status:
            case Status.FLOWING:
                self.paused = False
                if self.state is State.OPENING:
                    self.state = State.FLOWING
                self._attempt = 0
                self._flow(feedback, now)
                self._arm(now)
            case Status.WAIT:
                self.paused = True
                self._arm(now)
            case Status.CHALLENGE:
                if self.state is State.OPENING:
                    self.start(now)
                elif self.state in (State.PROBING, State.CLOSING):
                    self._probe(now)
            case Status.REFUSED:
                self.fail(Refused(f"{self.peer} expects another message than {self.ids}: other values or type"))
            case _:
                pass

    def _flow(self, feedback: Feedback, now: int) -> None:
        """Learn from how the packets arrive: round trip, and what it says of the rate."""
        last = self._last
        seen, advance = feedback.seen - last.seen, feedback.highest - last.highest
        if seen <= 0 or advance < 0 or feedback.highest > self.message.struct.sent:
            return
        self._last = feedback
        peer = self.peer
        round_trip = peer.data_trip.smoothed or peer.control_trip.smoothed or MILLISECOND
        delay = None
        sent_at = self.message.sent_at(feedback.latest)
        if sent_at is not None:
            held = feedback.hold_us * 1000
            round_trip = max(now - sent_at - held, 1)
            peer.data_trip.sample(round_trip)
            delay = peer.queueing(max(peer.arrived - sent_at - held, 1))
        tolerated = max(self._allowed - self._held, 0) / (self.message.value_count - self._told - self._held)
        overdue = max(min(feedback.highest - feedback.seen, last.highest - last.seen), 0)
        lost = max(overdue - self._overdue, 0) + max(feedback.trimmed - last.trimmed, 0) - tolerated * advance
        self._overdue = overdue
        elapsed_us = (feedback.clock_us - last.clock_us) & 0xFFFFFFFF
        frame_bytes = peer.settings.frame_overhead + GRADIENT_BYTES + self.message.struct.payload_bytes
        delivered = 0.0
        if last.seen and elapsed_us >= LEAST_CLOCK_STEP:
            delivered = seen * frame_bytes * 8e6 / elapsed_us
        marked = max(feedback.marked - last.marked, 0)
        peer.rate.feedback(now, round_trip, delay, seen, marked, max(lost, 0.0), delivered)
        peer.set_rate()

    def _asked(self, asked: Missing, now: int) -> None:
        if self.state is State.CLOSING or asked.number < self._request:
            return
        if asked.number > self._request:
            self._request, self._request_parts = asked.number, set()
        if asked.part in self._request_parts or asked.first + len(asked.missing) > self.message.packets:
            return
        self._request_parts.add(asked.part)
        chosen = self._choose(asked)
        if len(chosen):
            self.message.send_again(chosen)
            self.peer.waiting[self.key] = self
        self.paused = False
        self.state, self._attempt = State.FLOWING, 0
        self._arm(now)
        if not self.message.has_packets:
            self.transmitted(now)

    def _choose(self, asked: Missing) -> NDArray[np.int64]:
        """Return the packets to send again: all protected ones, then the most important until the need is met."""
        wanted = np.zeros(self.message.packets, np.bool_)
        wanted[asked.first : asked.first + len(asked.missing)] = asked.missing
        wanted &= ~self.message.blank
        waiting = wanted & self.message.unsent
        counts = self.message.counts
        need = asked.need - int(counts[waiting].sum())
        candidates = np.flatnonzero(wanted & ~waiting)
        rank = self.message.importance[candidates] + 256 * self.message.protected[candidates].astype(np.int64)
        candidates = candidates[np.argsort(-rank, kind="stable")]
        enough = int(np.searchsorted(np.cumsum(counts[candidates]), need)) + 1 if need > 0 else 0
        protected = int(np.count_nonzero(self.message.protected[candidates]))
        return candidates[: max(enough, protected)]

    def _stopped(self, stop: Stop, control: Control, now: int) -> None:
        self._flow(stop.feedback, now)
        self.message.stop()
        self.peer.waiting.pop(self.key, None)
        self._stop, self.state, self._attempt = stop, State.CLOSING, 0
        self._close(control, now)

    def _reported(self, part: Missing, control: Control, now: int) -> None:
        if part.first + len(part.missing) <= self.message.packets:
            self._report[part.part] = part
            self._close(control, now)

    def _close(self, control: Control, now: int) -> None:
        """End the exchange if the whole report is here."""
        if self._stop is None:
            return
        missing = np.zeros(self.message.packets, np.bool_)
        for part in self._report.values():
            missing[part.first : part.first + len(part.missing)] = part.missing
        if np.count_nonzero(missing) != self._stop.missing_packets:
            self._arm(now)
            return
        self._say(GradientType.ACK, Feedback(Status.CLOSED).pack(), now, answers=control.counter)
        self._end()
        self.result.set_result(
            SendReport(
                ids=self.ids,
                values=self.message.value_count,
                missing=value_ranges(missing, self.message.per_packet, self.message.value_count),
                packets=self.message.packets,
                sent=self.message.struct.sent,
                sent_bytes=self.message.struct.sent_bytes,
                bands=self._bands(missing),
                seconds=(now - self.begun) / SECOND,
            )
        )

    def _bands(self, missing: NDArray[np.bool_]) -> NDArray[np.int64]:
        bands = self.message.importance // (256 // BANDS)
        return np.stack([np.bincount(of, minlength=BANDS) for of in (bands, bands[missing])])

    # ---- time

    def _arm(self, now: int) -> None:
        flows = self.state is State.FLOWING and not self.paused
        timeout = self.peer.feedback_timeout(self._attempt) if flows else self.peer.control_trip.timeout(self._attempt)
        if self.state is State.PROBING:  # the answer may wait for data that the fabric still holds
            timeout = max(timeout, self.peer.data_trip.timeout(self._attempt))
        self.deadline = min(now + timeout, self.begun + self.peer.settings.overdue)
        self.peer.schedule(self, self.deadline)

    def tick(self, now: int) -> None:
        """Do what is due: ask again, or give up."""
        if self.state is State.DONE:
            return
        if now >= self.begun + self.peer.settings.overdue:
            limit = self.peer.settings.overdue / SECOND
            self.fail(Overdue(f"{self.ids} to {self.peer} took longer than {limit:g} s"))
            return
        self._attempt += 1
        match self.state:
            case State.OPENING:
                self.peer.hush(now)
                self.start(now)
            case State.FLOWING:
                if self.paused:
                    self.start(now)
                else:  # no feedback for a timeout while packets are sent or wait for their turn
                    self.peer.hush(now)
                    self._arm(now)
            case State.PROBING | State.CLOSING:
                self._probe(now)
            case _:
                pass

    def fail(self, error: TransportError) -> None:
        """Give the message up."""
        if self.state is not State.DONE:
            self._end()
            self.result.set_exception(error)

    def _end(self) -> None:
        self.message.stop()
        self.state, self.deadline = State.DONE, None
        self.peer.forget_sending(self)
