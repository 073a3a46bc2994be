# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the switches count, as typed snapshots: queues and ports, drops by reason, shares of the paths, delays.

On the softswitch one packed message a switch tells of ports and queues (control channel); what the program counts
(drops by reason and importance band) are P4Runtime counters on every target.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from controller.control import ControlChannel
from controller.p4rt.client import Connection, CounterCells
from controller.p4rt.pipeline import Pipeline
from controller.quantities import BANDS, CLASSES
from p4src.control import telemetry as packed
from topologies.errors import FailureError
from topologies.model import Fabric, Port

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

_PORT_INDICES: Final = 64
_DROPS_OF_A_PORT: Final = CLASSES * len(REASONS) * BANDS

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
    """One port at one moment, with its queues by class; `dropped` is what the program dropped on the way to it."""

    switch: str
    port: int
    neighbour: str
    up: bool
    rate_bps: int
    rx_packets: int
    rx_bytes: int
    tx_packets: int
    tx_bytes: int
    dropped: int
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
    `passed_bytes` (port index, class) are the bytes of what was kept, marked or trimmed.
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
    passed_bytes: Counts = field(default_factory=lambda: np.zeros((_PORT_INDICES, CLASSES), np.int64))


def sample(fabric: Fabric, switch: str, channel: ControlChannel) -> SwitchSample:
    """Return what a softswitch tells of its ports. Raises FailureError for a layout of another version."""
    answer = channel.telemetry(("dropped",))
    if answer.layout != packed.LAYOUT:
        raise FailureError(f"{switch}: its telemetry has layout {answer.layout}, not {packed.LAYOUT}")
    dropped = np.zeros(_PORT_INDICES, np.int64)
    for counter in answer.counters:
        cells = packed.cells(counter.cells)
        np.add.at(dropped, cells["index"].astype(np.int64) // _DROPS_OF_A_PORT, cells["packets"].astype(np.int64))
    known = {port.number: port for port in fabric.ports(switch)}
    ports = [
        _port(known[int(record["port"])], record, int(dropped[known[int(record["port"])].index]))
        for record in packed.ports(answer.ports)
        if int(record["port"]) in known
    ]
    return SwitchSample(switch, int(answer.time_ns), tuple(ports), packed.drops(answer.drops))


def sample_of_counts(fabric: Fabric, counts: ProgramCounts) -> SwitchSample:
    """Return the same of what a program has counted, for a switch that tells no more: depths and limits are zero."""
    passed = counts.kept + counts.marked + counts.trimmed
    ports = [
        PortSample(
            switch=counts.switch,
            port=port.number,
            neighbour=port.peer.node,
            up=True,
            rate_bps=port.rate_bps or 0,
            rx_packets=int(counts.received[port.index].sum()),
            rx_bytes=0,
            tx_packets=int(passed[port.index].sum()),
            tx_bytes=int(counts.passed_bytes[port.index].sum()),
            dropped=int(counts.dropped[port.index].sum()),
            queues=tuple(
                QueueSample(
                    class_, int(passed[port.index, class_]), 0, 0, 0, 0, 0, 0, counts.delays[port.index, class_]
                )
                for class_ in range(CLASSES)
            ),
        )
        for port in fabric.ports(counts.switch)
    ]
    return SwitchSample(counts.switch, time.monotonic_ns(), tuple(ports), {})


def _port(port: Port, record: np.void, dropped: int) -> PortSample:
    return PortSample(
        switch=port.switch,
        port=port.number,
        neighbour=port.peer.node,
        dropped=dropped,
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

    def cells(counter: str) -> CounterCells:
        return connection.read_counter(pipeline, counter)

    verdicts = {name: cells(name) for name in VERDICTS}
    passed_bytes: Counts = sum((found.bytes for found in verdicts.values()), start=np.zeros((), np.int64))
    return ProgramCounts(
        switch=connection.name,
        received=cells("received").packets.reshape(-1, CLASSES),
        kept=verdicts["kept"].packets.reshape(-1, CLASSES),
        marked=verdicts["marked"].packets.reshape(-1, CLASSES),
        trimmed=verdicts["trimmed"].packets.reshape(-1, CLASSES),
        dropped=cells("dropped").packets.reshape(-1, CLASSES, len(REASONS), BANDS),
        kept_band=cells("kept_band").packets.reshape(-1, CLASSES, BANDS),
        delays=cells("queue_delay").packets.reshape(-1, CLASSES, DELAY_BUCKETS),
        faults=cells("faults").packets,
        passed_bytes=passed_bytes.reshape(-1, CLASSES),
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
