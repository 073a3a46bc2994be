# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Endpoints under a virtual clock: one queue of events, links that lose, reorder, double, mark, trim and damage.

Deterministic: the same seed gives the same run. Every packet costs Python here, so it is for tests and small
simulations; the state machines and the bookkeeping are those of the sockets.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from traffic.transport.core import MAX_BURST, ROW_BYTES, Verdict, load
from traffic.transport.endpoint import Endpoint, Peer
from traffic.transport.sender import Sending
from traffic.transport.settings import Settings
from traffic.transport.timing import MILLISECOND, SECOND
from traffic.wire import GRADIENT_BYTES, GradientFlag, GradientType, version_type

NOT_JUDGED = GradientFlag.RETRANSMISSION | GradientFlag.PROTECTED
ECT_0, CONGESTION_EXPERIENCED = 2, 3
DATA = version_type(GradientType.DATA)
TRIMMED = version_type(GradientType.TRIMMED)


@dataclass(frozen=True)
class Port:
    """The link to a node and the queue before it, as the last switch has them."""

    rate: float = 100e6
    """Bits of whole frames per second."""
    delay: int = MILLISECOND // 4
    """One way, ns."""
    capacity: int = 256 * 1514
    """Bytes that the queue holds."""
    mark_above: int | None = None
    """Depth in bytes above which packets are marked (ECN)."""
    drop_above: tuple[int, ...] = ()
    """Depth above which a packet is dropped, by importance band: 8 depths, the least important band first."""
    trim: bool = False
    """Trim what would be dropped."""
    priority: bool = True
    """Control messages and trimmed packets overtake the queue."""


@dataclass(frozen=True)
class Trouble:
    """What happens to packets on their way, as probabilities; the queue's own doing comes on top."""

    loss: float = 0.0
    control_loss: float = 0.0
    least_important_loss: float = 0.0
    """Share of each tensor's packets that is always dropped, the least important of those that may be judged."""
    duplicate: float = 0.0
    corrupt: float = 0.0
    """One bit flips; the receiving host's UDP checksum finds it."""
    truncate: float = 0.0
    """Cut short, with a checksum that fits: a broken sender."""
    trim: float = 0.0
    jitter: int = 0
    """Extra delay of a packet, evenly drawn up to this, ns: packets overtake each other."""


@dataclass(eq=False)
class Node:
    """An endpoint in the network."""

    name: str
    number: int
    """How cores name it."""
    endpoint: Endpoint
    port: Port
    alive: bool = True
    wake_at: int = -1
    _uplink_free: float = 0.0
    _port_free: float = 0.0


@dataclass
class VirtualNetwork:
    """Nodes whose packets meet only at the port of the node that they go to."""

    seed: int = 0
    trouble: Trouble = field(default_factory=Trouble)
    now: int = SECOND
    counts: Counter[str] = field(default_factory=Counter)
    nodes: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._events: list[tuple[int, int, Node, bytes | None, int, int, bool]] = []
        self._order = itertools.count()
        self._by_number: dict[int, Node] = {}
        ffi, self._library = load()
        self._indices = ffi.new("uint32_t[]", MAX_BURST)
        self._frames = np.zeros((MAX_BURST, ROW_BYTES), np.uint8)
        self._lengths = np.zeros(MAX_BURST, np.uint32)
        self._rows = ffi.from_buffer("uint8_t[]", self._frames, require_writable=True)
        self._row_lengths = ffi.from_buffer("uint32_t[]", self._lengths, require_writable=True)

    def add(self, name: str, settings: Settings | None = None, port: Port | None = None) -> Node:
        """Return a new node."""
        number = len(self.nodes) + 1
        endpoint = Endpoint(settings or Settings(), seed=self._random.randrange(1 << 32))
        node = Node(name, number, endpoint, port or Port())
        self.nodes[name] = self._by_number[number] = node
        return node

    def peer(self, at: Node, other: Node) -> Peer:
        """Return what one node knows of another."""
        return at.endpoint.add_peer(other.name, other.number)

    def kill(self, node: Node) -> None:
        """Let a node neither send nor receive any more."""
        node.alive = False

    # ---- time

    def wake(self, node: Node) -> None:
        """Let a node do what is due: to be called after the user asked something of it."""
        if not node.alive:
            return
        endpoint = node.endpoint
        endpoint.settle(self.now)
        endpoint.tick(self.now)
        due = self._transmit(node)
        for peer, message in endpoint.outgoing:
            self._emit(node, self._by_number[peer.source], message)
        endpoint.outgoing.clear()
        timer = endpoint.due()
        due = timer if due is None else due if timer is None else min(due, timer)
        if due is not None and due != node.wake_at:
            node.wake_at = max(due, self.now)
            self._push(node.wake_at, node, None, 0, 0, False)

    def _transmit(self, node: Node) -> int | None:
        """Send the bursts that are due; return when the next one is."""
        while True:
            turns = node.endpoint.turns()
            if not turns:
                return None
            first = min(turns, key=lambda sending: float(sending.peer.pacer.due_ns))
            due = int(first.peer.pacer.due_ns)
            if due > self.now:
                return due
            self._send_burst(node, first)

    def _send_burst(self, node: Node, sending: Sending) -> None:
        struct, pacer = sending.message.struct, sending.peer.pacer
        count = self._library.outbound_next(struct, pacer, self.now, self._indices)
        self._library.outbound_copy(struct, self._indices, count, self._rows, ROW_BYTES, self._row_lengths)
        destination = self._by_number[sending.peer.source]
        for frame, length in zip(self._frames[:count], self._lengths[:count], strict=True):
            self._emit(node, destination, frame[:length].tobytes())
        sending.transmitted(self.now)

    def run(self, until: int | None = None) -> None:
        """Let time pass until nothing more happens, or until `until`."""
        while self._events and (until is None or self._events[0][0] <= until):
            self.now, _, node, frame, source, ecn, queued = heapq.heappop(self._events)
            if not node.alive:
                continue
            if frame is None:
                if node.wake_at == self.now:
                    node.wake_at = -1
                    self.wake(node)
            elif queued:
                self._deliver(node, frame, source, ecn)
            else:
                self._enqueue(node, frame, source)
        if until is not None:
            self.now = max(self.now, until)

    def _push(self, at: int, node: Node, frame: bytes | None, source: int, ecn: int, queued: bool) -> None:
        heapq.heappush(self._events, (at, next(self._order), node, frame, source, ecn, queued))

    # ---- the way of a packet

    def _emit(self, node: Node, destination: Node, frame: bytes) -> None:
        settings = node.endpoint.settings
        bits = 8.0 * (len(frame) + settings.frame_overhead)
        node._uplink_free = max(node._uplink_free, float(self.now)) + bits * SECOND / settings.rate.line
        self.counts["sent"] += 1
        trouble, draw = self.trouble, self._random.random
        control = frame[0] not in (DATA, TRIMMED)
        if draw() < (trouble.control_loss if control else trouble.loss):
            self.counts["lost"] += 1
            return
        judged = not control and not frame[1] & NOT_JUDGED
        if judged and frame[3] < trouble.least_important_loss * 256:
            self.counts["dropped"] += 1
            return
        for _ in range(1 + (draw() < trouble.duplicate)):
            jitter = self._random.randrange(trouble.jitter) if trouble.jitter else 0
            at = int(node._uplink_free) + destination.port.delay + jitter
            self._push(at, destination, self._damage(frame), node.number, 0, False)

    def _damage(self, frame: bytes) -> bytes:
        trouble, draw = self.trouble, self._random.random
        if draw() < trouble.trim and frame[0] == DATA:
            frame = trimmed(frame)
        if draw() < trouble.truncate:
            self.counts["truncated"] += 1
            frame = frame[: self._random.randrange(len(frame))]
        if draw() < trouble.corrupt:
            self.counts["corrupted"] += 1
            return b""
        return frame

    def _enqueue(self, node: Node, frame: bytes, source: int) -> None:
        """Judge a packet at the queue of the port, as the switch does."""
        if not frame:  # its checksum fails: the host's kernel drops it
            return
        port, ecn = node.port, ECT_0
        bits = 8.0 * (len(frame) + node.endpoint.settings.frame_overhead)
        time = bits * SECOND / port.rate
        if port.priority and frame[0] != DATA:
            self._push(self.now + int(time), node, frame, source, ecn, True)
            return
        depth = max(node._port_free - self.now, 0.0) * port.rate / 8 / SECOND
        judged = 255 if frame[0] != DATA or len(frame) < GRADIENT_BYTES or frame[1] & NOT_JUDGED else frame[3]
        limit = port.drop_above[judged >> 5] if port.drop_above else port.capacity
        if depth > limit or depth + bits / 8 > port.capacity:
            if port.trim and frame[0] == DATA and len(frame) > GRADIENT_BYTES:
                self.counts["trimmed"] += 1
                self._enqueue(node, trimmed(frame), source)
            else:
                self.counts["dropped"] += 1
            return
        if port.mark_above is not None and depth > port.mark_above:
            self.counts["marked"] += 1
            ecn = CONGESTION_EXPERIENCED
        node._port_free = max(node._port_free, float(self.now)) + time
        self._push(int(node._port_free), node, frame, source, ecn, True)

    def _deliver(self, node: Node, frame: bytes, source: int, ecn: int) -> None:
        self.counts["delivered"] += 1
        self.counts["delivered_bytes"] += len(frame)
        verdict = node.endpoint.core.accept(frame, ecn, source, self.now)
        if verdict in (Verdict.CONTROL, Verdict.UNKNOWN):
            node.endpoint.take(frame, source, verdict, self.now)
        self.wake(node)


def trimmed(frame: bytes) -> bytes:
    """Return a data packet without its values, as a switch trims it."""
    return bytes([TRIMMED]) + frame[1:GRADIENT_BYTES]
