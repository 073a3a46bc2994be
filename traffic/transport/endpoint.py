# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One end of the transport without I/O: its peers, its messages, its timers; drivers move packets and time.

A driver gives packets to the core (C), then what the core did not take to `take`, calls `settle`, `tick` when `due`
says so, sends what `outgoing` holds and what `turns` offers. sockets.py and virtual.py are drivers.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import random
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from traffic.packer import TensorId
from traffic.transport.authentication import ReplayWindow, Seal
from traffic.transport.control import Control, Feedback, Malformed, Opening, Status, key_of, value_type
from traffic.transport.core import Core, OutboundMessage, Verdict, load
from traffic.transport.errors import Cancelled, PeerLost, TransportError
from traffic.transport.rate import RateControl
from traffic.transport.receiver import Expectation, Receiving, State
from traffic.transport.sender import Sending
from traffic.transport.settings import Settings
from traffic.transport.timing import SECOND, RoundTrip
from traffic.wire import VALUE_BYTES, DataType, GradientType

log = logging.getLogger(__name__)

TO_RECEIVER = (GradientType.START, GradientType.FINISH)
SAID = 256
"""Control messages whose time of sending is remembered, to measure the round trip."""
WAITING = 1024
"""Openings that are remembered while there is no room for their messages."""
RECORD_BYTES = 4096
"""What a message takes beside its values: else a flood of small ones would fill the memory."""
FORMER = 16
"""Earlier lives of a peer of which late packets are known."""
NO_KEY = bytes(12)
PINGS = 16
"""How often in the time of its patience an end looks whether it hears of a peer; it asks from a quarter on."""


class Timed(Protocol):
    """What a timer belongs to."""

    deadline: int | None

    def tick(self, now: int) -> None:
        """Do what is due."""


@dataclass
class Counts:
    """What an endpoint met that belongs to no message."""

    control: int = 0
    """Control messages taken."""
    malformed: int = 0
    foreign: int = 0
    """From an address that is no peer."""
    forged: int = 0
    """With a MAC that is not the job's."""
    replayed: int = 0
    stale: int = 0
    """Meant for, or from, an earlier life of an end."""
    early: int = 0
    """Data that came before its message was known, kept."""
    early_dropped: int = 0


@dataclass(eq=False)
class Peer:
    """What an endpoint knows of another, and what goes on between them."""

    endpoint: Endpoint
    address: Hashable
    source: int
    """How the core names the address."""
    settings: Settings
    rate: RateControl
    pacer: Any
    arrived: int = 0
    """When the host got the control message that is being taken."""
    shortest_trip: int = 0
    """The round trip without queues, as far as any packet has measured it; 0: not yet."""
    control_trip: RoundTrip = field(default_factory=RoundTrip)
    data_trip: RoundTrip = field(default_factory=RoundTrip)
    overtaking: float = 1.0
    """Patience with packets that were overtaken, times what was measured; doubles when it proves too short."""
    deadline: int | None = None
    sending: dict[bytes, Sending] = field(default_factory=dict)
    waiting: dict[bytes, Sending] = field(default_factory=dict)
    """Of them, those that have packets to send."""
    receiving: dict[bytes, Receiving] = field(default_factory=dict)
    complete: OrderedDict[bytes, Receiving] = field(default_factory=OrderedDict)
    """Messages that have arrived: they linger, and those that nobody here asked for yet stay until somebody does."""
    charged: int = 0
    """Bytes of messages that nobody here has asked for yet."""
    _heard: int = 0
    _waits_since: int | None = None
    _hushed: int = 0
    _counter: int = 0
    _session: int = 0
    _former: deque[int] = field(default_factory=lambda: deque(maxlen=FORMER))
    """Sessions that a later one has taken the place of: what still comes of them is late."""
    _proven: bool = False
    _window: ReplayWindow = field(default_factory=ReplayWindow)
    _said: OrderedDict[int, int] = field(default_factory=OrderedDict)
    _early: deque[tuple[bytes, bytes]] = field(default_factory=deque)
    _waiting: OrderedDict[bytes, tuple[Control, Opening]] = field(default_factory=OrderedDict)

    def __str__(self) -> str:
        return f"peer {self.address}"

    # ---- what messages use

    @property
    def core(self) -> Core:
        """The endpoint's."""
        return self.endpoint.core

    @property
    def must_be_known(self) -> bool:
        """Whether data must wait until the peer has answered: with a key, one that answers holds it too."""
        return self.endpoint.seal.keyed and not self._proven

    def queueing(self, round_trip: int) -> int:
        """Return how much of a round trip, of any packet, was spent in queues."""
        self.shortest_trip = min(self.shortest_trip or round_trip, round_trip)
        return round_trip - self.shortest_trip

    def schedule(self, timed: Timed, due: int) -> None:
        """Have `timed.tick` called at that time, if that is its deadline then."""
        self.endpoint.schedule(timed, due)

    def say(
        self,
        kind: GradientType,
        key: bytes,
        body: bytes,
        now: int,
        *,
        data_type: int = 0,
        weight: int = 0,
        answers: int = 0,
        peer_session: int | None = None,
    ) -> None:
        """Send a control message."""
        self._counter += 1
        self._said[self._counter] = now
        if len(self._said) > SAID:
            self._said.popitem(last=False)
        endpoint = self.endpoint
        known = self._session if peer_session is None else peer_session
        message = Control(kind, key, data_type, weight, self._counter, endpoint.session, known, answers, body).pack()
        endpoint.outgoing.append((self, endpoint.seal.close(message)))

    def feedback_timeout(self, attempt: int = 0) -> int:
        """Return how long to wait for word of packets that flow: a round trip, and until the peer is to give word.

        It gives word when a packet comes, and not more often than its interval says (Receiving does the same sum).
        """
        least, most = self.settings.feedback
        interval = min(max(self.data_trip.smoothed // 2, least), most)
        gap = self.rate.packet_time
        return self.data_trip.timeout(attempt) + interval + 2 * gap

    def hush(self, now: int) -> None:
        """Slow down if nothing was heard for a timeout."""
        timeout = max(self.feedback_timeout(), self.control_trip.timeout())
        if now - max(self._heard, self._hushed) >= timeout:
            self._hushed = now
            self.rate.silence()
            self.set_rate()

    def set_rate(self) -> None:
        """Let the pacer follow the rate."""
        self.pacer.rate = self.rate.rate

    def replay_early(self, key: bytes, now: int) -> None:
        """Give the core the data of a message that came before its opening."""
        kept: deque[tuple[bytes, bytes]] = deque()
        for early, frame in self._early:
            if early == key:
                self.core.accept(frame, 0, self.source, now)
            else:
                kept.append((early, frame))
        self._early = kept

    def forget_sending(self, message: Sending) -> None:
        """Drop a message that is done with."""
        self.sending.pop(message.key, None)
        self.waiting.pop(message.key, None)
        self._watch()

    def completed(self, message: Receiving) -> None:
        """Keep a complete message for a while, the eldest only as long as there is room."""
        del self.receiving[message.key]
        self.complete[message.key] = message
        surplus = len(self.complete) - self.settings.remembered
        for eldest in [old for old in self.complete.values() if old.claimed][: max(surplus, 0)]:
            self.forget_receiving(eldest)
        self._watch()

    def forget_receiving(self, message: Receiving) -> None:
        """Drop a message that is done with."""
        for messages in (self.receiving, self.complete):
            if messages.get(message.key) is message:
                del messages[message.key]
        self.discharge(message)
        self.endpoint.forget(message)
        self._watch()

    def discharge(self, message: Receiving) -> None:
        """Make room: the message's values are the user's."""
        self.charged -= message.charged
        message.charged = 0

    # ---- liveness

    def watch(self, now: int) -> None:
        """Ask from now on whether the peer is there."""
        if self._waits_since is None:
            self._waits_since = now
            self._arm(now)

    def _watch(self) -> None:
        """Ask no more if nothing is to come from the peer."""
        if not self.sending and not self.receiving:
            self._waits_since, self.deadline = None, None

    def _arm(self, now: int) -> None:
        self.deadline = now + self.settings.patience // PINGS
        self.schedule(self, self.deadline)

    def tick(self, now: int) -> None:
        """Ask whether the peer is there; fail everything if it has been silent for too long."""
        if self._waits_since is None:
            return
        silent = now - max(self._heard, self._waits_since)
        if silent >= self.settings.patience:
            self.fail(PeerLost(f"nothing was heard of {self} for {self.settings.patience / SECOND:g} s"))
            return
        if silent >= self.settings.patience // 4:
            self.say(GradientType.ACK, NO_KEY, Feedback(Status.PING).pack(), now)
        self._arm(now)

    def adopt(self, settings: Settings) -> None:
        """Behave so from now on, at the rate of a beginning."""
        self.settings, self.rate = settings, RateControl(settings.rate)
        self.pacer.quantum_ns, self.pacer.ahead = settings.quantum, settings.ahead
        self.pacer.arrears_ns = settings.arrears
        self.set_rate()

    def fail(self, error: TransportError) -> None:
        """Give up every message to and from the peer."""
        for sending in list(self.sending.values()):
            sending.fail(error)
        for receiving in list(self.receiving.values()):
            receiving.fail(error)
        self._waits_since, self.deadline = None, None

    def heard(self, now: int) -> None:
        """Take note that the peer is there."""
        self._heard = now

    # ---- in

    def take_control(self, control: Control, now: int) -> None:
        """Take a control message that has this peer's address and the job's MAC; raises Malformed."""
        endpoint = self.endpoint
        if control.session in self._former:
            endpoint.counts.stale += 1
            return
        proven, other = control.peer_session == endpoint.session, control.session != self._session
        if not proven and (endpoint.seal.keyed or control.peer_session or (other and self._proven)):
            self._challenge(control, now)
            return
        if other:
            self._follow(control.session)
        self._proven = self._proven or proven
        if not self._window.take(control.counter):
            endpoint.counts.replayed += 1
            return
        endpoint.counts.control += 1
        self.heard(now)
        sent_at = self._said.pop(control.answers, None)
        if sent_at is not None and control.kind is GradientType.ACK:
            self.control_trip.sample(now - sent_at)
            self.queueing(max(self.arrived - sent_at, 1))
        if control.kind in TO_RECEIVER:
            self._take_opening(control, Opening.parse(control.body), now)
        else:
            self._take_answer(control, now)

    def _follow(self, session: int) -> None:
        """Listen to this life of the peer from now on, and to no earlier one."""
        renewed = self._proven
        if self._session:
            self._former.append(self._session)
        self._session, self._window = session, ReplayWindow()
        if renewed and self.endpoint.renewed is not None:
            self.endpoint.renewed(self)

    def _challenge(self, control: Control, now: int) -> None:
        """Have the peer say again, for this session, what it said to an earlier one, or to one it did not know."""
        self.endpoint.counts.stale += 1
        if control.kind is GradientType.ACK and control.body[:1] == bytes([Status.CHALLENGE]):
            return
        body = Feedback(Status.CHALLENGE).pack()
        answers, session = control.counter, control.session
        self.say(GradientType.ACK, control.key, body, now, answers=answers, peer_session=session)

    def _take_answer(self, control: Control, now: int) -> None:
        if control.kind is GradientType.ACK:
            match Feedback.parse(control.body).status:
                case Status.PING:
                    self.say(GradientType.ACK, NO_KEY, Feedback(Status.PONG).pack(), now, answers=control.counter)
                    return
                case Status.PONG:
                    return
                case Status.CLOSED:
                    if closed := self.complete.get(control.key):
                        closed.closed(now)
                    return
                case _:
                    pass
        if sending := self.sending.get(control.key):
            sending.heard(control, now)
        elif control.kind is GradientType.STOP:  # the answer to an earlier one was lost
            body = Feedback(Status.CLOSED).pack()
            self.say(GradientType.ACK, control.key, body, now, answers=control.counter)

    def _take_opening(self, control: Control, opening: Opening, now: int) -> None:
        message = self.receiving.get(control.key) or self.complete.get(control.key)
        if message is None:
            size = footprint(opening, value_type(control.data_type))
            if self.charged + size > self.settings.memory_per_peer:
                self._waiting[control.key] = control, opening
                if len(self._waiting) > WAITING:
                    self._waiting.popitem(last=False)
                self.say(GradientType.ACK, control.key, Feedback(Status.WAIT).pack(), now, answers=control.counter)
                return
            message = self.endpoint.new_receiving(self, control.key, now)
            message.charged = size
            self.charged += size
        self._waiting.pop(control.key, None)
        news = message.state is State.EXPECTED and not message.claimed
        message.opened(control, opening, now)
        if news and self.endpoint.unasked is not None:
            self.endpoint.unasked(self, control.key, opening.values)

    def take_early(self, frame: bytes, arrived: int) -> None:
        """Keep data of a message that is not known yet, the oldest only as long as there is room.

        A driver that takes many packets at once gets START together with the first data: when that was handed to the
        core its message was unknown, and is open by now.
        """
        if self.core.accept(frame, 0, self.source, arrived) is not Verdict.UNKNOWN:
            return
        self.endpoint.counts.early += 1
        self._early.append((frame[4:16], frame))
        if len(self._early) > self.settings.early_packets:
            self._early.popleft()
            self.endpoint.counts.early_dropped += 1

    def room(self, key: bytes, now: int) -> None:
        """Open messages for which there was no room, as far as there is now, and this one in any case."""
        for waiting in [key, *self._waiting] if key in self._waiting else list(self._waiting):
            if waiting in self._waiting:
                control, opening = self._waiting[waiting]
                self._take_opening(control, opening, now)
                if waiting in self._waiting:
                    return


class Endpoint:
    """One end: the state machines of all messages, and what a driver needs to run them."""

    def __init__(self, settings: Settings | None = None, *, seed: int | None = None) -> None:
        self.settings = settings or Settings()
        self.core = Core()
        self.counts = Counts()
        self.seal = Seal(self.settings.key)
        self.outgoing: list[tuple[Peer, bytes]] = []
        """Control messages to send, in order."""
        self.peers: dict[int, Peer] = {}
        self.unasked: Callable[[Peer, bytes, int], None] | None = None
        """Called with the peer, the key and the number of values when a message opens that nobody has asked for."""
        self.renewed: Callable[[Peer], None] | None = None
        """Called with a peer that has started anew since it first answered."""
        self._random = random.Random(seed) if seed is not None else random.SystemRandom()
        self.closed = False
        self.session = self._random.randrange(1, 1 << 32)
        self._timers: list[tuple[int, int, Timed]] = []
        self._count = itertools.count()
        self._handles = itertools.count(1)
        self._by_handle: dict[int, Receiving] = {}

    # ---- the user, through a driver

    def add_peer(self, address: Hashable, source: int, settings: Settings | None = None) -> Peer:
        """Return the peer of this address, known from now on."""
        if source in self.peers:
            return self.peers[source]
        settings = settings or self.settings
        pacer = load()[0].new("struct pacer *")
        pacer.line_rate = settings.rate.line
        pacer.overhead, pacer.burst = settings.frame_overhead, settings.burst
        peer = Peer(self, address, source, settings, RateControl(settings.rate), pacer)
        peer.adopt(settings)
        self.peers[source] = peer
        return peer

    def send(
        self,
        peer: Peer,
        values: NDArray[np.float32],
        ids: TensorId,
        now: int,
        *,
        tolerance: float = 0.0,
        priority: int | None = None,
        data_type: DataType = DataType.FLOAT32,
        path: int = 0,
        blank: bool = False,
    ) -> Sending:
        """Begin to send a message; `values` must not change until its result is there.

        `tolerance` is the share of values that may be missing: the least important are sent only if others get lost,
        and of a message that may miss nothing the fabric may drop nothing. Of the messages to a peer, those of the
        highest `priority` go first (0..7, unless told by layer: front layers first). `path` pins it to a member of the
        fabric's path groups, 0 to none. With `blank`, packets of nothing but zeros are told, in START and FINISH, not
        sent. Raises ValueError if a message of this name is on its way to the peer.
        """
        if self.closed:
            raise Cancelled("the endpoint is closed")
        if key_of(ids) in peer.sending:
            raise ValueError(f"{ids} is on its way to {peer} already")
        if not 0 <= tolerance <= 1:
            raise ValueError(f"a tolerance is a share from 0 to 1, not {tolerance}")
        message = OutboundMessage(
            values,
            ids,
            per_packet=peer.settings.per_packet * 4 // VALUE_BYTES[data_type],
            data_type=data_type,
            first_sequence=self._random.randrange(1 << 32),
            protected_share=peer.settings.protected_share if tolerance else 1.0,
            held_share=max(tolerance - min(peer.settings.spare_share, (1 - tolerance) / 2), 0.0),
            path=path,
            blank=blank,
        )
        allowed = int(tolerance * message.value_count)
        chosen = priority_of(ids.layer) if priority is None else priority
        sending = Sending(peer, ids, message, data_type, allowed, chosen, now)
        peer.sending[message.key] = peer.waiting[message.key] = sending
        peer.watch(now)
        sending.start(now)
        return sending

    def receive(self, peer: Peer, ids: TensorId, now: int, expected: Expectation | None = None) -> Receiving:
        """Ask for a message; raises ValueError if it was asked for already."""
        if self.closed:
            raise Cancelled("the endpoint is closed")
        key = key_of(ids)
        message = peer.receiving.get(key) or peer.complete.get(key)
        if message is None:
            message = self.new_receiving(peer, key, now)
        message.claim(expected or Expectation(), now)
        peer.room(key, now)
        return message

    def close(self) -> None:
        """Give up every message, and take no other."""
        self.closed = True
        for peer in self.peers.values():
            peer.fail(Cancelled("the endpoint was closed"))

    # ---- messages

    def new_receiving(self, peer: Peer, key: bytes, now: int) -> Receiving:
        """Return a new message from a peer."""
        handle = next(self._handles)
        message = Receiving(peer, key, handle, now)
        peer.receiving[key] = self._by_handle[handle] = message
        peer.watch(now)
        return message

    def forget(self, message: Receiving) -> None:
        """Drop a message's place in the core."""
        if self._by_handle.pop(message.handle, None) is not None:
            message.discard()

    def schedule(self, timed: Timed, due: int) -> None:
        """Have `timed.tick` called at that time, if that is its deadline then."""
        heapq.heappush(self._timers, (due, next(self._count), timed))

    # ---- the driver

    def take(self, frame: bytes, source: int, verdict: int, now: int, arrived: int | None = None) -> None:
        """Take a packet that the core did not; `arrived` is when the host got it, if that was before `now`."""
        peer = self.peers.get(source)
        if peer is None:
            self.counts.foreign += 1
        elif verdict == Verdict.UNKNOWN:
            peer.take_early(frame, now if arrived is None else arrived)
        elif (message := self.seal.open(frame)) is None:
            self.counts.forged += 1
        else:
            peer.arrived = now if arrived is None else arrived
            try:
                peer.take_control(Control.parse(message), now)
            except Malformed as error:
                self.counts.malformed += 1
                log.debug("%s: %s", peer, error)

    def settle(self, now: int) -> None:
        """Let messages with new packets act upon them."""
        for handle in self.core.touched():
            if message := self._by_handle.get(handle):
                message.peer.heard(now)
                message.news(now)

    @property
    def agreed(self) -> bool:
        """Whether the senders of all messages that are complete know that they are."""
        return all(message.known for peer in self.peers.values() for message in peer.complete.values())

    def due(self) -> int | None:
        """Return when `tick` is to be called next."""
        while self._timers:
            due, _, timed = self._timers[0]
            if timed.deadline == due:
                return due
            heapq.heappop(self._timers)
        return None

    def tick(self, now: int) -> None:
        """Do what is due."""
        while (due := self.due()) is not None and due <= now:
            timed = heapq.heappop(self._timers)[2]
            timed.tick(now)

    def turns(self) -> list[Sending]:
        """Return what may be sent: of every peer the message of the highest priority, the eldest among equals."""
        chosen = []
        for peer in self.peers.values():
            ready = [message for message in peer.waiting.values() if not message.paused]
            if ready:
                chosen.append(max(ready, key=_precedence))
        return chosen


_precedence = attrgetter("precedence")


def footprint(opening: Opening, data_type: DataType) -> int:
    """Return the bytes that a message takes here: its values, two bits for each packet, and what is known of it."""
    packets = -(-opening.values // opening.per_packet)
    return opening.values * VALUE_BYTES[data_type] + packets // 4 + RECORD_BYTES


def priority_of(layer: int) -> int:
    """Return a layer's priority, 6 for the first down to 1: ranges that double, as the default policy's classes."""
    return max(6 - layer.bit_length(), 1)
