# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One replay: a sender in each source host and a receiver in the destination, from start to the last arrival."""

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topologies import processes
from topologies.errors import UsageError
from traffic import native
from traffic.hosts import End, Site
from traffic.replay.receiver import ReceiverReport, ReceiverSettings
from traffic.replay.sender import SenderReport, SenderSettings
from traffic.replay.stream import Stream
from traffic.wire import FRAME_OVERHEAD

START_SECONDS = 60.0
"""How long an end may take to say it is ready; machines may be busy."""
SLACK_SECONDS = 60.0
"""How much longer than planned a sender may take before it is given up."""

CATCH_UP = 1.25
"""A sender that was late makes good at this many times its rate: the load that the fabric sees stays what was asked."""


@dataclass(frozen=True)
class Timing:
    """How fast each sender sends, and how long. Rates are in bits of whole frames per second."""

    rate: float
    """Of each sender, while it sends a round."""
    rounds: int
    pause: float = 0.0
    """Seconds without traffic between rounds: what computing the next gradients takes. Rounds start together."""
    burst: int = 8
    ipv6: bool = False
    source_port: int = 49152


@dataclass(frozen=True)
class Outcome:
    """What a replay's two ends say; the streams are the flows in order."""

    streams: list[Stream]
    senders: list[SenderReport]
    receiver: ReceiverReport
    arrivals: NDArray[np.void]
    """ARRIVAL records in order of arrival."""
    rounds: int
    overhead: int
    """Bytes of a frame beside its row."""


def seconds_per_round(streams: list[Stream], timing: Timing) -> float:
    """Return how long the slowest sender needs for a round, the pause behind it included."""
    overhead = _overhead(streams, timing)
    return max(8 * stream.bytes_per_round(overhead) / timing.rate for stream in streams) + timing.pause


def _overhead(streams: list[Stream], timing: Timing) -> int:
    return FRAME_OVERHEAD[6 if timing.ipv6 else 4] if streams[0].gradient else 0


def run(
    sources: list[tuple[Site, Stream]], sink: Site, timing: Timing, check: Callable[[], None] = lambda: None
) -> Outcome:
    """Send every source's stream to the sink and return what arrived.

    `check` is called now and then, and may raise to end the replay: the fabric under it died. Raises UsageError
    without root, FailureError if an end fails or without a C compiler; ends every process that it started, in any case.
    """
    if os.geteuid() != 0:
        raise UsageError("replay enters hosts' namespaces and needs root; run it with sudo")
    native.build()  # here, where a missing compiler is an error of this process
    streams = [stream for _, stream in sources]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(processes.scratch("replay", sink.environment)))
        folders = [str(folder / f"flow{flow}") for flow in range(len(streams))]
        for stream, place in zip(streams, folders, strict=True):
            stream.save(Path(place))
        address = sink.station.ipv6 if timing.ipv6 else sink.station.ipv4
        expected = ReceiverSettings(folders, timing.rounds, str(folder / "arrivals.npy"), address, sink.interface)
        receiver = stack.enter_context(_end("receiver", sink, expected))
        round_seconds = seconds_per_round(streams, timing)
        senders = [
            stack.enter_context(
                _end(
                    "sender",
                    site,
                    SenderSettings(
                        stream=place,
                        rounds=timing.rounds,
                        rate=timing.rate,
                        line_rate=min(site.line_rate, CATCH_UP * timing.rate),
                        period=round_seconds if timing.pause else 0.0,
                        burst=timing.burst,
                        source=site.station.ipv6 if timing.ipv6 else site.station.ipv4,
                        source_port=timing.source_port + flow,
                        destination=address,
                        interface=site.interface,
                    ),
                )
            )
            for flow, ((site, _), place) in enumerate(zip(sources, folders, strict=True))
        ]
        for end in (receiver, *senders):
            end.expect_line(START_SECONDS)
        start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + 20_000_000
        for sender in senders:
            sender.say(str(start_ns))
        patience = timing.rounds * round_seconds + SLACK_SECONDS
        sent = [SenderReport(**json.loads(sender.expect_line(patience, check))) for sender in senders]
        receiver.hang_up()
        received = ReceiverReport(**json.loads(receiver.expect_line(START_SECONDS)))
        return Outcome(
            streams, sent, received, np.load(folder / "arrivals.npy"), timing.rounds, _overhead(streams, timing)
        )


def _end(kind: str, site: Site, settings: SenderSettings | ReceiverSettings) -> End:
    return End(f"{kind} in {site.name}", site, f"traffic.replay.{kind}", json.dumps(asdict(settings)))
