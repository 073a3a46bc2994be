# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Reduce and broadcast trees with free roots (trees.c): All-Reduce, Broadcast and Reduce in many pipelined chunks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from topologies.errors import UsageError
from traffic.collectives.tacos.compiled import packed, pointer, trees
from traffic.collectives.tacos.network import Network
from traffic.collectives.tacos.play import tails, timed
from traffic.collectives.tacos.schedule import Collective, Demand, Schedule, ticks

NO_LINK = 0xFFFFFFFF
DOWN, UP = 1, 2
URGENCY = 2
"""Weight of what follows a send against its chunk's turn; measured on grids: 1 and 4 are up to 3 % slower."""


def synthesise_trees(
    network: Network, demand: Demand, chunks: int, *, seed: int = 0, sweeps: int = 8, depth_cost: float = 0.2
) -> Schedule:
    """Return a schedule whose buffer is cut into `chunks`, each with trees of its own, whatever the demand's cut.

    Raises UsageError for collectives that need no tree, and where members do not reach each other.
    """
    match demand.collective:
        case Collective.ALL_REDUCE:
            sides, roots = UP | DOWN, np.arange(network.npus, dtype=np.uint32)
        case Collective.BROADCAST:
            sides, roots = DOWN, np.array([demand.root], np.uint32)
        case Collective.REDUCE:
            sides, roots = UP, np.array([demand.root], np.uint32)
        case _:
            raise UsageError(f"{demand.collective.value} is not made of trees")
    cut = replace(demand, chunks=chunks)
    member = np.zeros(network.npus, np.uint8)
    member[list(demand.group)] = 1
    if len(demand.group) < network.npus and len(roots) > 1:
        roots = packed(demand.group, np.uint32)
    ffi, library = trees()

    def p(array: npt.NDArray[Any]) -> Any:
        return pointer(ffi, array)

    root = np.zeros(chunks, np.uint32)
    up, down = np.empty((chunks, network.npus), np.uint32), np.empty((chunks, network.npus), np.uint32)
    kept = [
        packed(part, np.uint32)
        for part in (network.source, network.destination, network.first_in, network.first_out, network.out_links)
    ]
    cost = packed(network.seconds(cut.chunk_bytes) / network.seconds(cut.chunk_bytes).mean(), np.float64)
    ports = network.occupied
    first_port, port = packed(ports.first, np.uint32), packed(ports.port, np.uint32)
    share = packed(1 / ports.slots, np.float64)
    busiest = library.trees(
        network.npus,
        network.links,
        *map(p, kept),
        p(cost),
        p(first_port),
        p(port),
        ports.count,
        p(share),
        p(member),
        chunks,
        sweeps,
        sides,
        p(roots),
        len(roots),
        depth_cost,
        seed,
        p(root),
        p(up),
        p(down),
    )
    if busiest < 0:
        raise UsageError(f"{network.name}: no root reaches every member of the group and back")
    return _pipelined(network, cut, root, up, down)


def _pipelined(
    network: Network,
    demand: Demand,
    root: npt.NDArray[np.uint32],
    up: npt.NDArray[np.uint32],
    down: npt.NDArray[np.uint32],
) -> Schedule:
    """Give the sends of all trees their times: a sum goes on when all its parts are in, a copy when it is there."""
    ups, downs = np.nonzero(up != NO_LINK), np.nonzero(down != NO_LINK)
    job_up, job_down = np.full(up.shape, -1, np.int64), np.full(down.shape, -1, np.int64)
    job_up[ups] = np.arange(len(ups[0]))
    job_down[downs] = len(ups[0]) + np.arange(len(downs[0]))
    up_link, down_link = up[ups], down[downs]
    before, after = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    # A part that arrives at n is needed by n's own send up, or, at the root, by every send down from it.
    parent = network.destination[up_link].astype(np.int64)
    onward = job_up[ups[0], parent]
    inner = onward >= 0
    before.append(job_up[ups][inner])
    after.append(onward[inner])
    if len(down_link):
        origin = network.source[down_link].astype(np.int64)
        brought = job_down[downs[0], origin]
        copied = brought >= 0
        before.append(brought[copied])
        after.append(job_down[downs][copied])
        if len(up_link):
            last = np.flatnonzero(~inner)  # arrivals at roots, by chunk
            first_down = np.flatnonzero(~copied)
            low = np.searchsorted(ups[0][last], downs[0][first_down])
            counts = np.searchsorted(ups[0][last], downs[0][first_down], side="right") - low
            slot = np.repeat(low, counts) + np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            before.append(job_up[ups][last[slot]])
            after.append(np.repeat(job_down[downs][first_down], counts))
    chunk = np.concatenate((ups[0], downs[0]))
    link = np.concatenate((up_link, down_link))
    needs = np.concatenate(before), np.concatenate(after)
    # Earliest due date: chunk c is due when the busiest port is through with its share, what follows a send counted.
    duration = ticks(network, demand.chunk_bytes)
    ports = network.occupied
    busy = np.zeros(ports.count)
    np.add.at(
        busy,
        ports.port,
        np.repeat(np.bincount(link, minlength=network.links) * duration, np.diff(ports.first.astype(np.int64))),
    )
    due = chunk * (int((busy / ports.slots).max(initial=0)) // demand.chunks)
    return timed(
        network,
        demand,
        f"trees ({demand.chunks} chunks)",
        chunk,
        link,
        np.arange(len(link)) < len(up_link),
        needs,
        priority=tails(len(link), duration[link], *needs) * URGENCY - due,
    )
