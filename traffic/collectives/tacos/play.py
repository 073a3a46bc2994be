# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Time sends that depend on each other: list scheduling, the longest remaining path first."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from topologies.errors import FailureError
from traffic.collectives.tacos.compiled import packed, player, pointer
from traffic.collectives.tacos.network import Network
from traffic.collectives.tacos.schedule import Demand, Schedule, in_order, ticks

Jobs = npt.NDArray[np.int64]


def timed(
    network: Network,
    demand: Demand,
    engine: str,
    chunk: npt.ArrayLike,
    link: npt.ArrayLike,
    reduces: npt.ArrayLike,
    needs: tuple[Jobs, Jobs],
    priority: npt.ArrayLike | None = None,
) -> Schedule:
    """Return the sends with times: send needs[1][i] starts after send needs[0][i] has ended.

    Without `priority` (higher first), a send is as urgent as the time that its longest chain of followers takes.
    Raises FailureError if sends wait for each other in a circle.
    """
    links = packed(link, np.uint32)
    jobs = len(links)
    duration = ticks(network, demand.chunk_bytes)
    before, after = needs
    order = np.argsort(before, kind="stable")
    following = packed(after[order], np.uint64)
    first = np.searchsorted(before[order], np.arange(jobs + 1)).astype(np.uint64)
    waits = np.bincount(after, minlength=jobs).astype(np.uint32)
    rank = tails(jobs, duration[links], before, after) if priority is None else packed(priority, np.int64)
    ports = network.occupied
    first_port, port, slots = (packed(part, np.uint32) for part in (ports.first, ports.port, ports.slots))
    ffi, library = player()
    start = np.zeros(jobs, np.int64)

    def p(array: npt.NDArray[Any]) -> Any:
        return pointer(ffi, array)

    started = library.play(
        jobs,
        network.links,
        ports.count,
        p(links),
        p(duration),
        p(first),
        p(following),
        p(waits),
        p(rank),
        p(first_port),
        p(port),
        p(slots),
        p(start),
    )
    if started != jobs:
        raise FailureError(f"{network.name}: {jobs - started} sends wait for each other")
    return in_order(network, demand, engine, chunk, links, start, reduces)


def tails(jobs: int, length: npt.NDArray[np.int64], before: Jobs, after: Jobs) -> npt.NDArray[np.int64]:
    """Return for each job the time of the longest chain that starts with it; layer by layer from the last."""
    tail = length.copy()
    open_followers = np.bincount(before, minlength=jobs)
    order = np.argsort(after, kind="stable")
    first = np.searchsorted(after[order], np.arange(jobs + 1))
    sources = before[order]
    front = np.flatnonzero(open_followers == 0)
    while len(front):
        counts = first[front + 1] - first[front]
        job = np.repeat(front, counts)
        offset = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        needed = sources[first[job] + offset]
        np.maximum.at(tail, needed, length[needed] + tail[job])
        np.subtract.at(open_followers, needed, 1)
        touched = np.unique(needed)
        front = touched[open_followers[touched] == 0]
    return tail


def dependencies(network: Network, schedule: Schedule) -> tuple[Jobs, Jobs]:
    """Return the pairs (send, send that needs it) of a schedule: all earlier arrivals of its chunk at its source."""
    count = len(schedule.chunk)
    ends, starts = np.arange(count), np.arange(count)
    chunks = int(schedule.chunk.max(initial=0)) + 1
    arriving = schedule.destination.astype(np.int64) * chunks + schedule.chunk
    leaving = schedule.source.astype(np.int64) * chunks + schedule.chunk
    # For each send, the arrivals with its key that ended by its start: those are a prefix in order of end.
    order = np.lexsort((schedule.end, arriving))
    key, end = arriving[order], schedule.end[order]
    low = np.searchsorted(key, leaving)
    high = np.searchsorted(key, leaving, side="right")
    counts = high - low
    job = np.repeat(starts, counts)
    slot = np.repeat(low, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    held = end[slot] <= schedule.start[job]
    return ends[order[slot[held]]], job[held]


def tightened(schedule: Schedule) -> Schedule:
    """Return the same sends, each as early as what it needs and the order of urgency allow; the better of the two."""
    needs = dependencies(schedule.network, schedule)
    again = timed(
        schedule.network,
        schedule.demand,
        schedule.engine,
        schedule.chunk,
        schedule.link,
        schedule.reduces,
        needs,
        priority=-schedule.start,
    )
    return again if again.seconds < schedule.seconds else schedule
