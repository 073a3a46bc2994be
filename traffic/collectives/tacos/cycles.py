# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""All-Gather both ways around a cycle of neighbours: as fast as can be where some NPU has but two links in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix

from topologies.errors import UsageError
from traffic.collectives.tacos.compiled import cycles, packed, pointer
from traffic.collectives.tacos.network import Index, Network
from traffic.collectives.tacos.schedule import Collective, Demand, Schedule, Ticks, ticks

DISTURBANCES, MOST_DISTURBANCES = 4_000_000, 4_000
"""Over the number of NPUs, and at most: how often the search alters its course."""
DEPTH_FIRST_UP_TO, STEPS = 128, 2_000
"""NPUs up to which a cycle is also searched for depth first, and how many steps that may take."""


@dataclass(frozen=True)
class Around:
    """Every chunk goes from its owner around a cycle of the group, until all have it.

    `order`: the group as indices into it, neighbours after each other. Of k chunks of each member k // 2 go ahead, as
    many back, and one that is left goes half the way ahead and half back: two arrive at everyone in every step.
    """

    network: Network
    demand: Demand
    order: Index
    engine: str = field(default="cycle", init=False)

    @property
    def each(self) -> int:
        """Chunks of one member."""
        return self.demand.chunks // len(self.order)

    @property
    def steps(self) -> int:
        """How many times every link of the cycle carries a chunk, if not one time less."""
        return (self.each * (len(self.order) - 1) + 1) // 2

    @property
    def sends(self) -> int:
        """How many sends there are."""
        return self.demand.chunks * (len(self.order) - 1)

    def links(self) -> tuple[Index, Index]:
        """Return the links to the next member and to the one before, in the cycle's order."""
        network, place = self.network, np.array(self.demand.group, np.int64)[self.order]
        key = network.destination.astype(np.int64) * network.npus + network.source
        ahead, back = (
            np.searchsorted(key, np.roll(place, -by) * network.npus + place).astype(np.uint32) for by in (1, -1)
        )
        return ahead, back

    def instants(self) -> Iterator[tuple[Index, Index, int]]:
        """Yield (chunks, links, start) for each step; the arrays are valid until the next."""
        count = len(self.order)
        twice = np.concatenate((self.order, self.order)) * np.uint32(self.each)
        ahead, back = self.links()
        link = np.concatenate((ahead, back))
        step = int(ticks(self.network, self.demand.chunk_bytes)[link].max())
        chunk = np.empty(2 * count, np.uint32)
        half = self.each // 2
        for turn in range(self.steps):
            part, far = divmod(turn, count - 1)
            there, back_again = (part, half + part) if part < half else (self.each - 1, self.each - 1)
            np.add(twice[count - far : 2 * count - far], np.uint32(there), chunk[:count])
            np.add(twice[far : far + count], np.uint32(back_again), chunk[count:])
            sends = min(2 * count, self.sends - 2 * count * turn)
            yield chunk[:sends], link[:sends], turn * step

    def expanded(self) -> Schedule:
        """Return all sends one by one."""
        duration = ticks(self.network, self.demand.chunk_bytes)
        chunk, link = np.empty(self.sends, np.uint32), np.empty(self.sends, np.uint32)
        start: Ticks = np.empty(self.sends, np.int64)
        at = 0
        for chunks, links, now in self.instants():
            to = at + len(chunks)
            chunk[at:to], link[at:to], start[at:to] = chunks, links, now
            at = to
        alike = bool((duration == duration[0]).all())
        end = start + (duration[0] if alike else duration[link])
        return Schedule(self.network, self.demand, self.engine, chunk, link, start, end, np.zeros(self.sends, np.bool_))


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
