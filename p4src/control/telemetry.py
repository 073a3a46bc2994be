# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The packed records of a TelemetryResponse, as numpy types: little-endian, laid out as in engine.h.

A number per field would cost Python's protobuf tens of milliseconds a switch; these arrays cost none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LAYOUT = 1
CLASSES = 8
DELAY_BUCKETS = 64

QUEUE = np.dtype(
    [
        ("enqueued_packets", "<u8"),
        ("enqueued_bytes", "<u8"),
        ("sent_packets", "<u8"),
        ("sent_bytes", "<u8"),
        ("tail_drops_packets", "<u8"),
        ("tail_drops_bytes", "<u8"),
        ("depth_packets", "<u4"),
        ("depth_bytes", "<u4"),
        ("max_depth_packets", "<u4"),
        ("max_depth_bytes", "<u4"),
        ("delay_histogram", "<u8", DELAY_BUCKETS),
    ]
)
"""One queue. Buckets of queueing delay: 0 is below 16 us, then four to an octave (see `delay_bounds_us`)."""

PORT = np.dtype(
    [
        ("port", "<u8"),
        ("rx_packets", "<u8"),
        ("rx_bytes", "<u8"),
        ("rx_dropped", "<u8"),
        ("tx_packets", "<u8"),
        ("tx_bytes", "<u8"),
        ("tx_failed", "<u8"),
        ("rate", "<u8"),
        ("up", "<u4"),
        ("present", "<u4"),
        ("queues", QUEUE, CLASSES),
        ("pending", "<u8"),
    ]
)
"""One port, with its queues by class."""

DROPS = np.dtype(
    [
        (cause, "<u8")
        for cause in (
            "ingress_drop",
            "egress_drop",
            "tail_drop",
            "no_port",
            "no_queue",
            "no_buffer",
            "oversize",
            "no_program",
            "packet_in_overflow",
            "digest_overflow",
            "multicast_empty",
            "port_down",
            "tx_failed",
            "program_change",
            "pass_limit",
        )
    ]
)
"""Packets that neither left nor wait, by cause; digest_overflow counts messages."""

CELL = np.dtype([("index", "<u8"), ("packets", "<u8"), ("bytes", "<u8")])
"""One cell of a program's counter."""


def cells(packed: bytes) -> npt.NDArray[np.void]:
    """Return the records of CounterCells.cells, shape (cells that have counted,)."""
    return np.frombuffer(packed, CELL)


def ports(packed: bytes) -> npt.NDArray[np.void]:
    """Return the port records of TelemetryResponse.ports, shape (ports,)."""
    return np.frombuffer(packed, PORT)


def drops(packed: bytes) -> dict[str, int]:
    """Return the counts of TelemetryResponse.drops by cause."""
    record = np.frombuffer(packed, DROPS)[0]
    return {name: int(record[name]) for name in DROPS.names or ()}


def delay_bounds_us() -> npt.NDArray[np.float64]:
    """Return the lower bounds of the delay buckets in microseconds, shape (64,); the last bucket is open."""
    octave, quarter = np.divmod(np.arange(DELAY_BUCKETS - 1), 4)
    return np.concatenate(([0.0], (16.0 * 2.0**octave) * (1 + quarter / 4)))
