# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Traffic beside a training job: a trace of bursts, stored, sent at its own times whatever becomes of it, and measured.

A burst is a tensor of a second job's and belongs to a layer of it. One that names a path looks like that job's
protected gradient packets, which every policy sends along that path. Bursts without one are ordinary UDP with a DSCP
that tells the layer, and take the paths that the policy has for their class.
"""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traffic import native
from traffic.packer import Packets
from traffic.wire import (
    FRAME_OVERHEAD,
    GRADIENT_BYTES,
    GRADIENT_PORT,
    HEADER,
    IPV4_VALUES,
    DataType,
    GradientFlag,
    GradientType,
    version_type,
)

BACKGROUND_JOB = 2
BACKGROUND_PORT = 18300
FIRST_DSCP, DSCP_LAYERS = 32, 16
"""The first layer's, CS4; each other layer's is one below. By it a policy tells the class."""
LOOK_SECONDS = 0.002
"""How often a sink looks: how exactly it knows when a burst was complete."""
IDLE_SECONDS = 0.1
PAYLOAD = 4 * IPV4_VALUES
SOCKET_BYTES = 16 << 20
SO_RCVBUFFORCE = 33


@dataclass(frozen=True)
class Burst:
    """So many bytes from one host to another at a rate, from a moment of the trace on."""

    at: float
    """Seconds since the start."""
    source: str
    target: str
    bytes: int
    """Of payload."""
    rate: float
    """Bits of whole frames per second."""
    path: int = 0
    """The path it takes, counted from 1; 0: whichever the policy chooses."""
    layer: int = 0
    """Of the second job, whose first layer is 0."""

    @property
    def packets(self) -> int:
        """How many packets it is."""
        return max(-(-self.bytes // PAYLOAD), 1)


@dataclass(frozen=True)
class Trace:
    """Bursts in the order of their times; what lasts longer begins again after `seconds`."""

    seconds: float
    bursts: tuple[Burst, ...]

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"seconds": self.seconds, "bursts": [asdict(burst) for burst in self.bursts]}))

    @staticmethod
    def load(path: Path) -> Trace:
        """Read back what `save` wrote."""
        values = json.loads(path.read_text())
        return Trace(values["seconds"], tuple(Burst(**burst) for burst in values["bursts"]))

    def of(self, source: str) -> list[tuple[int, Burst]]:
        """Return a host's bursts, each with its number in the trace."""
        return [(number, burst) for number, burst in enumerate(self.bursts) if burst.source == source]


@dataclass
class _Sink:
    """What arrived of every burst, by its number among all that were ever sent."""

    socket: socket.socket
    packets: NDArray[np.int64]
    last: NDArray[np.float64]


class Background:
    """One host's part: its senders' thread and its sinks' thread, while it runs."""

    def __init__(self, host: str) -> None:
        self._host = host
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._sinks: list[_Sink] = []
        self._sent: list[tuple[int, int, float]] = []
        self._trace = Trace(1.0, ())
        self._numbers = 0

    def start(self, trace: Path, addresses: Mapping[str, str], begin: float, longest: float) -> None:
        """Open sinks, and send this host's bursts from `begin` (CLOCK_MONOTONIC) on, for `longest` seconds at most."""
        self._trace = Trace.load(trace)
        self._stop.clear()
        self._sent, self._sinks = [], []
        self._numbers = len(self._trace.bursts) * (int(longest / self._trace.seconds) + 1)
        mine = addresses[self._host]
        targets = {(burst.target, burst.path) for burst in self._trace.bursts if burst.target == self._host}
        for port in sorted({_port(path) for _, path in targets}):
            self._sinks.append(_Sink(_listen(mine, port), np.zeros(self._numbers, np.int64), np.zeros(self._numbers)))
        bursts = self._trace.of(self._host)
        if self._sinks:
            self._run(self._receive)
        if bursts:
            self._run(self._send, bursts, dict(addresses), begin)

    def stop(self) -> dict[str, Any]:
        """End, and return what was sent (number, packets, when it was due) and what arrived (number, packets, last)."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()
        arrived = []
        for sink in self._sinks:
            sink.socket.close()
            arrived += [(int(n), int(sink.packets[n]), float(sink.last[n])) for n in np.flatnonzero(sink.packets)]
        return {"sent": self._sent, "arrived": arrived}

    def _run(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _send(self, bursts: list[tuple[int, Burst]], addresses: dict[str, str], begin: float) -> None:
        total = len(self._trace.bursts)
        sockets = {}
        for _, burst in bursts:
            if (way := _way(burst)) not in sockets:
                sockets[way] = _dial(addresses[self._host], addresses[burst.target], burst.path, burst.layer)
        loop = 0
        while True:
            for number, burst in bursts:
                number += loop * total
                due = begin + loop * self._trace.seconds + burst.at
                if number >= self._numbers or self._stop.wait(max(due - time.monotonic(), 0)):
                    for opened in sockets.values():
                        opened.close()
                    return
                pace = native.Pace(burst.rate, 1e9, FRAME_OVERHEAD[4], due_ns=due * 1e9)
                with suppress(OSError):  # as good as lost on the way
                    native.send(sockets[_way(burst)].fileno(), frames(burst, number), pace)
                self._sent.append((number, burst.packets, due))
            loop += 1

    def _receive(self) -> None:
        receivers = [(sink, native.Receiver(sink.socket.fileno(), GRADIENT_BYTES)) for sink in self._sinks]
        came = False
        while not self._stop.is_set():
            if came:
                time.sleep(LOOK_SECONDS)
            else:  # wait for the next burst, so that idle hosts take no processor time from the fabric
                select.select([sink.socket for sink in self._sinks], [], [], IDLE_SECONDS)
            came = False
            for sink, receiver in receivers:
                while len(packets := receiver.take(0)):
                    came = True
                    numbers = packets.headers["round"].astype(np.int64)
                    numbers = numbers[numbers < self._numbers]
                    np.add.at(sink.packets, numbers, 1)
                    sink.last[numbers] = time.monotonic()


def frames(burst: Burst, number: int) -> Packets:
    """Return a burst's packets; the header's `round` is its number."""
    matrix = np.zeros((burst.packets, GRADIENT_BYTES + PAYLOAD), np.uint8)
    header = matrix[:, :GRADIENT_BYTES].view(HEADER)[:, 0]
    header["version_type"] = version_type(GradientType.DATA)
    header["data_type"], header["flags"], header["importance"] = DataType.FLOAT32, GradientFlag.PROTECTED, 255
    header["job"], header["round"], header["path"] = BACKGROUND_JOB, number, burst.path
    header["layer"] = burst.layer
    header["count"], header["sequence"] = IPV4_VALUES, np.arange(burst.packets)
    return Packets(matrix, np.full(burst.packets, matrix.shape[1], np.uint32))


def _way(burst: Burst) -> tuple[str, int, int]:
    """Return what tells the sockets of bursts apart."""
    return burst.target, burst.path, burst.layer


def _port(path: int) -> int:
    """Return the port of bursts with or without a path: the fabric knows gradient packets by theirs."""
    return GRADIENT_PORT if path else BACKGROUND_PORT


def _listen(address: str, port: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.bind((address, port))
    opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, SOCKET_BYTES)
    return opened


def _dial(source: str, target: str, path: int, layer: int) -> socket.socket:
    opened = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    opened.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, (FIRST_DSCP - min(layer, DSCP_LAYERS - 1)) << 2)
    opened.bind((source, 0))
    opened.connect((target, _port(path)))
    return opened
