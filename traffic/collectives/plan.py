# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A collective as a plan: which chunk goes from whom to whom at which step. Every collective here is one.

Nodes are the workers 0..n-1, whose number is their rank, and after them the parameter servers. A send that `reduces` is
added to what its destination has of the chunk; any other is a final value, which replaces it. Plans are all-reduces but
for broadcasts and for schedule files of other collectives, which say who gives and who takes each chunk.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from topologies.errors import UsageError

if TYPE_CHECKING:
    from traffic.collectives.tacos.schedule import Schedule

MOST_SENDS = 1 << 11
"""From one node to another in one plan: how many the header can tell apart (names.py)."""
MOST_PATH = 255
ALL_REDUCE = "all_reduce"


@dataclass(frozen=True, slots=True)
class Send:
    """One chunk from one node to another. Times have any unit; `end` is when the destination has it."""

    chunk: int
    source: int
    destination: int
    start: int
    end: int
    reduces: bool
    number: int
    """Among the sends of this pair of nodes, in order of start."""
    path: int = 0
    """The member of the fabric's path groups that carries it, plus one; 0: free."""


@dataclass(frozen=True)
class Part:
    """A plan as one node sees it: arrivals and departures of each chunk, and departures to each node, in order."""

    events: dict[int, tuple[Send, ...]]
    """By chunk."""
    links: dict[int, tuple[Send, ...]]
    """By destination."""


@dataclass(frozen=True)
class Plan:
    """Sends in order of their start."""

    name: str
    workers: int
    nodes: int
    chunks: int
    sends: tuple[Send, ...]
    rates: Mapping[tuple[int, int], float] = field(default_factory=dict)
    """Bits/s from one node to another, and, where links share ports, from a node to itself: to all others together. No
    sender goes beyond."""
    reserved: bool = False
    """Those rates are the senders' alone: nobody else uses their links, so there is no less to go down to."""
    timed_for: float = 0.0
    """Bytes of the tensor, packet headers counted, for which times are picoseconds that sends wait for; 0: they order
    sends, and that is all."""
    collective: str = ALL_REDUCE
    givers: tuple[tuple[int, ...], ...] | None = None
    """By chunk: the workers that have something of it at the start; None: all of them of each."""
    takers: tuple[tuple[int, ...], ...] | None = None
    """By chunk: the workers that have it in the end; None: all of them each."""
    sums: bool = True
    """Whether a chunk is the sum of what its givers have; else it has one giver, whose values are passed on."""

    def gives(self, node: int, chunk: int) -> bool:
        """Whether a node has something of a chunk at the start."""
        return self.givers is None or node in self.givers[chunk]

    def takes(self, node: int, chunk: int) -> bool:
        """Whether a node is to have a chunk in the end."""
        return self.takers is None or node in self.takers[chunk]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What each node does.

        A node sends what it has of a chunk at the send's start: all that arrived until then, the arrivals added in
        the order of their ends (then of their sources), whichever comes first in fact. So sums have the same bits
        whatever the timing.
        """
        events: list[dict[int, list[tuple[int, int, int, int, Send]]]] = [defaultdict(list) for _ in range(self.nodes)]
        links: list[dict[int, list[Send]]] = [defaultdict(list) for _ in range(self.nodes)]
        for place, send in enumerate(self.sends):
            events[send.source][send.chunk].append((send.start, 1, place, 0, send))
            events[send.destination][send.chunk].append((send.end, 0, send.source, place, send))
            links[send.source][send.destination].append(send)
        return tuple(
            Part(
                {chunk: tuple(event[-1] for event in sorted(found)) for chunk, found in of_node.items()},
                {node: tuple(found) for node, found in to.items()},
            )
            for of_node, to in zip(events, links, strict=True)
        )

    @cached_property
    def most_senders(self) -> int:
        """How many nodes send to the one that most send to, or are sent to by the one that sends to most."""
        pairs = {(send.source, send.destination) for send in self.sends}
        to = Counter(destination for _, destination in pairs)
        of = Counter(source for source, _ in pairs)
        return max([*to.values(), *of.values(), 1])

    def cut(self, size: int, per_packet: int, turn: int) -> NDArray[np.int64]:
        """Return where chunks begin and end in a tensor of `size` values, shape (chunks, 2).

        Chunks are of whole packets, which are dealt out evenly; the first goes to chunk `turn` modulo their number,
        so that small tensors, which fill few chunks, burden all nodes alike.
        """
        packets = -(-size // per_packet)
        counts = packets // self.chunks + (np.arange(self.chunks) < packets % self.chunks)
        ends = np.minimum(np.cumsum(counts) * per_packet, size)
        bounds = np.stack([np.concatenate([[0], ends[:-1]]), ends], axis=1)
        return np.roll(bounds, turn % self.chunks, axis=0)


def _plan(name: str, workers: int, nodes: int, chunks: int, sends: Iterable[tuple[int, ...]]) -> Plan:
    """Return a plan of rows: start, end, chunk, source, destination, reduces, path; those of a start stay in order."""
    count: Counter[tuple[int, int]] = Counter()
    numbered = []
    for start, end, chunk, source, destination, reduces, path in sorted(sends, key=lambda send: send[0]):
        number = count[source, destination]
        count[source, destination] += 1
        numbered.append(Send(chunk, source, destination, start, end, bool(reduces), number, path))
    if count and max(count.values()) > MOST_SENDS:
        raise UsageError(f"{name}: more than {MOST_SENDS} sends from one node to another")
    return Plan(name, workers, nodes, chunks, tuple(numbered))


def parameter_server(workers: int, servers: int) -> Plan:
    """Return the plan in which server k sums chunk k of all workers and sends them the sum."""
    sends = []
    for chunk in range(servers):
        for worker in range(workers):
            sends.append((0, 1, chunk, worker, workers + chunk, True, 0))
            sends.append((1, 2, chunk, workers + chunk, worker, False, 0))
    return _plan("ps", workers, workers + servers, servers, sends)


def ring(workers: int) -> Plan:
    """Return reduce-scatter and all-gather around a ring, 2 (n - 1) steps (Patarasuk and Yuan, 2009)."""
    sends = []
    for step in range(workers - 1):
        for rank in range(workers):
            following, later = (rank + 1) % workers, workers - 1 + step
            sends.append((step, step + 1, (rank - step) % workers, rank, following, True, 0))
            sends.append((later, later + 1, (rank + 1 - step) % workers, rank, following, False, 0))
    return _plan("ring", workers, workers, workers, sends)


def halving_doubling(workers: int) -> Plan:
    """Return recursive halving and doubling (Thakur, Rabenseifner and Gropp, 2005).

    With n no power of two, each rank beyond the largest one p below n gives all it has to a partner first and gets
    the result from it in the end.
    """
    power = 1 << (workers.bit_length() - 1)
    steps = power.bit_length() - 1
    sends = []
    for extra in range(power, workers):
        for chunk in range(power):
            sends.append((0, 1, chunk, extra, extra - power, True, 0))
            sends.append((2 * steps + 1, 2 * steps + 2, chunk, extra - power, extra, False, 0))
    for step in range(steps):
        half = power >> (step + 1)
        for rank in range(power):
            other = rank ^ half
            first = other // half * half  # the chunks that the other keeps
            later = 2 * steps - step
            for chunk in range(first, first + half):
                sends.append((step + 1, step + 2, chunk, rank, other, True, 0))
            for chunk in range(rank // half * half, rank // half * half + half):
                sends.append((later, later + 1, chunk, rank, other, False, 0))
    return _plan("halving_doubling", workers, workers, power, sends)


def chain(workers: int, nodes: int, root: int, chunks: int = 8) -> Plan:
    """Return a broadcast that passes chunks from rank to rank, the root first: each link carries everything once."""
    sends = []
    for hop in range(workers - 1):
        source, destination = (root + hop) % workers, (root + hop + 1) % workers
        sends += [(chunk + hop, chunk + hop + 1, chunk, source, destination, False, 0) for chunk in range(chunks)]
    return _plan(f"broadcast from {root}", workers, nodes, chunks, sends)


def from_file(file: Path, workers: int) -> Plan:
    """Return the plan of a schedule in a file; see from_schedule. Raises UsageError that names the file."""
    from traffic.collectives.tacos import files  # here, since scipy takes a second to load

    schedule = files.load(file)
    try:
        return from_schedule(schedule, workers, file.name)
    except UsageError as error:
        raise UsageError(error.message, file=file) from None


def from_schedule(schedule: Schedule, workers: int, name: str) -> Plan:
    """Return a schedule's plan, once it is verified: link and time give the order of sends, its path theirs.

    Rank i is the i-th member of the schedule's group. Raises UsageError.
    """
    from traffic.collectives.tacos.schedule import REDUCTIONS
    from traffic.collectives.tacos.verify import RejectedError, final, initial, verify

    demand = schedule.demand
    if len(demand.group) != workers:
        raise UsageError(f"is a schedule for {len(demand.group)} ranks, not for {workers}")
    try:
        verify(schedule)
    except RejectedError as error:
        raise UsageError(f"is a wrong schedule: {error}") from None
    rank = {npu: number for number, npu in enumerate(demand.group)}
    pairs = zip(schedule.source.tolist(), schedule.destination.tolist(), strict=True)
    if outside := (set(schedule.source.tolist()) | set(schedule.destination.tolist())) - set(rank):
        raise UsageError(f"sends through NPU {min(outside)}, which is not of its group")
    ends = [(rank[source], rank[destination]) for source, destination in pairs]
    columns = zip(
        schedule.start.tolist(),
        schedule.end.tolist(),
        schedule.chunk.tolist(),
        ends,
        schedule.reduces.tolist(),
        [0] * len(ends) if schedule.path is None else schedule.path.tolist(),
        strict=True,
    )
    sends = [(start, end, chunk, *pair, reduces, path) for start, end, chunk, pair, reduces, path in columns]
    if any(path > MOST_PATH for *_, path in sends):
        raise UsageError(f"names paths beyond {MOST_PATH}")
    network = schedule.network
    rates: defaultdict[tuple[int, int], float] = defaultdict(float)
    for link in sorted(set(schedule.link.tolist())):  # all ways from one to the other together
        way = rank[int(network.source[link])], rank[int(network.destination[link])]
        rates[way] += 8 * float(network.bandwidth[link])
    alone = network.ports is None
    if not alone:
        for npu in set(schedule.source.tolist()):
            rates[rank[npu], rank[npu]] = 8 * network.out_rate(npu)
    plan = _plan(name, workers, workers, demand.chunks, sends)

    def by_chunk(npus: NDArray[np.uint32], chunks: NDArray[np.uint32]) -> tuple[tuple[int, ...], ...]:
        found: list[list[int]] = [[] for _ in range(demand.chunks)]
        for npu, chunk in zip(npus.tolist(), chunks.tolist(), strict=True):
            found[chunk].append(rank[npu])
        return tuple(map(tuple, found))

    promised = final(demand)
    return replace(
        plan,
        rates=dict(rates),
        reserved=alone,
        timed_for=0.0 if alone else demand.chunk_bytes * demand.chunks,
        collective=demand.collective.value,
        givers=by_chunk(*initial(demand)),
        takers=None if promised is None else by_chunk(*promised),
        sums=demand.collective in REDUCTIONS,
    )


def plan_of(collective: str, workers: int, servers: int) -> Plan:
    """Return the all-reduce of a name ("ps", "ring", "halving_doubling"), or what a schedule file says, of whatever
    collective. Raises UsageError."""
    match collective:
        case "ps":
            return parameter_server(workers, servers)
        case "ring":
            return ring(workers)
        case "halving_doubling":
            return halving_doubling(workers)
    return from_file(Path(collective), workers)
