# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""All-Gather both ways around a cycle of neighbours: as fast as can be where some NPU has but two links in."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from topologies.errors import UsageError
from traffic.collectives.tacos.compact import Around
from traffic.collectives.tacos.compiled import cycles, packed, pointer
from traffic.collectives.tacos.network import Network
from traffic.collectives.tacos.schedule import Collective, Demand, ticks

DISTURBANCES, MOST_DISTURBANCES = 4_000_000, 4_000
"""Over the number of NPUs, and at most: how often the search alters its course."""
DEPTH_FIRST_UP_TO, STEPS = 128, 2_000
"""NPUs up to which a cycle is also searched for depth first, and how many steps that may take."""


def goes_around(network: Network, demand: Demand) -> bool:
    """Tell whether no All-Gather or Reduce-Scatter could beat a cycle: equal links, of which somebody has but two."""
    if network.ports is not None or len(demand.group) < 3:
        return False
    ends = network.source if demand.collective is Collective.REDUCE_SCATTER else network.destination
    duration = ticks(network, demand.chunk_bytes)
    narrow = int(np.bincount(ends, minlength=network.npus)[list(demand.group)].min()) == 2
    return narrow and bool((duration == duration[0]).all())


def synthesise_around(network: Network, demand: Demand, *, seed: int = 0) -> Around:
    """Return the All-Gather around a cycle. Raises UsageError where none is found, or where links share ports."""
    if network.ports is not None or len(demand.group) < 3:
        raise UsageError(f"{network.name}: a cycle wants three members whose links share nothing")
    return Around(network, demand, np.array(cycle(network, list(demand.group), seed), np.uint32))


def cycle(network: Network, members: list[int], seed: int = 0) -> list[int]:
    """Return the members' indices such that neighbours joined both ways follow each other, all around.

    Raises UsageError where the search finds none, which does not mean that there is none.
    """
    count = len(members)
    place = np.full(network.npus, count, np.int64)
    place[members] = np.arange(count)
    a, b = place[network.source], place[network.destination]
    inside = (a < count) & (b < count)
    one_way = csr_matrix((np.ones(int(inside.sum()), np.int8), (a[inside], b[inside])), shape=(count, count))
    both = csr_matrix(one_way.minimum(one_way.T))
    both.sort_indices()
    if count > 2 and int(np.diff(both.indptr).min()) >= 2:
        first, near = packed(both.indptr, np.uint32), packed(both.indices, np.uint32)
        follows = np.empty(count, np.uint32)
        ffi, library = cycles()
        held = [pointer(ffi, array) for array in (first, near)]
        left = library.cycle(count, *held, min(DISTURBANCES // count, MOST_DISTURBANCES), seed, pointer(ffi, follows))
        if left == 1:
            return _walk(follows)
        if count <= DEPTH_FIRST_UP_TO and (found := _depth_first(both.tolil().rows.tolist())):
            return found
    raise UsageError(f"{network.name}: found no cycle through all neighbours")


def _walk(follows: npt.NDArray[np.uint32]) -> list[int]:
    following = follows.tolist()
    order = [0]
    while (after := following[order[-1]]) != 0:
        order.append(after)
    return order


def _depth_first(near: list[list[int]]) -> list[int] | None:
    """Search for a cycle to the neighbour with fewest ways on (Warnsdorff), away from where somebody is cut off."""
    order, seen = [0], {0}

    def onward() -> list[int]:
        """The next to try, best last; none where someone is left with one neighbour to be reached by and left to."""
        open_ends = {order[0], order[-1]}
        free = {n: sum(m not in seen or m in open_ends for m in near[n]) for n in range(len(near)) if n not in seen}
        if any(count < 2 for count in free.values()):
            return []
        return sorted((n for n in near[order[-1]] if n not in seen), key=lambda n: -free[n])

    choices = [onward()]
    for _ in range(STEPS):
        if len(order) == len(near) and order[0] in near[order[-1]]:
            return order
        if choices[-1]:
            order.append(choices[-1].pop())
            seen.add(order[-1])
            choices.append(onward())
        elif len(order) > 1:
            choices.pop()
            seen.remove(order.pop())
        else:
            break
    return None
