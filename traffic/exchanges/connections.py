# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Frames over TCP between a host and its peers: several connections to each, one outgoing queue for all of them.

A connection takes the next frame of its peer's queue when the kernel has sent nearly all of the former, so that a
frame that is urgent overtakes all that waits, and a connection on a crowded path takes fewer.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import os
import selectors
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
Source = Callable[[Hashable, "Header"], Values]
Taker = Callable[[Hashable, "Header", Values], None]

HEADER = struct.Struct("<IHHI")
UNSENT_BYTES = 16 << 10
"""What the kernel may hold of a connection unsent (TCP_NOTSENT_LOWAT): what is urgent waits for no more than that."""
CHUNK_BYTES = 64 << 10
GREETING = struct.Struct("<H")

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Header:
    """What a frame is: a piece's values of one round from one rank; `count` says how many bytes follow."""

    round: int
    piece: int
    rank: int
    bytes: int


@dataclass
class _Peer:
    """Whoever is at the other end of some connections, and what waits to go there."""

    name: Hashable
    waiting: list[tuple[int, int, tuple[memoryview, ...]]] = field(default_factory=list)
    connections: list[_Connection] = field(default_factory=list)


@dataclass
class _Connection:
    """One TCP connection: a frame on its way out, and one on its way in."""

    socket: socket.socket
    peer: _Peer
    out: deque[memoryview] = field(default_factory=deque)
    writes: bool = False
    head: bytearray = field(default_factory=lambda: bytearray(HEADER.size))
    filled: int = 0
    header: Header | None = None
    values: Values | None = None
    body: memoryview | None = None


class Connections:
    """All connections of a host, run by one thread.

    `source` says where a frame's values go, `taker` is told when they are there; both run in the thread. `failed` is
    told of the first connection that breaks, or that ends between frames unless peers `may_leave`.
    """

    def __init__(
        self, source: Source, taker: Taker, failed: Callable[[Exception], None], *, may_leave: bool = False
    ) -> None:
        self._source, self._taker, self._failed, self._may_leave = source, taker, failed, may_leave
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._wake, selectors.EVENT_READ, None)
        self._peers: dict[Hashable, _Peer] = {}
        self._lock = threading.Lock()
        self._order = itertools.count()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="connections", daemon=True)

    def add(self, peer: Hashable, connected: socket.socket) -> None:
        """Take a connection to a peer; before `start`."""
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)
        of = self._peers.setdefault(peer, _Peer(peer))
        connection = _Connection(connected, of)
        of.connections.append(connection)
        self._selector.register(connected, selectors.EVENT_READ, connection)

    def start(self) -> None:
        """Begin to send and receive."""
        self._thread.start()

    def send(self, peer: Hashable, header: Header, values: Values, urgency: int = 0) -> None:
        """Queue a frame; of a peer's frames the most urgent goes first, the eldest among equals."""
        packed = HEADER.pack(header.round, header.piece, header.rank, header.bytes)
        parts = (memoryview(packed), values.data.cast("B"))
        with self._lock:
            heapq.heappush(self._peers[peer].waiting, (-urgency, next(self._order), parts))
        with suppress(BlockingIOError):
            os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """End the thread and the connections."""
        self._closing = True
        with suppress(BlockingIOError):
            os.eventfd_write(self._wake, 1)
        if self._thread.is_alive():
            self._thread.join()
        for peer in self._peers.values():
            for connection in peer.connections:
                connection.socket.close()
        self._selector.close()
        os.close(self._wake)

    # ---- the thread

    def _run(self) -> None:
        try:
            while not self._closing:
                for key, events in self._selector.select():
                    if key.data is None:
                        os.eventfd_read(self._wake)
                        self._look_for_work()
                        continue
                    if events & selectors.EVENT_READ:
                        self._read(key.data)
                    if events & selectors.EVENT_WRITE and key.data.socket.fileno() >= 0:  # it may just have left
                        self._write(key.data)
        except Exception as error:
            if not self._closing:
                self._failed(error)

    def _look_for_work(self) -> None:
        for peer in self._peers.values():
            if peer.waiting:
                for connection in peer.connections:
                    self._watch(connection, True)

    def _watch(self, connection: _Connection, writes: bool) -> None:
        if writes != connection.writes:
            connection.writes = writes
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if writes else 0)
            self._selector.modify(connection.socket, events, connection)

    def _write(self, connection: _Connection) -> None:
        if not connection.out:
            with self._lock:
                waiting = connection.peer.waiting
                if waiting:
                    connection.out.extend(heapq.heappop(waiting)[2])
            if not connection.out:
                self._watch(connection, False)
                return
        try:
            sent = connection.socket.sendmsg([part[:CHUNK_BYTES] for part in list(connection.out)[:2]])
        except BlockingIOError:
            return
        while sent:
            if sent >= len(connection.out[0]):
                sent -= len(connection.out.popleft())
            else:
                connection.out[0] = connection.out[0][sent:]
                sent = 0

    def _read(self, connection: _Connection) -> None:
        try:
            if connection.header is None:
                self._read_header(connection)
            if connection.body is not None:
                got = connection.socket.recv_into(connection.body)
                if not got:
                    raise ConnectionError(f"{connection.peer.name} closed a connection")
                connection.body = connection.body[got:]
                if not connection.body:
                    header, values = connection.header, connection.values
                    assert header is not None and values is not None
                    connection.header = connection.body = connection.values = None
                    self._taker(connection.peer.name, header, values)
        except BlockingIOError:
            pass

    def _read_header(self, connection: _Connection) -> None:
        got = connection.socket.recv_into(memoryview(connection.head)[connection.filled :])
        if not got and self._may_leave and not connection.filled and not connection.out:
            self._selector.unregister(connection.socket)
            connection.peer.connections.remove(connection)
            connection.socket.close()
            return
        if not got:
            raise ConnectionError(f"{connection.peer.name} closed a connection")
        connection.filled += got
        if connection.filled == HEADER.size:
            connection.filled = 0
            connection.header = Header(*HEADER.unpack(connection.head))
            connection.values = self._source(connection.peer.name, connection.header)
            connection.body = connection.values.data.cast("B")
            if len(connection.body) != connection.header.bytes:
                raise ConnectionError(f"{connection.peer.name} sends a piece of another size")


def dial(source: str, destination: str, port: int, rank: int, seconds: float = 10.0) -> socket.socket:
    """Return a connection from one address to another, and say who calls."""
    connected = socket.create_connection((destination, port), seconds, (source, 0))
    connected.sendall(GREETING.pack(rank))
    return connected


def answer(listener: socket.socket) -> tuple[int, socket.socket]:
    """Return the next connection and the rank of who called; others are sent away. Raises OSError."""
    while True:
        connected, _ = listener.accept()
        connected.settimeout(10)
        with suppress(OSError, struct.error):
            (rank,) = GREETING.unpack(connected.recv(GREETING.size, socket.MSG_WAITALL))
            return rank, connected
        connected.close()
