# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""An endpoint on a UDP socket, run by a thread of its own that sleeps in C until something is due or comes."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from types import TracebackType
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from topologies.errors import FailureError
from traffic.packer import TensorId
from traffic.transport.core import ROW_BYTES, load
from traffic.transport.endpoint import Endpoint, Peer
from traffic.transport.errors import Cancelled, TransportError
from traffic.transport.receiver import Expectation, Receiving
from traffic.transport.sender import Sending, SendReport
from traffic.transport.settings import Settings
from traffic.transport.timing import MILLISECOND, SECOND
from traffic.wire import GRADIENT_PORT, MTU, DataType

log = logging.getLogger(__name__)

BUFFERS = 32
"""Datagrams taken at once, each as long as 64 KiB where the kernel has joined them."""
ROWS = 1024
LONGEST_WAIT = SECOND
FAREWELL = SECOND
SOCKET_BYTES = 16 << 20
SO_RCVBUFFORCE = 33
MAX_TURNS = 256
LEAST_LOOK, LONGEST_LOOK = MILLISECOND // 2, 2 * MILLISECOND

Result = TypeVar("Result")


class SocketEndpoint:
    """One end of the transport at an address; a context manager.

    Everything may be called from any thread. `result` of what `send` and `receive` return is a future; callbacks on it
    run in the endpoint's thread and must not block.
    """

    def __init__(self, address: str, port: int = GRADIENT_PORT, settings: Settings | None = None) -> None:
        self._ffi, self._library = load()
        self._ipv6 = ":" in address
        self._socket = _open(address, port, self._ipv6)
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self.address: tuple[str, int] = self._socket.getsockname()[:2]
        self.endpoint = Endpoint(settings)
        self._names: dict[int, bytes] = {}
        self._addresses: dict[int, tuple[str, int]] = {}
        self._calls: deque[Callable[[int], None]] = deque()
        self._closing = False
        self._buffers = np.empty(BUFFERS * 65536, np.uint8)
        self._reception = self._ffi.new("struct reception *")
        self._reception.buffers = self._ffi.from_buffer("uint8_t[]", self._buffers, require_writable=True)
        self._reception.messages = BUFFERS
        self._reception.look_ns = look_interval(self.endpoint.settings)
        self._reception.gather_ns = self.endpoint.settings.feedback[0]
        self._frames = np.empty((ROWS, ROW_BYTES), np.uint8)
        self._lengths, self._sources = np.zeros(ROWS, np.uint32), np.zeros(ROWS, np.uint64)
        self._times, self._verdicts = np.zeros(ROWS, np.uint64), np.zeros(ROWS, np.uint8)
        self._rows = self._ffi.new("struct rows *")
        self._rows.stride, self._rows.capacity = ROW_BYTES, ROWS
        for name, array, of in (
            ("frames", self._frames, "uint8_t[]"),
            ("lengths", self._lengths, "uint32_t[]"),
            ("sources", self._sources, "uint64_t[]"),
            ("times", self._times, "uint64_t[]"),
            ("verdicts", self._verdicts, "uint8_t[]"),
        ):
            setattr(self._rows, name, self._ffi.from_buffer(of, array, require_writable=True))
        self._turns = self._ffi.new("struct turn[]", MAX_TURNS)
        self._segment = self._ffi.new("int *", 1)
        self._line = self._ffi.new("struct line *")
        self._line.rate = self.endpoint.settings.rate.line
        self._thread = threading.Thread(target=self._run, name=f"transport {address}", daemon=True)
        self._thread.start()

    def __enter__(self) -> SocketEndpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- the user

    def peer(self, address: str, port: int = GRADIENT_PORT) -> Peer:
        """Return the peer at an address, known from now on: what others send is ignored."""
        name = _name(address, port, self._ipv6)
        source = int(self._library.datagrams_source(name, len(name)))

        def add(_: int) -> Peer:
            self._names[source], self._addresses[source] = name, _address(name, self._ipv6)
            return self.endpoint.add_peer(f"{address} port {port}", source)

        return self.call(add)

    def send(
        self,
        peer: Peer,
        values: NDArray[np.float32],
        ids: TensorId,
        *,
        tolerance: float = 0.0,
        priority: int | None = None,
        data_type: DataType = DataType.FLOAT32,
    ) -> Future[SendReport]:
        """Send a message; see Endpoint.send. `values` must not change until the result is there."""

        def send(now: int) -> Sending:
            return self.endpoint.send(
                peer, values, ids, now, tolerance=tolerance, priority=priority, data_type=data_type
            )

        return self.call(send).result

    def receive(self, peer: Peer, ids: TensorId, expected: Expectation | None = None) -> Receiving:
        """Ask for a message; see Endpoint.receive."""
        return self.call(lambda now: self.endpoint.receive(peer, ids, now, expected))

    def post(self, function: Callable[[int], None]) -> None:
        """Have a function of the time run in the endpoint's thread, soon. It must not raise. Raises Cancelled."""
        if self._closing:
            raise Cancelled("the endpoint is closed")
        self._calls.append(function)
        self._ring()
        if not self._thread.is_alive():
            raise Cancelled("the endpoint is closed")

    def ignored(self) -> dict[str, int]:
        """Return how many packets were received and are part of no message, by reason; reasons that occurred."""
        counts, core = self.endpoint.counts, self.endpoint.core.struct
        found = {
            "malformed": counts.malformed + core.malformed,
            "foreign": counts.foreign + core.foreign,
            "forged": counts.forged,
            "replayed": counts.replayed,
            "of another life": counts.stale,
            "early, no room": counts.early_dropped,
            "cut": int(self._reception.truncated),
            "no row": int(self._rows.overflow),
        }
        return {reason: count for reason, count in found.items() if count}

    def close(self) -> None:
        """Give up every message and end the thread.

        For a second at most the senders of what is complete are told so, lest they take this end for lost.
        """
        if self._thread.is_alive():
            self._closing = True
            self._ring()
            self._thread.join()

    def call(self, function: Callable[[int], Result]) -> Result:
        """Run a function of the time in the endpoint's thread and return what it returns."""
        if threading.current_thread() is self._thread:
            return function(self.now())
        if self._closing:
            raise Cancelled("the endpoint is closed")
        done: Future[Result] = Future()

        def run(now: int) -> None:
            try:
                done.set_result(function(now))
            except Exception as error:
                done.set_exception(error)

        self._calls.append(run)
        self._ring()
        while not done.done():
            with contextlib.suppress(TimeoutError):
                return done.result(timeout=1)
            if not self._thread.is_alive():
                raise Cancelled("the endpoint is closed")
        return done.result()

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            os.eventfd_write(self._wake, 1)

    # ---- the thread

    def now(self) -> int:
        """Return the endpoint's time, ns."""
        return int(self._library.datagrams_now())

    def _run(self) -> None:
        try:
            while not self._closing:
                self._step()
            last = self.now() + FAREWELL
            while not self.endpoint.agreed and self.now() < last:
                self._step()
        except OSError as error:
            log.error("the transport's socket failed: %s", error)
            self._fail(Cancelled(f"the transport's socket failed: {error.strerror or error}"))
        except Exception as error:
            log.exception("the transport failed")
            self._fail(Cancelled(f"the transport failed: {error}"))
        finally:
            self._closing = True
            self.endpoint.close()
            while self._calls:
                self._calls.popleft()(self.now())
            self._socket.close()
            os.close(self._wake)

    def _fail(self, error: TransportError) -> None:
        for peer in self.endpoint.peers.values():
            peer.fail(error)

    def _step(self) -> None:
        """Do what is due, send what may be sent and take what comes, until there is more to do."""
        endpoint = self.endpoint
        now = self.now()
        while self._calls:
            self._calls.popleft()(now)
        endpoint.settle(now)
        endpoint.tick(now)
        self._say()
        until = now + LONGEST_WAIT
        if (due := endpoint.due()) is not None:
            until = min(until, due)
        if self._calls:
            until = now
        turns = endpoint.turns()[:MAX_TURNS]
        self._run_until(until, turns)
        now = self.now()
        for sending in turns:
            sending.transmitted(now)
        if count := self._rows.count:
            columns = (array[:count].tolist() for array in (self._lengths, self._sources, self._verdicts, self._times))
            for row, (length, source, verdict, arrived) in enumerate(zip(*columns, strict=True)):
                endpoint.take(self._frames[row, :length].tobytes(), source, verdict, self.now(), arrived)
                self._say()  # at once: what the answer waited for here would count as the network's delay

    def _run_until(self, until: int, turns: list[Sending]) -> None:
        """Send these messages and receive, in C, until Python has something to do."""
        for slot, sending in zip(self._turns, turns, strict=False):
            name = self._names[sending.peer.source]
            slot.message, slot.pacer, slot.address_bytes = sending.message.struct, sending.peer.pacer, len(name)
            self._ffi.memmove(slot.address, name, len(name))
        self._rows.count = 0
        code = self._library.datagrams_run(
            self._socket.fileno(),
            self._wake,
            self.endpoint.core.struct,
            self._reception,
            self._rows,
            self._turns,
            len(turns),
            self._line,
            until,
            self._segment,
        )
        if code < 0:
            raise OSError(-code, os.strerror(-code))

    def _say(self) -> None:
        outgoing = self.endpoint.outgoing
        if not outgoing:
            return
        for peer, message in outgoing:
            with contextlib.suppress(OSError):  # as good as lost on the way
                self._socket.sendto(message, self._addresses[peer.source])
        outgoing.clear()


def look_interval(settings: Settings) -> int:
    """Return the ns between two looks at the socket while packets come: a burst's time on the link, within bounds."""
    burst = settings.burst * 8 * MTU * SECOND / settings.rate.line
    return int(min(max(burst, LEAST_LOOK), LONGEST_LOOK))


def _check(code: int) -> None:
    if code < 0:
        raise OSError(-code, os.strerror(-code))


def _open(address: str, port: int, ipv6: bool) -> socket.socket:
    opened = socket.socket(socket.AF_INET6 if ipv6 else socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        opened.bind((address, port))
        _check(load()[1].datagrams_options(opened.fileno(), ipv6))
    except OSError as error:
        opened.close()
        raise FailureError(f"cannot use UDP port {port} of {address}: {error.strerror or error}") from error
    try:
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES)
    except PermissionError:  # not root: what the system grants
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SOCKET_BYTES)
    return opened


def _name(address: str, port: int, ipv6: bool) -> bytes:
    """Return the address as the kernel has it: sockaddr_in or sockaddr_in6."""
    family = np.array([socket.AF_INET6 if ipv6 else socket.AF_INET], np.uint16).tobytes()
    try:
        if ipv6:
            return family + port.to_bytes(2, "big") + bytes(4) + socket.inet_pton(socket.AF_INET6, address) + bytes(4)
        return family + port.to_bytes(2, "big") + socket.inet_pton(socket.AF_INET, address) + bytes(8)
    except OSError:
        raise ValueError(f"{address} is no IPv{6 if ipv6 else 4} address") from None


def _address(name: bytes, ipv6: bool) -> tuple[str, int]:
    port = int.from_bytes(name[2:4], "big")
    host = socket.inet_ntop(socket.AF_INET6, name[8:24]) if ipv6 else socket.inet_ntop(socket.AF_INET, name[4:8])
    return host, port
