# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The general engine: All-Gather by matching chunks to links on the time-expanded topology (match.c)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from topologies.errors import FailureError, UsageError
from traffic.collectives.tacos.compiled import match, packed, pointer
from traffic.collectives.tacos.network import Index, Network
from traffic.collectives.tacos.schedule import Demand, Schedule, ticks


class Rule(IntEnum):
    """What a slow link does with a chunk that a faster link into the same NPU could bring."""

    GREEDY = 0
    """It takes the chunk."""
    YIELD = 1
    """It leaves the chunk if the faster link's source has it."""
    PATIENT = 2
    """It leaves the chunk if the faster link would bring it sooner, what waits there counted."""


@contextmanager
def engine(
    network: Network, duration: npt.NDArray[np.int64], owner: Index, rule: Rule, seed: int, threads: int, wanted: Any
) -> Iterator[tuple[Any, Any, Any, str]]:
    """Hold an engine at time 0: (ffi, library, handle, suffix of its functions)."""
    ffi, library = match()
    suffix = "narrow" if len(owner) <= 1 << 16 else "wide"
    lane_duration, lane = np.unique(duration, return_inverse=True)
    capacity = np.bincount(owner, minlength=network.npus).astype(np.uint32)
    if wanted is None:
        capacity[:] = len(owner)
    else:
        capacity += np.unpackbits(wanted.view(np.uint8), axis=1).sum(axis=1).astype(np.uint32)
    kept = [
        packed(network.source, np.uint32),
        packed(network.destination, np.uint32),
        packed(network.first_in, np.uint32),
        packed(network.first_out, np.uint32),
        packed(network.out_links, np.uint32),
        packed(duration, np.int64),
        packed(lane, np.uint32),
        packed(lane_duration, np.int64),
        packed(owner, np.uint32),
        capacity,
    ]
    p = [pointer(ffi, array) for array in kept]
    handle = getattr(library, f"engine_new_{suffix}")(
        network.npus,
        network.links,
        len(owner),
        *p[:7],
        len(lane_duration),
        p[7],
        p[8],
        ffi.NULL if wanted is None else pointer(ffi, wanted),
        p[9],
        int(rule),
        seed,
        threads,
    )
    if handle == ffi.NULL:
        raise FailureError("not enough memory to synthesise for this network")
    try:
        yield ffi, library, handle, suffix
    finally:
        getattr(library, f"engine_free_{suffix}")(handle)


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
    """Return sends that bring every chunk from its owner to every NPU (that `wanted`, rows of bits, names)."""
    if network.ports is not None:
        raise UsageError(f"{network.name}: matching knows no shared ports")
    duration = ticks(network, demand.chunk_bytes)
    capacity = len(owner) * network.npus + network.links
    chunk, link = np.empty(capacity, np.uint32), np.empty(capacity, np.uint32)
    start = np.empty(capacity, np.int64)
    with engine(network, duration, owner, rule, seed, threads, wanted) as (ffi, library, handle, suffix):
        sent = getattr(library, f"engine_run_{suffix}")(
            handle, capacity, pointer(ffi, chunk), pointer(ffi, link), pointer(ffi, start)
        )
    chunk, link, start = chunk[:sent], link[:sent], start[:sent]  # in order of start, as the engine goes
    name = f"matching ({rule.name.lower()})"
    return Schedule(network, demand, name, chunk, link, start, start + duration[link], np.zeros(sent, np.bool_))


def stream(
    network: Network, demand: Demand, owner: Index, *, rule: Rule = Rule.GREEDY, seed: int = 0, threads: int = 1
) -> Iterator[tuple[Index, Index, int]]:
    """Yield (chunks, links, start) for each instant, for networks whose schedule would not fit in memory.

    The arrays are valid until the next step. Each link's end is its start plus its ticks.
    """
    duration = ticks(network, demand.chunk_bytes)
    chunk, link = np.empty(network.links, np.uint32), np.empty(network.links, np.uint32)
    with engine(network, duration, owner, rule, seed, threads, None) as (ffi, library, handle, suffix):
        step = getattr(library, f"engine_step_{suffix}")
        now, done = ffi.new("int64_t *"), ffi.new("int *")
        chunks, links = pointer(ffi, chunk), pointer(ffi, link)
        while not done[0]:
            count = step(handle, chunks, links, now, done)
            yield chunk[:count], link[:count], int(now[0])


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
