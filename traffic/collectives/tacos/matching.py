# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The general engine: All-Gather by matching chunks to links on the time-expanded topology (match.c, even.c)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from topologies.errors import FailureError
from traffic.collectives.tacos.compiled import even, match, packed, pointer
from traffic.collectives.tacos.network import Index, Network
from traffic.collectives.tacos.schedule import Demand, Schedule, Ticks, ticks

SPARE = 16
"""Places for sends that even.c wants beyond the number of links."""


class Rule(IntEnum):
    """What a slow link does with a chunk that a faster link into the same NPU could bring."""

    GREEDY = 0
    """It takes the chunk."""
    YIELD = 1
    """It leaves the chunk if the faster link's source has it."""
    PATIENT = 2
    """It leaves the chunk if the faster link would bring it sooner, what waits there counted."""


@dataclass(frozen=True)
class Engine:
    """An engine at time 0, with chunks at their owners. Its functions are match.c's, or even.c's."""

    ffi: Any
    library: Any
    handle: Any
    width: str
    even: int
    """Ticks that every link takes, 0 where they differ."""

    def run(self, chunk: Index, link: Index, start: Ticks) -> int:
        """Go to the end and return the number of sends, which stand in the arrays."""
        columns = (pointer(self.ffi, column) for column in (chunk, link, start))
        if self.even:
            return int(getattr(self.library, f"even_run_{self.width}")(self.handle, self.even, len(chunk), *columns))
        return int(getattr(self.library, f"engine_run_{self.width}")(self.handle, len(chunk), *columns))

    def instants(self, chunk: Index, link: Index) -> Iterator[tuple[int, int]]:
        """Yield (time, number of sends that start then), which stand in the arrays until the next."""
        chunks, links = pointer(self.ffi, chunk), pointer(self.ffi, link)
        if self.even:
            step, time = getattr(self.library, f"even_step_{self.width}"), 0
            while count := step(self.handle, chunks, links):
                yield time, count
                time += self.even
            return
        step = getattr(self.library, f"engine_step_{self.width}")
        now, done = self.ffi.new("int64_t *"), self.ffi.new("int *")
        while not done[0]:
            count = step(self.handle, chunks, links, now, done)
            yield int(now[0]), count


@contextmanager
def engine(
    network: Network, duration: Ticks, owner: Index, rule: Rule, seed: int, threads: int, wanted: Any
) -> Iterator[Engine]:
    """Hold the engine that suits: where all links take equally long and share nothing, there is less to choose."""
    width = "narrow" if len(owner) <= 1 << 16 else "wide"
    alike = network.ports is None and len(duration) > 0 and bool((duration == duration[0]).all())
    even_ticks = int(duration[0]) if alike else 0
    source, first_in = packed(network.source, np.uint32), packed(network.first_in, np.uint32)
    owners = packed(owner, np.uint32)
    counts = (network.npus, network.links, len(owner))
    if even_ticks:
        ffi, library = even()
        wishes = ffi.NULL if wanted is None else pointer(ffi, wanted)
        kept = [pointer(ffi, array) for array in (source, first_in, owners)]
        handle = getattr(library, f"even_new_{width}")(*counts, *kept, wishes, seed, threads)
        free = getattr(library, f"even_free_{width}")
    else:
        ffi, library = match()
        wishes = ffi.NULL if wanted is None else pointer(ffi, wanted)
        lane_ticks, lane = np.unique(duration, return_inverse=True)
        capacity = np.bincount(owner, minlength=network.npus).astype(np.uint32)
        if wanted is None:
            capacity[:] = len(owner)
        else:
            capacity += np.unpackbits(wanted.view(np.uint8), axis=1).sum(axis=1).astype(np.uint32)
        arrays = [
            source,
            packed(network.destination, np.uint32),
            first_in,
            packed(network.first_out, np.uint32),
            packed(network.out_links, np.uint32),
            packed(duration, np.int64),
            packed(lane, np.uint32),
            packed(lane_ticks, np.int64),
            owners,
            capacity,
        ]
        shared = network.ports
        ports = [] if shared is None else [packed(a, np.uint32) for a in (shared.first, shared.port, shared.slots)]
        first_port, port, slots = [pointer(ffi, array) for array in ports] or [ffi.NULL] * 3
        kept = [pointer(ffi, array) for array in arrays]
        handle = getattr(library, f"engine_new_{width}")(
            *counts,
            *kept[:7],
            len(lane_ticks),
            kept[7],
            kept[8],
            wishes,
            kept[9],
            int(rule),
            seed,
            first_port,
            port,
            len(ports[2]) if ports else 0,
            slots,
        )
        free = getattr(library, f"engine_free_{width}")
    if handle == ffi.NULL:
        raise FailureError("not enough memory to synthesise for this network")
    try:
        yield Engine(ffi, library, handle, width, even_ticks)
    finally:
        free(handle)


def spread(
    network: Network,
    demand: Demand,
    owner: Index,
    *,
    rule: Rule = Rule.GREEDY,
    seed: int = 0,
    threads: int = 1,
    wanted: npt.NDArray[np.uint64] | None = None,
) -> Schedule:
    """Return sends that bring every chunk from its owner to every NPU (that `wanted`, rows of bits, names).

    More than one of the `threads` is used on large networks whose links all take equally long; the result is the same.
    """
    duration = ticks(network, demand.chunk_bytes)
    capacity = len(owner) * network.npus + network.links + SPARE
    chunk, link = np.empty(capacity, np.uint32), np.empty(capacity, np.uint32)
    start = np.empty(capacity, np.int64)
    with engine(network, duration, owner, rule, seed, threads, wanted) as held:
        sent = held.run(chunk, link, start)
        length = held.even
    chunk, link, start = chunk[:sent], link[:sent], start[:sent]  # in order of start, as the engine goes
    end = start + (length or duration[link])
    return Schedule(
        network, demand, f"matching ({rule.name.lower()})", chunk, link, start, end, np.zeros(sent, np.bool_)
    )


def stream(
    network: Network, demand: Demand, owner: Index, *, rule: Rule = Rule.GREEDY, seed: int = 0, threads: int = 1
) -> Iterator[tuple[Index, Index, int]]:
    """Yield (chunks, links, start) for each instant, for networks whose schedule would not fit in memory.

    The arrays are valid until the next step. Each link's end is its start plus its ticks.
    """
    chunk, link = np.empty(network.links + SPARE, np.uint32), np.empty(network.links + SPARE, np.uint32)
    with engine(network, ticks(network, demand.chunk_bytes), owner, rule, seed, threads, None) as held:
        for now, count in held.instants(chunk, link):
            yield chunk[:count], link[:count], now


def pruned(schedule: Schedule, keeps: npt.NDArray[np.bool_]) -> Schedule:
    """Return the schedule less the copies that no member needs; `keeps`: who wants to hold chunks, shape (npus,)."""
    count = len(schedule.chunk)
    chunks = int(schedule.chunk.max(initial=0)) + 1
    needed = np.repeat(keeps, chunks)
    source = (schedule.source.astype(np.int64) * chunks + schedule.chunk).tolist()
    destination = (schedule.destination.astype(np.int64) * chunks + schedule.chunk).tolist()
    keep = np.zeros(count, bool)
    for i in range(count - 1, -1, -1):
        if needed[destination[i]]:
            keep[i] = needed[source[i]] = True
    return Schedule(
        schedule.network,
        schedule.demand,
        schedule.engine,
        schedule.chunk[keep],
        schedule.link[keep],
        schedule.start[keep],
        schedule.end[keep],
        schedule.reduces[keep],
    )
