# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the switches count, as typed snapshots: queues and ports, drops by reason, shares of the paths, delays.

On the softswitch one packed message a switch tells of ports and queues (control channel); what the program counts
(drops by reason and importance band) are P4Runtime counters on every target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from controller.control import ControlChannel
from controller.p4rt.client import Connection
from controller.p4rt.pipeline import Pipeline
from controller.quantities import BANDS, CLASSES
from p4src.control import telemetry as packed
from topologies.errors import FailureError
from topologies.model import Fabric

REASONS: Final = ("none", "importance", "not_ect", "full", "no_route", "ttl", "malformed", "policy")
FAULTS: Final = (
    "none",
    "truncated_ipv4",
    "truncated_ipv6",
    "truncated_l4",
    "truncated_gradient",
    "unknown_version",
    "unknown_type",
    "bad_length",
    "bad_ipv4",
    "truncated_other",
    "bad_ipv6",
    "bad_checksum",
)
DELAY_BUCKETS: Final = packed.DELAY_BUCKETS
VERDICTS: Final = ("kept", "marked", "trimmed")

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class QueueSample:
    """One queue at one moment; delays count packets by bucket (`delay_quantile_us` reads them)."""

    class_: int
    sent_packets: int
    sent_bytes: int
    tail_drops: int
    depth_packets: int
    depth_bytes: int
    max_depth_packets: int
    max_depth_bytes: int
    delays: Counts


@dataclass(frozen=True)
class PortSample:
    """One port at one moment, with its queues by class."""

    switch: str
    port: int
    neighbour: str
    up: bool
    rate_bps: int
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    queues: tuple[QueueSample, ...]


@dataclass(frozen=True)
class SwitchSample:
    """One switch at one moment: its ports, and its own account of packets lost by cause."""

    switch: str
    time_ns: int
    ports: tuple[PortSample, ...]
    lost: Mapping[str, int]


@dataclass(frozen=True)
class ProgramCounts:
    """What the program of one switch has counted, in packets.

    `received`, `kept`, `marked`, `trimmed` have the shape (port index, class); `dropped` (port index, class, reason,
    band); `kept_band` (port index, class, band); `delays` (port index, class, bucket); `faults` (fault).
    """

    switch: str
    received: Counts
    kept: Counts
    marked: Counts
    trimmed: Counts
    dropped: Counts
    kept_band: Counts
    delays: Counts
    faults: Counts


@dataclass(frozen=True)
class Drop:
    """Packets that one switch dropped on the way to a port, by class, reason and importance band."""

    switch: str
    port: int
    neighbour: str
    class_: int
    reason: str
    band: int | None
    packets: int


@dataclass(frozen=True)
class PathShare:
    """What one next hop got of all that a switch sent to other switches, of one class or (None) of all."""

    switch: str
    neighbour: str
    class_: int | None
    packets: int
    share: float


def sample(fabric: Fabric, switch: str, channel: ControlChannel) -> SwitchSample:
    """Return what a softswitch tells of its ports. Raises FailureError for a layout of another version."""
    answer = channel.telemetry()
    if answer.layout != packed.LAYOUT:
        raise FailureError(f"{switch}: its telemetry has layout {answer.layout}, not {packed.LAYOUT}")
    known = {port.number: port.peer.node for port in fabric.ports(switch)}
    ports = [
        _port(switch, known[int(record["port"])], record)
        for record in packed.ports(answer.ports)
        if int(record["port"]) in known
    ]
    return SwitchSample(switch, int(answer.time_ns), tuple(ports), packed.drops(answer.drops))


def _port(switch: str, neighbour: str, record: np.void) -> PortSample:
    return PortSample(
        switch=switch,
        port=int(record["port"]),
        neighbour=neighbour,
        up=bool(record["up"]),
        rate_bps=int(record["rate"]),
        rx_packets=int(record["rx_packets"]),
        rx_bytes=int(record["rx_bytes"]),
        tx_packets=int(record["tx_packets"]),
        tx_bytes=int(record["tx_bytes"]),
        queues=tuple(_queue(class_, record["queues"][class_]) for class_ in range(CLASSES)),
    )


def _queue(class_: int, record: np.void) -> QueueSample:
    return QueueSample(
        class_=class_,
        sent_packets=int(record["sent_packets"]),
        sent_bytes=int(record["sent_bytes"]),
        tail_drops=int(record["tail_drops_packets"]),
        depth_packets=int(record["depth_packets"]),
        depth_bytes=int(record["depth_bytes"]),
        max_depth_packets=int(record["max_depth_packets"]),
        max_depth_bytes=int(record["max_depth_bytes"]),
        delays=record["delay_histogram"].astype(np.int64),
    )


def program_counts(connection: Connection, pipeline: Pipeline) -> ProgramCounts:
    """Return what the program of a switch has counted."""

    def cells(counter: str, *shape: int) -> Counts:
        return connection.read_counter(pipeline, counter).packets.reshape(-1, *shape)

    return ProgramCounts(
        switch=connection.name,
        received=cells("received", CLASSES),
        kept=cells("kept", CLASSES),
        marked=cells("marked", CLASSES),
        trimmed=cells("trimmed", CLASSES),
        dropped=cells("dropped", CLASSES, len(REASONS), BANDS),
        kept_band=cells("kept_band", CLASSES, BANDS),
        delays=cells("queue_delay", CLASSES, DELAY_BUCKETS),
        faults=cells("faults"),
    )


def delay_quantile_us(delays: Counts, quantile: float) -> float | None:
    """Return the queueing delay below which `quantile` (0..1) of the packets stayed; None without packets.

    Interpolates within a bucket, of which there are four to an octave from 16 us: at most 19 % off.
    """
    total = int(delays.sum())
    if total == 0:
        return None
    bounds = packed.delay_bounds_us()
    reached = np.cumsum(delays)
    bucket = int(np.searchsorted(reached, quantile * total, side="left"))
    before = int(reached[bucket - 1]) if bucket else 0
    upper = bounds[bucket + 1] if bucket + 1 < len(bounds) else bounds[bucket] * 1.25
    part = (quantile * total - before) / max(int(delays[bucket]), 1)
    return float(bounds[bucket] + min(max(part, 0.0), 1.0) * (upper - bounds[bucket]))
