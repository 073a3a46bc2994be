# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The fixed algorithms that schedules are compared with, timed on the same network by the same link model.

A logical send between NPUs that are no neighbours takes the quickest way through the NPUs between them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from topologies.errors import UsageError
from traffic.collectives.tacos.cycles import cycle
from traffic.collectives.tacos.network import Network
from traffic.collectives.tacos.play import timed
from traffic.collectives.tacos.schedule import Collective, Demand, Schedule


@dataclass
class Plan:
    """Sends in the making: each carries what its source has of a chunk by then."""

    network: Network
    demand: Demand
    chunk: list[int] = field(default_factory=list)
    link: list[int] = field(default_factory=list)
    reduces: list[bool] = field(default_factory=list)
    needs: list[tuple[int, int]] = field(default_factory=list)
    holds: defaultdict[tuple[int, int], list[int]] = field(default_factory=lambda: defaultdict(list))
    """The sends that (NPU, chunk) is made of so far."""

    def __post_init__(self) -> None:
        network = self.network
        self._number = {
            (a, b): i
            for i, (a, b) in enumerate(zip(network.source.tolist(), network.destination.tolist(), strict=True))
        }
        weight = network.seconds(self.demand.chunk_bytes)
        graph = csr_matrix((weight, (network.source, network.destination)), shape=(network.npus,) * 2)
        _, self._before = dijkstra(graph, return_predecessors=True)

    def send(self, chunk: int, source: int, destination: int, *, reduces: bool, after: list[int] | None = None) -> int:
        """Add a send, after what its source is made of (or `after`); return its last hop's number."""
        way = [destination]
        while way[-1] != source:
            way.append(int(self._before[source, way[-1]]))
        way.reverse()
        waits = list(self.holds[source, chunk] if after is None else after)
        for a, b in pairwise(way):
            job = len(self.chunk)
            self.chunk.append(chunk)
            self.link.append(self._number[a, b])
            self.reduces.append(reduces)
            self.needs += [(other, job) for other in waits]
            waits = [job]
        return waits[0]

    def arrived(self, chunk: int, npu: int, job: int, *, reduces: bool) -> None:
        """Say that the send has come: what the NPU has of the chunk is made of it from now on."""
        if reduces:
            self.holds[npu, chunk].append(job)
        else:
            self.holds[npu, chunk] = [job]

    def timed(self, name: str) -> Schedule:
        """Return the schedule, sends in the order of the plan where they compete."""
        pairs = np.array(self.needs, np.int64).reshape(-1, 2)
        return timed(
            self.network,
            self.demand,
            name,
            np.array(self.chunk),
            np.array(self.link),
            np.array(self.reduces),
            (pairs[:, 0], pairs[:, 1]),
            priority=-np.arange(len(self.chunk)),
        )

    def pass_on(self, chunks: list[int], source: int, destination: int, *, reduces: bool) -> None:
        """Send chunks to where they are added, or kept."""
        for chunk in chunks:
            self.arrived(chunk, destination, self.send(chunk, source, destination, reduces=reduces), reduces=reduces)


def _around(plan: Plan, order: list[int], chunks: list[list[int]], *, reduces: bool) -> None:
    """Pass chunks around a ring until order[i] has the sums of chunks[i], or everyone has copies of all."""
    count = len(order)
    for step in range(count - 1):
        for i in range(count):
            plan.pass_on(chunks[(i - step - reduces) % count], order[i], order[(i + 1) % count], reduces=reduces)


def ring(network: Network, demand: Demand) -> Schedule:
    """Return the one-way ring All-Reduce in the order of the group."""
    order = list(demand.group)
    plan = Plan(network, replace(demand, chunks=len(order)))
    for reduces in (True, False):
        _around(plan, order, [[i] for i in range(len(order))], reduces=reduces)
    return plan.timed("ring")


def hamiltonian_ring(network: Network, demand: Demand) -> Schedule:
    """Return the ring over a cycle of neighbours, half the buffer each way. Raises UsageError where none is found."""
    order = [demand.group[i] for i in cycle(network, list(demand.group))]
    count = len(order)
    plan = Plan(network, replace(demand, chunks=2 * count))
    for reduces in (True, False):
        for ranks, first in ((order, 0), (order[::-1], count)):
            _around(plan, ranks, [[first + i] for i in range(count)], reduces=reduces)
    return plan.timed("Hamiltonian ring")


def direct(network: Network, demand: Demand) -> Schedule:
    """Return the All-Reduce in which everyone sends every part straight to the one that sums it, and back."""
    order = list(demand.group)
    count = len(order)
    plan = Plan(network, replace(demand, chunks=count))
    for reduces in (True, False):
        for step in range(1, count):
            for i in range(count):
                other = (i + step) % count
                plan.pass_on([other if reduces else i], order[i], order[other], reduces=reduces)
    return plan.timed("direct")


def halving_doubling(network: Network, demand: Demand) -> Schedule:
    """Return recursive halving and doubling (Rabenseifner). Raises UsageError unless the group is a power of two."""
    order = list(demand.group)
    count = len(order)
    if count & (count - 1):
        raise UsageError("halving and doubling wants a power of two")
    plan = Plan(network, replace(demand, chunks=count))
    masks = [1 << bit for bit in range(count.bit_length() - 1)]
    for mask in reversed(masks):  # the partner's half of what is still summed here
        for i in range(count):
            partner, near = i ^ mask, ~(2 * mask - 1)
            wanted = [c for c in range(count) if c & near == i & near and c & mask == partner & mask]
            plan.pass_on(wanted, order[i], order[partner], reduces=True)
    for mask in masks:
        for i in range(count):
            partner = i ^ mask
            plan.pass_on([c for c in range(count) if c // mask == i // mask], order[i], order[partner], reduces=False)
    return plan.timed("halving-doubling")


def double_tree(network: Network, demand: Demand, pieces: int = 32) -> Schedule:
    """Return two binary trees, each for half the buffer in pieces; leaves of one are inner nodes of the other."""
    order = list(demand.group)
    count = len(order)
    plan = Plan(network, replace(demand, chunks=2 * pieces))
    for chunk in range(2 * pieces):
        ranks = order if chunk % 2 else order[1:] + order[:1]
        parent = _binary_tree(count)
        for i in sorted(parent, key=lambda i: -_depth(parent, i)):
            plan.pass_on([chunk], ranks[i], ranks[parent[i]], reduces=True)
        for i in sorted(parent, key=lambda i: _depth(parent, i)):
            plan.pass_on([chunk], ranks[parent[i]], ranks[i], reduces=False)
    return plan.timed("double binary tree")


def _binary_tree(count: int) -> dict[int, int]:
    """Return the parents in an in-order binary tree over 0..count-1, whose root has none: odd numbers are inner."""
    parent: dict[int, int] = {}

    def split(low: int, high: int, above: int | None) -> None:
        if low >= high:
            return
        middle = (low + high) // 2
        if above is not None:
            parent[middle] = above
        split(low, middle, middle)
        split(middle + 1, high, middle)

    split(0, count, None)
    return parent


def _depth(parent: dict[int, int], node: int) -> int:
    return 1 + _depth(parent, parent[node]) if node in parent else 0


def multi_ring(network: Network, demand: Demand) -> Schedule:
    """Return rings axis by axis: sums along every axis in turn, copies back. Raises UsageError without a shape."""
    shape = network.shape
    if shape is None or demand.group != tuple(range(network.npus)):
        raise UsageError("the multi-dimensional ring wants a torus-like product and everyone in the group")
    plan = Plan(network, replace(demand, chunks=network.npus))
    place = np.arange(network.npus).reshape(shape, order="F")
    phases = [(axis, True) for axis in range(len(shape))] + [(axis, False) for axis in reversed(range(len(shape)))]
    for axis, reduces in phases:
        lines = np.moveaxis(place, axis, -1).reshape(-1, shape[axis])
        for line in lines.tolist():
            # Chunks that are summed in this line: those that agree with it on the axes that came before.
            first = np.unravel_index(line[0], shape, order="F")
            own = [
                place[tuple(first[a] if a < axis else i if a == axis else slice(None) for a in range(len(shape)))]
                for i in range(shape[axis])
            ]
            _around(plan, line, [np.ravel(part).tolist() for part in own], reduces=reduces)
    return plan.timed("multi-dimensional ring")


BASELINES: dict[str, Callable[[Network, Demand], Schedule]] = {
    "ring": ring,
    "Hamiltonian ring": hamiltonian_ring,
    "direct": direct,
    "halving-doubling": halving_doubling,
    "double binary tree": double_tree,
    "multi-dimensional ring": multi_ring,
}


def neighbours_only(schedule: Schedule) -> bool:
    """Tell whether no send was led through NPUs in between, so that the verifier can play it."""
    pairs = (schedule.demand.chunks * (len(schedule.demand.group) - 1)) * 2
    return schedule.demand.collective is Collective.ALL_REDUCE and len(schedule.chunk) == pairs
