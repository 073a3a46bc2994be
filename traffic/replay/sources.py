# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Streams made of the files that a user replays: a recorded trace, or a capture."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from topologies.errors import UsageError
from traffic.packer import Packets
from traffic.replay.frames import ETHERNET, Station, ip_packet, read_capture, readdressed
from traffic.replay.stream import Stream
from traffic.trace import Trace
from traffic.wire import IPV4_VALUES, IPV6_VALUES


def trace_stream(trace: Trace, worker: int, *, job: int = 1, ipv6: bool = False) -> Stream:
    """Return a worker's stream of a trace. Raises UsageError if the trace has fewer workers."""
    if worker >= trace.workers:
        raise UsageError(f"the trace has {trace.workers} workers, so at most that many hosts can send it")
    packets = trace.packets(worker, job, IPV6_VALUES if ipv6 else IPV4_VALUES)
    starts = np.searchsorted(packets.headers["round"], np.arange(len(trace.rounds)))
    return Stream(packets, (*starts.tolist(), len(packets)), gradient=True)


@dataclass(frozen=True)
class Capture:
    """A capture's frames, addressed from one host to another, and how many packets could not be sent."""

    stream: Stream
    skipped: int
    """Packets that are no IP, were captured in part, or are longer than the fabric's MTU."""


def capture_stream(path: Path, source: Station, destination: Station, mtu: int = 1500) -> Capture:
    """Return a capture's IP packets as frames from one host to another.

    Raises UsageError if the file is no capture or has no packet that can be sent.
    """
    frames: list[bytes] = []
    seen = 0
    for link_type, data in read_capture(path):
        seen += 1
        packet = ip_packet(link_type, data)
        frame = readdressed(packet, source, destination) if packet else None
        if frame is not None and len(frame) <= mtu + ETHERNET:
            frames.append(frame)
    if not frames:
        raise UsageError("the capture has no IP packet that fits the fabric", file=path)
    return Capture(Stream(Packets.of(frames), (0, len(frames)), gradient=False), seen - len(frames))
