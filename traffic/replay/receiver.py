# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The receiving end of a replay: `python -m traffic.replay.receiver <settings as JSON>` in a host's namespace.

Says "ready" once its socket is open, checks all that arrives, and when its standard input closes takes what still
comes until nothing did for a while, writes the arrivals, and prints a report as one JSON line.
"""

import json
import select
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from traffic import native
from traffic.replay.stream import Stream
from traffic.replay.verify import ARRIVAL, FrameVerifier, GradientVerifier, Verifier
from traffic.wire import GRADIENT_PORT

ETH_P_ALL = 3
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23
SO_RCVBUFFORCE = 33
BUFFER_BYTES = 64 << 20


@dataclass(frozen=True)
class ReceiverSettings:
    """What to expect, and where."""

    streams: list[str]
    """Folders of the streams, one per flow."""
    rounds: int
    arrivals: str
    """The .npy file of ARRIVAL records to write."""
    address: str = ""
    """Where gradient streams arrive."""
    interface: str = ""
    """Where frames of any other stream arrive."""
    idle_seconds: float = 0.5
    drain_seconds: float = 10.0
    """After the last sender: stop when nothing came for the first, and at the latest after the second."""


@dataclass(frozen=True)
class ReceiverReport:
    """What a receiver saw."""

    packets: int
    seconds: float
    """From the first packet to the last."""
    host_drops: int
    """Packets that reached the host and found its socket full: neither the fabric's loss nor delivered."""


def open_socket(settings: ReceiverSettings, gradient: bool) -> socket.socket:
    """Return a bound socket with a large buffer."""
    if gradient:
        family = socket.AF_INET6 if ":" in settings.address else socket.AF_INET
        opened = socket.socket(family, socket.SOCK_DGRAM)
        opened.bind((settings.address, GRADIENT_PORT))
    else:
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        opened.bind((settings.interface, ETH_P_ALL))
        opened.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    try:
        opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    except PermissionError:  # not root: what the system grants
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    return opened


def run(settings: ReceiverSettings) -> ReceiverReport:
    """Receive until told to stop, then drain."""
    streams = [Stream.load(Path(folder)) for folder in settings.streams]
    gradient = streams[0].gradient
    verifier: Verifier = GradientVerifier(streams) if gradient else FrameVerifier(streams, settings.rounds)
    arrivals, first, last, stop = [np.zeros(0, ARRIVAL)], 0.0, 0.0, 0.0
    native.load()
    with open_socket(settings, gradient) as source:
        receiver = native.Receiver(source.fileno(), verifier.stride)
        print("ready", flush=True)
        while not stop or time.monotonic() < min(
            stop + settings.drain_seconds, max(stop, last) + settings.idle_seconds
        ):
            packets = receiver.take(timeout_ms=50)
            if len(packets):
                last = time.monotonic()
                first = first or last
                arrivals.append(verifier.check(packets))
            if not stop and select.select([sys.stdin], [], [], 0)[0]:
                stop = time.monotonic()
        dropped = drops_of(source)
    together = np.concatenate(arrivals)
    np.save(settings.arrivals, together)
    return ReceiverReport(len(together), last - first, dropped)


def drops_of(source: socket.socket) -> int:
    """Return how many packets a socket refused because it was full."""
    if source.family == socket.AF_PACKET:
        packet_statistics = 6
        counts = np.frombuffer(source.getsockopt(SOL_PACKET, packet_statistics, 8), np.uint32)
        return int(counts[1])
    so_meminfo, sk_meminfo_drops = 55, 8
    return int(np.frombuffer(source.getsockopt(socket.SOL_SOCKET, so_meminfo, 36), np.uint32)[sk_meminfo_drops])


def main() -> int:
    """Run one receiver; a failure is one line on standard error."""
    try:
        report = run(ReceiverSettings(**json.loads(sys.argv[1])))
    except OSError as error:
        print(f"cannot receive: {error.strerror or error}", file=sys.stderr)
        return 1
    print(json.dumps(asdict(report)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
