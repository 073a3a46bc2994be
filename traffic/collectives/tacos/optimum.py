# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The least time of All-Reduce by reduce and broadcast trees with free roots, infinitely fine chunks: a linear program.

Let x[r] be the bytes/s whose trees have their root at r, b[l] and c[l] what broadcast and reduce trees take of link l.
Broadcast trees for all x exist exactly if, for every set A of NPUs that lacks a member, the links that leave A have
b >= x(A) (Edmonds 1973, with a source before the roots); reduce trees likewise with c and the links that enter A.
There are too many sets to list: those that a solution breaks are found by maximum flows, added, and it is solved anew.
Every round's solution is a bound already; the last is the optimum, or what it has not moved from for STILL rounds.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from topologies.errors import FailureError
from traffic.collectives.tacos.network import Network

Rates = npt.NDArray[np.float64]
Sets = npt.NDArray[np.bool_]

ROUNDS, STILL = 100, 5
SCALE = 10**9
"""Steps into which the sum of a flow's capacities is divided, since flows are computed in integers."""


def all_reduce_optimum(network: Network, members: npt.NDArray[np.int64], size: float) -> float:
    """Return the seconds that an All-Reduce of `size` bytes over `members` takes at least if it is made of trees."""
    return _optimum(network, members, size, gathers=False)


def gather_optimum(network: Network, members: npt.NDArray[np.int64], size: float) -> float:
    """Return the seconds that an All-Gather which ends with `size` bytes takes at least, also where ports are shared.

    It is broadcast trees from all members at one rate; without shared ports bounds.cut_by_flows finds the same faster.
    """
    return _optimum(network, members, size, gathers=True)


def _optimum(network: Network, members: npt.NDArray[np.int64], size: float, *, gathers: bool) -> float:
    """Solve the program; `gathers`: all roots at one rate, and no reduce trees.

    On a network that is its own translation along every axis, all links of a kind are alike and one NPU stands for all.
    """
    alike = network.shape is not None and len(members) == network.npus
    kind = _kinds(network) if alike else np.arange(network.links)
    kinds = int(kind.max()) + 1
    root = np.zeros(len(members), np.int64) if alike or gathers else np.arange(len(members))
    directions = (True,) if gathers else (True, False)
    roots = int(root.max()) + 1
    unit = float(network.bandwidth.max())
    # Variables: x of each root, b of each kind of link, c of each kind of link. A port is taken for a second in the
    # second by each of its slots.
    ports = network.occupied
    taken = np.zeros((ports.count, kinds))
    counts = np.diff(ports.first.astype(np.int64))
    np.add.at(taken, (ports.port, np.repeat(kind, counts)), np.repeat(unit / network.bandwidth, counts))
    taken, first = np.unique(taken / ports.slots[:, None], axis=0, return_index=True)
    capacity = np.ones(len(first))
    limits = np.hstack((np.zeros((len(first), roots)), taken, 0 * taken if gathers else taken))
    rows: list[Rates] = []

    def cut(inside: Sets, down: bool) -> Rates:
        """x of the roots inside may not exceed what leaves (down: b) or enters (up: c)."""
        row = np.zeros(roots + 2 * kinds)
        np.add.at(row, root[inside[members]], 1.0)
        tail, head = (network.source, network.destination) if down else (network.destination, network.source)
        crossing = inside[tail] & ~inside[head]
        np.add.at(row, roots + kind[crossing] + (0 if down else kinds), -1.0)
        return row

    for npu in range(network.npus) if not alike else [0]:
        alone = np.zeros(network.npus, bool)
        alone[npu] = True
        others = [~alone, alone] if npu in members else [alone]
        rows += [cut(inside, down) for inside in others for down in directions if len(members) > 1]
    goal = np.concatenate((-np.bincount(root, minlength=roots).astype(float), np.zeros(2 * kinds)))
    sinks = members[:1] if alike else members
    rate, still = np.inf, 0
    for _ in range(ROUNDS):
        found = linprog(
            goal,
            A_ub=csr_matrix(np.vstack((limits, *rows))),
            b_ub=np.concatenate((capacity, np.zeros(len(rows)))),
            method="highs",
        )
        if not found.success:
            raise FailureError(f"{network.name}: the linear program of the optimum failed: {found.message}")
        still = still + 1 if -float(found.fun) > rate * (1 - 1e-6) else 0
        rate = -float(found.fun)
        x = np.zeros(network.npus)
        x[members] = found.x[root]
        broken: dict[tuple[bytes, bool], Rates] = {}
        for down in directions:
            share = found.x[roots + (0 if down else kinds) + kind]
            for sink in sinks.tolist():
                inside = _narrowest(network, x, share, sink, down)
                row = cut(inside, down)
                if row @ found.x > 1e-5 * rate:
                    broken[inside.tobytes(), down] = row
        if not broken or still == STILL:
            break
        rows += broken.values()
    return size / (rate * unit)


def _kinds(network: Network) -> npt.NDArray[np.int64]:
    """Number links so that those which are translations of each other have the same number."""
    shape = network.shape
    assert shape is not None
    moves = []
    for side, stride in zip(shape, np.cumprod([1, *shape]), strict=False):
        to, of = network.destination // stride % side, network.source // stride % side
        moves.append((to.astype(np.int64) - of) % side)
    _, kind = np.unique(np.stack(moves), axis=1, return_inverse=True)
    return np.ravel(kind).astype(np.int64)


def _narrowest(network: Network, x: Rates, share: Rates, sink: int, down: bool) -> Sets:
    """Return the NPUs on the roots' side of the narrowest cut between all roots, at their rates, and the sink."""
    top = network.npus
    unit = (float(x.sum()) + float(share.sum())) / SCALE
    tail, head = (network.source, network.destination) if down else (network.destination, network.source)
    roots = np.flatnonzero(x)
    rows = np.concatenate((tail, np.full(len(roots), top)))
    columns = np.concatenate((head, roots))
    values = np.rint(np.concatenate((share, x[roots])) / unit)
    graph = csr_matrix((values, (rows, columns)), shape=(top + 1, top + 1)).astype(np.int32)
    rest = graph - maximum_flow(graph, top, sink).flow
    rest.data = np.where(rest.data > 0, rest.data, 0)
    rest.eliminate_zeros()
    inside = np.zeros(top + 1, bool)
    inside[breadth_first_order(rest, top, return_predecessors=False)] = True
    return inside[:top]
