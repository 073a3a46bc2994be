# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A collective's schedule: which chunk crosses which link from when to when."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from traffic.collectives.tacos.network import Network

Ticks = npt.NDArray[np.int64]
Index = npt.NDArray[np.uint32]

TICK = 1e-12
"""Seconds of one tick. Times are integers so that equal times are equal; 2^63 ticks are 106 days."""


class Collective(str, Enum):
    """What is to hold in the end, as MPI names it."""

    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_REDUCE = "all_reduce"
    BROADCAST = "broadcast"
    REDUCE = "reduce"
    ALL_TO_ALL = "all_to_all"
    GATHER = "gather"
    SCATTER = "scatter"


@dataclass(frozen=True)
class Demand:
    """A collective over a group: who holds which chunk at first, and who shall hold it in the end.

    Chunks are numbered 0..chunks-1. `owner[c]`: the NPU that contributes chunk c first (of a reduction: the NPU that
    holds the sum in the end). With P group members and K chunks a member: all_gather, reduce_scatter and all_reduce
    have P * K chunks, all_to_all P * P * K, broadcast, reduce, scatter and gather as the root's buffer is cut.
    """

    collective: Collective
    npus: int
    group: tuple[int, ...]
    chunk_bytes: float
    chunks_per_npu: int = 1
    root: int = 0


@dataclass(frozen=True)
class Schedule:
    """Sends in order of their start. Arrays have shape (sends,).

    `reduces[i]`: the receiver adds what arrives to its own part; else it stores it. A reduction's sends come before
    the sends that spread its result.
    """

    network: Network
    demand: Demand
    engine: str
    chunk: Index
    link: Index
    start: Ticks
    end: Ticks
    reduces: npt.NDArray[np.bool_]

    @property
    def seconds(self) -> float:
        """When the last send ends."""
        return float(self.end.max() * TICK) if len(self.end) else 0.0

    @property
    def source(self) -> Index:
        """The sending NPU of each send."""
        return self.network.source[self.link]

    @property
    def destination(self) -> Index:
        """The receiving NPU of each send."""
        return self.network.destination[self.link]


def ticks(network: Network, chunk_bytes: float) -> Ticks:
    """Return each link's busy time with one chunk, in ticks, at least 1; shape (links,)."""
    return np.maximum(1, np.rint(network.seconds(chunk_bytes) / TICK).astype(np.int64))
