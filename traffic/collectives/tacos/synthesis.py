# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Synthesise a schedule for any collective on any network: try the engines that fit, keep the best."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from topologies.errors import FailureError, UsageError
from traffic.collectives.tacos.bounds import bounds, unweighted
from traffic.collectives.tacos.compact import Around
from traffic.collectives.tacos.cycles import goes_around, synthesise_around
from traffic.collectives.tacos.matching import Rule, pruned, spread
from traffic.collectives.tacos.network import Index, Network
from traffic.collectives.tacos.play import tightened
from traffic.collectives.tacos.routing import distances, route
from traffic.collectives.tacos.schedule import Collective, Demand, Schedule, in_order, refuse_unreachable, ticks
from traffic.collectives.tacos.symmetric import fits, synthesise_symmetric
from traffic.collectives.tacos.trees import synthesise_trees
from traffic.collectives.tacos.verify import verify

ENGINES = ("auto", "matching", "symmetric", "cycle", "trees", "routing")
TIGHTENED_UP_TO = 4_000_000
"""Sends up to which the two halves of an All-Reduce are closed up."""
MOST_SENDS = 1 << 28
"""Of a schedule that is held in memory, at 25 bytes a send."""
TREE_CELLS = 100_000
"""Chunks times NPUs of the trees, which bounds the time that packing takes."""


def synthesise(
    network: Network, demand: Demand, *, engine: str = "auto", restarts: int = 3, seed: int = 0, check: bool = True
) -> Schedule:
    """Return the best schedule that the engines find; equal seeds give equal schedules.

    All-Reduce by trees, and Broadcast and Reduce, may cut the buffer finer than the demand says, unless `engine` is
    matching or routing. Raises UsageError that names a pair which no path joins, or where the engine does not fit;
    RejectedError if the verifier finds the result wrong.
    """
    if engine not in ENGINES:
        raise UsageError(f"an engine is {', '.join(ENGINES)}, not {engine!r}")
    refuse_unreachable(network, demand)
    ticks(network, demand.chunk_bytes)  # or say that they are too many
    if (sends := demand.chunks * (len(demand.group) - 1)) > MOST_SENDS:
        raise UsageError(f"{sends:,} sends or more are too many to hold: use fewer chunks")
    if len(demand.group) == 1:
        return in_order(network, demand, "none", [], [], [], [])
    best: Schedule | None = None
    for schedule in _candidates(network, demand, engine, restarts, seed):
        if best is None or schedule.seconds < best.seconds:
            best = schedule
    if best is None:
        raise UsageError(f"the {engine} engine does not do {demand.collective.value} on {network.name}")
    if check:
        verify(best)
    return best


def _candidates(network: Network, demand: Demand, engine: str, restarts: int, seed: int) -> Iterator[Schedule]:
    any_engine = engine == "auto"
    match demand.collective:
        case Collective.ALL_GATHER | Collective.REDUCE_SCATTER | Collective.ALL_REDUCE:
            if engine == "symmetric" or (any_engine and fits(network, demand)):
                yield synthesise_symmetric(network, demand, seed=seed, restarts=16 * restarts).expanded()
            order = _cycle(network, demand, engine, seed)
            if order is not None:
                yield from _halves(network, demand, lambda on: Around(on, demand, order).expanded())
            best = order is not None and demand.collective is not Collective.ALL_REDUCE
            if engine == "matching" or (any_engine and not best):
                yield from _halves(network, demand, lambda on: _gather(on, demand, restarts, seed))
            if engine == "routing" or (any_engine and network.ports is not None):
                yield from _halves(network, demand, lambda on: _gather_routed(on, demand, seed))
            if demand.collective is Collective.ALL_REDUCE and engine in ("auto", "trees"):
                yield from _trees(network, demand, seed)
        case Collective.BROADCAST | Collective.REDUCE:
            if engine in ("auto", "routing"):
                yield from _routed(network, demand, restarts, seed)
            if engine in ("auto", "trees"):
                yield from _trees(network, demand, seed)
        case Collective.ALL_TO_ALL | Collective.GATHER | Collective.SCATTER:
            if engine in ("auto", "routing"):
                yield from _routed(network, demand, restarts, seed)


def _cycle(network: Network, demand: Demand, engine: str, seed: int) -> Index | None:
    """Return the order around a cycle, if it is asked for, or found where nothing beats it (not sought elsewhere)."""
    if engine != "cycle" and not (engine == "auto" and goes_around(network, demand)):
        return None
    try:
        return synthesise_around(network, demand, seed=seed).order
    except UsageError:
        if engine == "cycle":
            raise
        return None


def _halves(network: Network, demand: Demand, gather: Callable[[Network], Schedule]) -> Iterator[Schedule]:
    """Reduce-Scatter is an All-Gather of the network turned round, run backwards; All-Reduce is both."""
    match demand.collective:
        case Collective.ALL_GATHER:
            yield gather(network)
        case Collective.REDUCE_SCATTER:
            yield mirrored(network, gather(network.reversed()[0]))
        case _:
            scatter = mirrored(network, gather(network.reversed()[0]))
            yield both(scatter, gather(network))


def owners(demand: Demand) -> Index:
    """Return which NPU a chunk of an All-Gather starts at, of a Reduce-Scatter ends at; shape (chunks,)."""
    return np.repeat(np.array(demand.group, np.uint32), demand.chunks // len(demand.group))


def _gather(network: Network, demand: Demand, restarts: int, seed: int) -> Schedule:
    """Return the best All-Gather by matching: every rule, `restarts` seeds, several sets of helpers of a group."""
    owner = owners(demand)
    uniform = len(np.unique(ticks(network, demand.chunk_bytes))) == 1
    members = np.zeros(network.npus, bool)
    members[list(demand.group)] = True
    wanted_sets: list[npt.NDArray[np.bool_]] = [np.ones(network.npus, bool)]
    if not members.all():
        wanted_sets = [members, members | _between(network, demand), wanted_sets[0]]
    best: Schedule | None = None
    for wanted in wanted_sets:
        bits = None if wanted.all() else _bits(wanted, demand.chunks)
        for rule in (Rule.GREEDY,) if uniform else Rule:
            for turn in range(restarts):
                found = spread(network, demand, owner, rule=rule, seed=seed + turn, wanted=bits)
                if not members.all():
                    found = pruned(found, members)
                if len(found.chunk) < demand.chunks * (len(demand.group) - 1):
                    continue
                if not members.all():
                    if not _complete(found, demand):
                        continue
                    found = tightened(found)
                if best is None or found.seconds < best.seconds:
                    best = found
    if best is None:
        raise FailureError(f"{network.name}: matching left chunks behind")
    return best


def _complete(found: Schedule, demand: Demand) -> bool:
    at_member = np.isin(found.destination, demand.group)
    return int(at_member.sum()) == demand.chunks * (len(demand.group) - 1)


def _between(network: Network, demand: Demand) -> npt.NDArray[np.bool_]:
    """Tell which NPUs lie on a quickest way between members."""
    members = np.array(demand.group)
    there = distances(network, demand.chunk_bytes, members)
    back = distances(network.reversed()[0], demand.chunk_bytes, members)
    between = np.zeros(network.npus, bool)
    for i in range(len(members)):
        for j in range(len(members)):
            between |= there[i] + back[j] <= there[i, members[j]] * (1 + 1e-9)
    return between


def _bits(wanted: npt.NDArray[np.bool_], chunks: int) -> npt.NDArray[np.uint64]:
    words = (chunks + 63) // 64
    row = np.full(words, 0xFFFFFFFFFFFFFFFF, np.uint64)
    if chunks % 64:
        row[-1] = (1 << chunks % 64) - 1
    return np.ascontiguousarray(np.where(wanted[:, None], row[None, :], np.uint64(0)))


def _gather_routed(network: Network, demand: Demand, seed: int) -> Schedule:
    everyone = np.array(demand.group, np.uint32)
    order = np.random.default_rng(seed).permutation(demand.chunks)
    return route(network, demand, order, owners(demand)[order], [everyone] * demand.chunks)


def _routed(network: Network, demand: Demand, restarts: int, seed: int) -> Iterator[Schedule]:
    match demand.collective:
        case Collective.REDUCE | Collective.GATHER:
            forward = Collective.BROADCAST if demand.collective is Collective.REDUCE else Collective.SCATTER
            turned = replace(demand, collective=forward)
            for found in _routed(network.reversed()[0], turned, restarts, seed):
                back = mirrored(network, found, reduces=demand.collective is Collective.REDUCE)
                yield replace(back, demand=demand)
        case Collective.BROADCAST:
            everyone = np.array(demand.group, np.uint32)
            roots = np.full(demand.chunks, demand.root, np.uint32)
            yield route(network, demand, np.arange(demand.chunks), roots, [everyone] * demand.chunks)
        case _:
            members = np.array(demand.group, np.uint32)
            each = demand.chunks // len(members)
            chunk = np.arange(demand.chunks)
            if demand.collective is Collective.ALL_TO_ALL:
                each //= len(members)
                origin = members[chunk // (each * len(members))]
                target = members[chunk // each % len(members)]
            else:
                origin = np.full(demand.chunks, demand.root, np.uint32)
                target = members[chunk // each]
            moves = np.flatnonzero(origin != target)
            far = distances(network, demand.chunk_bytes, members)
            place = np.zeros(network.npus, np.int64)
            place[members] = np.arange(len(members))
            length = far[place[origin[moves]], target[moves]]
            for turn in range(restarts):
                shuffled = np.random.default_rng(seed + turn).permutation(len(moves))
                order = shuffled[np.argsort(-length[shuffled], kind="stable")]
                now = moves[order]
                yield route(network, demand, chunk[now], origin[now], list(target[now][:, None]))


def _trees(network: Network, demand: Demand, seed: int) -> Iterator[Schedule]:
    """Cut the buffer so that the chunks' latencies cost about as much as the filling of the pipeline."""
    least = bounds(network, demand)
    seconds = max(least.node, least.cut or 0.0)
    latency = max(float(network.latency.mean()), seconds * 1e-5)
    root = demand.group[0] if demand.collective is Collective.ALL_REDUCE else demand.root
    outward = network.reversed()[0] if demand.collective is Collective.REDUCE else network
    depth = 1.3 * float(distances(unweighted(outward), 0.0, [root])[0, list(demand.group)].max())
    per_link = (seconds / latency * depth) ** 0.5
    sends = (len(demand.group) - 1) * (2 if demand.collective is Collective.ALL_REDUCE else 1)
    limit = max(1, TREE_CELLS // network.npus)
    if network.least_chunk:
        limit = max(1, min(limit, int(demand.size / network.least_chunk)))
    middle = max(1.0, per_link * network.links / sends)
    for count in sorted({max(1, min(limit, round(middle * factor))) for factor in (0.1, 0.5, 1.0)}):
        yield synthesise_trees(network, demand, count, seed=seed)


def mirrored(network: Network, schedule: Schedule, *, reduces: bool = True) -> Schedule:
    """Return the schedule run backwards, from one on the network turned round to one on the network itself."""
    _, number = network.reversed()
    last = int(schedule.end.max(initial=0))
    return in_order(
        network,
        schedule.demand,
        schedule.engine,
        schedule.chunk,
        number[schedule.link],
        last - schedule.end,
        np.full(len(schedule.chunk), reduces),
    )


def both(scatter: Schedule, gather: Schedule) -> Schedule:
    """Return a Reduce-Scatter followed by the All-Gather of its results, closed up where chunks are done early."""
    last = int(scatter.end.max(initial=0))
    joined = in_order(
        scatter.network,
        scatter.demand,
        gather.engine,
        np.concatenate((scatter.chunk, gather.chunk)),
        np.concatenate((scatter.link, gather.link)),
        np.concatenate((scatter.start, gather.start + last)),
        np.concatenate((scatter.reduces, gather.reduces)),
    )
    return tightened(joined) if len(joined.chunk) <= TIGHTENED_UP_TO else joined
