# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Earliest-arrival routing on the time-expanded network (route.c): for copies that differ by destination."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from topologies.errors import FailureError, UsageError
from traffic.collectives.tacos.compiled import packed, pointer, router
from traffic.collectives.tacos.network import Network
from traffic.collectives.tacos.schedule import Demand, Schedule, in_order, ticks


def route(
    network: Network,
    demand: Demand,
    chunk: npt.ArrayLike,
    origin: npt.ArrayLike,
    destinations: list[npt.NDArray[np.uint32]],
) -> Schedule:
    """Return sends that bring chunk[i] from origin[i] to destinations[i], laid one after the other in this order.

    Raises UsageError that names a pair which no path joins.
    """
    chunks, sources = np.asarray(chunk, np.uint32), packed(origin, np.uint32)
    first_to = np.concatenate(([0], np.cumsum([len(part) for part in destinations]))).astype(np.uint64)
    to = packed(np.concatenate([*destinations, np.zeros(0, np.uint32)]), np.uint32)
    duration = ticks(network, demand.chunk_bytes)
    ports = network.occupied
    first_port, port, slots = (packed(part, np.uint32) for part in (ports.first, ports.port, ports.slots))
    capacity = max(1, int(sum(min(network.npus, max(1, len(part)) * network.npus) for part in destinations)))
    request, link = np.zeros(capacity, np.uint64), np.zeros(capacity, np.uint32)
    start = np.zeros(capacity, np.int64)
    ffi, library = router()

    def p(array: npt.NDArray[Any]) -> Any:
        return pointer(ffi, array)

    kept = [packed(part, np.uint32) for part in (network.first_out, network.out_links, network.destination)]
    sent = library.route(
        network.npus,
        network.links,
        *map(p, kept),
        p(duration),
        p(first_port),
        p(port),
        ports.count,
        p(slots),
        len(destinations),
        p(sources),
        p(first_to),
        p(to),
        capacity,
        p(request),
        p(link),
        p(start),
    )
    if sent <= -2:
        raise UsageError(f"{network.name}: NPU {sources[-2 - sent]} does not reach everyone that wants its chunk")
    if sent < 0:
        raise FailureError("not enough memory to route this collective")
    taken = request[:sent].astype(np.int64)
    return in_order(network, demand, "routing", chunks[taken], link[:sent], start[:sent], False)


def distances(network: Network, chunk_bytes: float, origins: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Return the seconds that a chunk takes from each origin to each NPU on an empty network."""
    cost: dict[tuple[int, int], float] = {}
    seconds = network.seconds(chunk_bytes).tolist()
    for a, b, c in zip(network.source.tolist(), network.destination.tolist(), seconds, strict=True):
        cost[a, b] = min(c, cost.get((a, b), c))
    rows, columns = zip(*cost, strict=True) if cost else ((), ())
    graph = csr_matrix((list(cost.values()), (rows, columns)), shape=(network.npus, network.npus))
    found: npt.NDArray[np.float64] = dijkstra(graph, indices=np.asarray(origins))
    return found
