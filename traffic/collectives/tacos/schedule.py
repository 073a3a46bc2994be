# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A collective's schedule: which chunk crosses which link from when to when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import numpy.typing as npt

from topologies.errors import UsageError
from traffic.collectives.tacos.network import Network, unreachable

Ticks = npt.NDArray[np.int64]
Index = npt.NDArray[np.uint32]

TICK = 1e-12
"""Seconds of one tick. Times are integers so that equal times are equal; 2^63 ticks are 106 days."""
MOST_SECONDS = 10_000.0
"""Of a chunk on a link, so that the ticks of a whole schedule fit."""


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


REDUCTIONS = frozenset({Collective.REDUCE_SCATTER, Collective.ALL_REDUCE, Collective.REDUCE})
ROOTED = frozenset({Collective.BROADCAST, Collective.REDUCE, Collective.GATHER, Collective.SCATTER})


@dataclass(frozen=True)
class Demand:
    """A collective over a group of NPUs, its buffers cut into equal chunks.

    `size` is the length in bytes of the longer buffer, as nccl-tests has it: what all_gather ends with,
    reduce_scatter starts with, broadcast, reduce and all_reduce have at both ends, the root's of gather and scatter,
    and what each member starts with in all_to_all. With P members and k chunks of each: all_gather, reduce_scatter,
    gather and scatter number chunks member * k + i; all_to_all (sender * P + receiver) * k + i, where `sender` and
    `receiver` are indices into the group.
    """

    collective: Collective
    group: tuple[int, ...]
    size: float
    chunks: int
    root: int
    """The NPU at the root of broadcast, reduce, gather and scatter."""

    @property
    def chunk_bytes(self) -> float:
        """Bytes of one chunk."""
        copies = len(self.group) if self.collective is Collective.ALL_TO_ALL else 1
        return self.size * copies / self.chunks


def demand(
    network: Network,
    collective: Collective,
    size: float,
    *,
    chunks: int = 1,
    group: Sequence[int] | None = None,
    root: int | None = None,
) -> Demand:
    """Return a checked demand; `chunks` is per NPU (broadcast, reduce: of the buffer), `group` everyone unless told.

    Raises UsageError for members that the network lacks, and for sizes and counts below 1.
    """
    members = tuple(range(network.npus)) if group is None else tuple(group)
    found = Demand(collective, members, size, chunks * multiple(collective, len(members)), members[0] if members else 0)
    if root is not None:
        found = replace(found, root=root)
    refuse_senseless(network, found)
    return found


def multiple(collective: Collective, members: int) -> int:
    """Return what the number of a collective's chunks is a multiple of."""
    match collective:
        case Collective.ALL_TO_ALL:
            return members**2
        case Collective.BROADCAST | Collective.REDUCE:
            return 1
        case _:
            return members


def refuse_senseless(network: Network, demand: Demand) -> None:
    """Raise UsageError for members that the network lacks, for sizes and counts below 1 or beyond counting."""
    members = demand.group
    if len(set(members)) != len(members) or not members:
        raise UsageError("a process group names at least one NPU, and each once")
    if unknown := [n for n in members if not 0 <= n < network.npus]:
        raise UsageError(f"{network.name} has NPUs 0..{network.npus - 1}, not {unknown[0]}")
    if demand.chunks < 1 or not demand.size > 0:
        raise UsageError("a collective has at least one chunk and one byte")
    if demand.root not in members:
        raise UsageError(f"the root {demand.root} is not of the group")
    if demand.chunks >= 1 << 32:
        raise UsageError(f"{demand.chunks} chunks are too many")
    each = multiple(demand.collective, len(members))
    if demand.collective is not Collective.ALL_REDUCE and demand.chunks % each:  # whose trees need not be dealt out
        raise UsageError(f"{demand.chunks} chunks are no multiple of {each}")


def refuse_unreachable(network: Network, demand: Demand) -> None:
    """Raise UsageError that names the first pair of NPUs which the collective joins and the network does not."""
    members = list(demand.group)
    sources, destinations = members, members
    if demand.collective in (Collective.BROADCAST, Collective.SCATTER):
        sources = [demand.root]
    if demand.collective in (Collective.REDUCE, Collective.GATHER):
        destinations = [demand.root]
    if pair := unreachable(network, sources, destinations):
        raise UsageError(f"{network.name}: no path from NPU {pair[0]} to NPU {pair[1]}")


@dataclass(frozen=True)
class Schedule:
    """Sends in order of their start. Arrays have shape (sends,).

    `reduces[i]`: the receiver adds what arrives to what it has of the chunk; else it stores it.
    """

    network: Network
    demand: Demand
    engine: str
    chunk: Index
    link: Index
    start: Ticks
    end: Ticks
    reduces: npt.NDArray[np.bool_]
    path: Index | None = None
    """The fabric's path that carries each send (the gradient header's `path`), 0: any; None: any for all."""

    @property
    def seconds(self) -> float:
        """When the last send ends."""
        return float(self.end.max() * TICK) if len(self.end) else 0.0

    @property
    def algorithm_bandwidth(self) -> float:
        """Bytes/s: the buffer's size over the time."""
        return self.demand.size / self.seconds if len(self.end) else float("inf")

    @property
    def source(self) -> Index:
        """The sending NPU of each send."""
        nodes: Index = self.network.source[self.link]
        return nodes

    @property
    def destination(self) -> Index:
        """The receiving NPU of each send."""
        nodes: Index = self.network.destination[self.link]
        return nodes


def ticks(network: Network, chunk_bytes: float) -> Ticks:
    """Return each link's busy time with one chunk, in ticks rounded up, at least 1; shape (links,).

    Raises UsageError beyond MOST_SECONDS.
    """
    seconds = network.seconds(chunk_bytes)
    if len(seconds) and not seconds.max() <= MOST_SECONDS:
        raise UsageError(f"{network.name}: a chunk of {chunk_bytes:g} bytes would take a link {seconds.max():g} s")
    found: Ticks = np.maximum(1, np.ceil(seconds * 1e12).astype(np.int64))
    return found


def in_order(
    network: Network,
    demand: Demand,
    engine: str,
    chunk: npt.ArrayLike,
    link: npt.ArrayLike,
    start: npt.ArrayLike,
    reduces: npt.ArrayLike,
) -> Schedule:
    """Return a schedule of sends given in any order; ends follow from the links' times."""
    begin, links = np.asarray(start, np.int64), np.asarray(link, np.uint32)
    order = np.lexsort((links, begin))
    links, begin = links[order], begin[order]
    return Schedule(
        network,
        demand,
        engine,
        np.asarray(chunk, np.uint32)[order],
        links,
        begin,
        begin + ticks(network, demand.chunk_bytes)[links],
        np.broadcast_to(np.asarray(reduces, np.bool_), order.shape)[order],
    )
