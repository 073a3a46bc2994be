# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The sending end of a replay: `python -m traffic.replay.sender <settings as JSON>` in a host's namespace.

Says "ready", waits for a line with the CLOCK_MONOTONIC time in ns at which to start, sends, prints a report as one
JSON line. Ends between two rounds when its standard input closes: whoever started it is gone.
"""

import json
import select
import socket
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from traffic import native
from traffic.replay.stream import Stream
from traffic.wire import FRAME_OVERHEAD, GRADIENT_PORT

ECT_0 = 0b10


@dataclass(frozen=True)
class SenderSettings:
    """What to send, where to, and how fast."""

    stream: str
    """Folder of the stream."""
    rounds: int
    rate: float
    """Bits of whole frames per second while a round is sent."""
    line_rate: float
    """What a burst never exceeds."""
    period: float
    """Seconds from the start of a round to the start of the next, at least; 0: no pause."""
    burst: int
    source: str = ""
    source_port: int = 0
    destination: str = ""
    """Addresses of a gradient stream."""
    interface: str = ""
    """Where frames of any other stream leave."""


@dataclass(frozen=True)
class SenderReport:
    """What a sender did."""

    packets: int
    seconds: float
    late_us: float
    """The latest that a burst left after it was due."""


def open_socket(settings: SenderSettings, stream: Stream) -> socket.socket:
    """Return a connected socket for the stream's rows: UDP payloads, or whole frames."""
    if not stream.gradient:
        frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        frames.bind((settings.interface, 0))
        return frames
    if ":" in settings.destination:
        datagrams = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        datagrams.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, ECT_0)
    else:
        datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        datagrams.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, ECT_0)
    datagrams.bind((settings.source, settings.source_port))
    datagrams.connect((settings.destination, GRADIENT_PORT))
    return datagrams


def run(settings: SenderSettings) -> SenderReport | None:
    """Send as the settings say; None if whoever started this went away meanwhile."""
    stream = Stream.load(Path(settings.stream))
    overhead = FRAME_OVERHEAD[6 if ":" in settings.destination else 4] if stream.gradient else 0
    pace = native.Pace(settings.rate, settings.line_rate, overhead, settings.burst)
    native.load()
    with open_socket(settings, stream) as out:
        print("ready", flush=True)
        start = sys.stdin.readline()
        if not start:
            return None
        begin = float(start)
        for number in range(settings.rounds):
            if select.select([sys.stdin], [], [], 0)[0]:
                return None
            pace.due_ns = max(pace.due_ns, begin + number * settings.period * 1e9)
            native.send(out.fileno(), stream.round(number), pace)
    seconds = time.clock_gettime(time.CLOCK_MONOTONIC) - begin / 1e9
    return SenderReport(stream.packets_in(settings.rounds), seconds, pace.late_ns / 1e3)


def main() -> int:
    """Run one sender; a failure is one line on standard error."""
    try:
        report = run(SenderSettings(**json.loads(sys.argv[1])))
    except OSError as error:
        print(f"cannot send: {error.strerror or error}", file=sys.stderr)
        return 1
    if report is not None:
        print(json.dumps(asdict(report)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
