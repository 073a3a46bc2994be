# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Lower bounds on the time of a collective, whatever the schedule and the cut into chunks."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from traffic.collectives.tacos.network import Network
from traffic.collectives.tacos.optimum import all_reduce_optimum, gather_optimum
from traffic.collectives.tacos.routing import distances
from traffic.collectives.tacos.schedule import Collective, Demand, refuse_unreachable

Rates = npt.NDArray[np.float64]

CUTS_UP_TO = 256
"""NPUs up to which cuts are searched on networks without symmetry."""
SYMMETRIC_CUTS_UP_TO = 1024
TREES_UP_TO = 64
"""NPUs up to which the linear program of trees is solved on networks without symmetry."""
DISTANCES_UP_TO = 2048


@dataclass(frozen=True)
class Bounds:
    """Seconds; None where it was not worth the search."""

    node: float
    """By what the links of single NPUs, and all links together, can carry."""
    cut: float | None
    """By what crosses the narrowest cut: for All-Gather the true optimum of infinitely fine chunks (ForestColl)."""
    latency: float
    """By the farthest pair."""
    halves: float | None
    """Of All-Reduce as Reduce-Scatter and All-Gather only: what reduce-and-broadcast trees may beat."""
    trees: float | None = None
    """Of All-Reduce by trees, which Reduce-Scatter and All-Gather are a special case of."""

    @property
    def best(self) -> float:
        """The largest of those that bind every schedule."""
        return max(self.node, self.cut or 0.0, self.latency)

    @property
    def optimum(self) -> float | None:
        """What infinitely fine chunks without latency can reach: of All-Reduce, those that trees carry."""
        return self.cut if self.trees is None else self.trees


def bounds(network: Network, demand: Demand) -> Bounds:
    """Return what no schedule of this demand can beat. Raises UsageError that names a pair which no path joins."""
    members, size, count = np.array(demand.group), demand.size, len(demand.group)
    if count == 1:
        return Bounds(0.0, None, 0.0, None)
    refuse_unreachable(network, demand)
    into = _sums(network, network.destination)
    out = _sums(network, network.source)
    least_in, least_out = float(into[members].min()), float(out[members].min())
    share = size * (count - 1) / count
    total = min(float(into.sum()), float(out.sum()))
    halves: float | None = None
    cut = trees = None
    shared = network.ports is not None
    affordable = network.npus <= (TREES_UP_TO if shared else CUTS_UP_TO) or (
        network.shape is not None and network.npus <= SYMMETRIC_CUTS_UP_TO
    )
    gather_cut = gather_optimum if shared else cut_by_flows
    with np.errstate(divide="ignore"):
        match demand.collective:
            case Collective.ALL_GATHER:
                node = max(share / least_in, size / count / least_out, (count - 1) * size / total)
                cut = gather_cut(network, members, size) if affordable else None
            case Collective.REDUCE_SCATTER:
                node = max(share / least_out, size / count / least_in, (count - 1) * size / total)
                cut = gather_cut(network.reversed()[0], members, size) if affordable else None
            case Collective.ALL_REDUCE:
                node = max(size / least_in, size / least_out, 2 * (count - 1) * size / total)
                gather = gather_cut(network, members, size) if affordable else share / least_in
                scatter = gather_cut(network.reversed()[0], members, size) if affordable else share / least_out
                halves = gather + scatter
                if affordable and (network.npus <= TREES_UP_TO or network.shape is not None):
                    trees = all_reduce_optimum(network, members, size)
            case Collective.BROADCAST:
                others = members[members != demand.root]
                node = max(size / float(into[others].min()), size / float(out[demand.root]))
                cut = size / least_flow(network, demand.root, others) if affordable and not shared else None
            case Collective.REDUCE:
                others = members[members != demand.root]
                node = max(size / float(out[others].min()), size / float(into[demand.root]))
                cut = (
                    size / least_flow(network.reversed()[0], demand.root, others)
                    if affordable and not network.ports
                    else None
                )
            case Collective.GATHER:
                node = share / float(into[demand.root])
            case Collective.SCATTER:
                node = share / float(out[demand.root])
            case Collective.ALL_TO_ALL:
                node = max(share / least_in, share / least_out)
                if network.npus <= DISTANCES_UP_TO:
                    # A byte takes at least the link time of its quickest way; all links together have npus-wide time.
                    hops = distances(unweighted(network), 0.0, members)[:, members]
                    node = max(node, float(hops.sum()) * size / count / total)
    return Bounds(node, cut, _latency(network, demand), halves, trees)


def unweighted(network: Network) -> Network:
    """Return the network with links that all take one second for nothing, so that distances count hops."""
    ones = np.ones(network.links)
    return Network(network.name, network.npus, network.source, network.destination, ones, ones)


def _sums(network: Network, end: npt.NDArray[np.uint32]) -> Rates:
    """Return what the links at each NPU can carry together, at most what a port that all of them pass carries."""
    sums: Rates = np.zeros(network.npus)
    np.add.at(sums, end, network.bandwidth)
    if network.ports is None:
        return sums
    ports = network.ports
    over: defaultdict[tuple[int, int], list[float]] = defaultdict(list)
    for link, node in enumerate(end.tolist()):
        for port in ports.port[ports.first[link] : ports.first[link + 1]].tolist():
            over[node, port].append(float(network.bandwidth[link]))
    degree = np.bincount(end, minlength=network.npus)
    for (node, port), rates in over.items():
        if len(rates) == degree[node]:
            sums[node] = min(sums[node], sum(sorted(rates)[-int(ports.slots[port]) :]))
    return sums


def _latency(network: Network, demand: Demand) -> float:
    if network.npus > DISTANCES_UP_TO or not (network.latency > 0).all():
        return 0.0
    members = np.array(demand.group)
    match demand.collective:
        case Collective.BROADCAST | Collective.SCATTER:
            return float(distances(network, 0.0, [demand.root])[0, members].max())
        case Collective.REDUCE | Collective.GATHER:
            return float(distances(network.reversed()[0], 0.0, [demand.root])[0, members].max())
        case Collective.ALL_REDUCE | Collective.ALL_GATHER | Collective.REDUCE_SCATTER | Collective.ALL_TO_ALL:
            return float(distances(network, 0.0, members if network.shape is None else members[:1])[:, members].max())


def _capacities(network: Network, extra: float = 0.0) -> tuple[npt.NDArray[np.int64], float]:
    """Return bandwidths rounded up to integers, so that flows through them bound from above, and their unit."""
    unit = (float(network.bandwidth.sum()) + extra) / 2e9
    return np.ceil(network.bandwidth / unit).astype(np.int64), unit


def least_flow(network: Network, root: int, others: npt.NDArray[np.int64]) -> float:
    """Return the least maximum flow from the root to any of the others, in bytes/s, at most 1e-6 too large."""
    capacity, unit = _capacities(network)
    graph = csr_matrix((capacity, (network.source, network.destination)), shape=(network.npus,) * 2).astype(np.int32)
    return min(float(maximum_flow(graph, root, int(v)).flow_value) for v in others) * unit


def cut_by_flows(network: Network, members: npt.NDArray[np.int64], size: float) -> float:
    """Return the largest, over sets S of NPUs that lack a member, of the bytes in S that must leave by what leaves it.

    Newton's iteration on the rate: a maximum flow from all members at this rate to one NPU either carries everything,
    or its minimum cut is a set that allows less (ForestColl, arXiv 2402.06787, section 4).
    """
    each = size / len(members)
    into = _sums(network, network.destination)
    rate = float(into[members].min()) / (len(members) - 1)
    sinks = members[:1] if network.shape is not None and len(members) == network.npus else members
    for sink in sinks.tolist():
        while rate > 0:
            lower = _rate_of_cut(network, members, sink, rate)
            if lower >= rate * (1 - 1e-6):
                break
            rate = lower
    return each / rate if rate > 0 else float("inf")


def _rate_of_cut(network: Network, members: npt.NDArray[np.int64], sink: int, rate: float) -> float:
    """Return the rate that the minimum cut between all members at this rate and one NPU allows each member."""
    top = network.npus
    capacity, unit = _capacities(network, rate * len(members))
    supply = max(1, int(rate / unit))
    rows = np.concatenate((network.source, np.full(len(members), top)))
    columns = np.concatenate((network.destination, members))
    values = np.concatenate((capacity, np.full(len(members), supply)))
    graph = csr_matrix((values, (rows, columns)), shape=(top + 1, top + 1)).astype(np.int32)
    found = maximum_flow(graph, top, sink)
    if found.flow_value >= supply * len(members):
        return rate
    rest = graph - found.flow
    rest.data = np.where(rest.data > 0, rest.data, 0)
    rest.eliminate_zeros()
    inside = np.zeros(top + 1, bool)
    inside[breadth_first_order(rest, top, return_predecessors=False)] = True
    crossing = inside[network.source] & ~inside[network.destination]
    held = int(inside[members].sum())
    return float(network.bandwidth[crossing].sum()) / held if held else rate
