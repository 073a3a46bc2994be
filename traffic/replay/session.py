# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One replay: a sender in each source host and a receiver in the destination, from start to the last arrival."""

import json
import math
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from topologies import processes
from topologies.errors import FailureError, UsageError
from topologies.state import RunningFabric
from traffic import native
from traffic.replay.frames import Station
from traffic.replay.receiver import ReceiverReport, ReceiverSettings
from traffic.replay.sender import SenderReport, SenderSettings
from traffic.replay.stream import Stream
from traffic.wire import FRAME_OVERHEAD

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
"""How long an end may take to say it is ready; machines may be busy."""
SLACK_SECONDS = 60.0
"""How much longer than planned a sender may take before it is given up."""

CHECK_SECONDS = 0.5
CATCH_UP = 1.25
"""A sender that was late makes good at this many times its rate: the load that the fabric sees stays what was asked."""


@dataclass(frozen=True)
class Site:
    """A host as a replay sees it: the command that enters its namespace, its interface, addresses and link."""

    name: str
    enter: tuple[str, ...]
    interface: str
    station: Station
    environment: Mapping[str, str]
    line_rate: float = math.inf
    """Of its network card, in bit/s: what a sender never exceeds, even to catch up."""


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


def site_of(running: RunningFabric, name: str) -> Site:
    """Return a host of a running fabric. Raises UsageError if it has none of that name."""
    fabric = running.fabric
    host = fabric.host(name)
    return Site(
        name=name,
        enter=tuple(processes.inside(running.hosts[name].process.pid)),
        interface=fabric.interface(name, 0),
        station=Station(host.mac, fabric.switch(host.switch).mac, host.ipv4, host.ipv6),
        environment=processes.environment(running.run),
        line_rate=fabric.link(name, host.switch).rate_from(name) or math.inf,
    )


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
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gradlane-replay-")))
        folders = [str(folder / f"flow{flow}") for flow in range(len(streams))]
        for stream, place in zip(streams, folders, strict=True):
            stream.save(Path(place))
        address = sink.station.ipv6 if timing.ipv6 else sink.station.ipv4
        expected = ReceiverSettings(folders, timing.rounds, str(folder / "arrivals.npy"), address, sink.interface)
        receiver = stack.enter_context(End("receiver", sink, expected))
        round_seconds = seconds_per_round(streams, timing)
        senders = [
            stack.enter_context(
                End(
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


class End:
    """A sender or receiver process in a host's namespace, ended when the context is left."""

    def __init__(self, kind: str, site: Site, settings: SenderSettings | ReceiverSettings) -> None:
        command = [*site.enter, sys.executable, "-m", f"traffic.replay.{kind}", json.dumps(asdict(settings))]
        self._name = f"{kind} in {site.name}"
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C reaches us alone, and we end them
                env={**site.environment, "PYTHONPATH": str(ROOT)},
            )
        except OSError as error:
            raise FailureError(f"cannot start the {self._name}: {command[0]}: {error.strerror}") from None
        processes.go_first(self._process.pid)  # a late end makes bursts that are the machine's, not the job's
        self._input, self._output = _pipe(self._process.stdin), _pipe(self._process.stdout)

    def __enter__(self) -> "End":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def say(self, line: str) -> None:
        """Write one line to the process."""
        try:
            self._input.write(line + "\n")
            self._input.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def hang_up(self) -> None:
        """Tell the process that there is no more to wait for."""
        self._input.close()
        self._process.stdin = None

    def expect_line(self, seconds: float, check: Callable[[], None] = lambda: None) -> str:
        """Return the next line that the process prints. Raises FailureError if it ends or stays silent."""
        deadline = time.monotonic() + seconds
        while not select.select([self._output], [], [], CHECK_SECONDS)[0]:
            check()
            if time.monotonic() > deadline:
                raise FailureError(f"the {self._name} gave no answer in {seconds:.0f} s")
        line: str = self._output.readline()
        if not line.endswith("\n"):
            raise self._failure()
        return line

    def _failure(self) -> FailureError:
        self._process.kill()
        _, errors = self._process.communicate()
        reason = (errors.strip().splitlines() or ["it ended early"])[-1]
        return FailureError(f"the {self._name} failed: {reason}")


def _pipe(pipe: IO[Any] | None) -> IO[Any]:
    assert pipe is not None
    return pipe
