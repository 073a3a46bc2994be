# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Check schedules from the definition of their collective; shares nothing with what makes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from topologies.errors import FailureError
from traffic.collectives.tacos.compact import Around, Translated
from traffic.collectives.tacos.compiled import packed, pointer, verifier
from traffic.collectives.tacos.network import Network
from traffic.collectives.tacos.schedule import Collective, Demand, Schedule

Pairs = tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint32]]

COMPLAINTS = {
    1: "names a chunk or link that does not exist",
    2: "starts before the send that is listed before it",
    3: "does not last as long as its link takes for a chunk",
    4: "starts while its link or port is busy",
    5: "starts before its source holds the chunk",
    6: "brings a chunk that has been brought already",
    7: "reduces in a collective that reduces nothing",
    8: "the chunk never arrives",
    9: "the sum lacks a contribution or has one more than once",
}


class RejectedError(FailureError):
    """A schedule that does not do what its collective says."""


@dataclass(frozen=True)
class Verdict:
    """What the verifier found of a schedule that is right."""

    sends: int
    end: int
    """Ticks."""


def initial(demand: Demand) -> Pairs:
    """Return who holds which chunk at the start: arrays of NPUs and of chunks."""
    group = np.array(demand.group, np.uint32)
    every = np.arange(demand.chunks, dtype=np.uint32)
    each = demand.chunks // len(group)
    match demand.collective:
        case Collective.ALL_GATHER | Collective.GATHER | Collective.ALL_TO_ALL:
            return np.repeat(group, each), every
        case Collective.BROADCAST | Collective.SCATTER:
            return np.full(demand.chunks, demand.root, np.uint32), every
        case Collective.REDUCE_SCATTER | Collective.ALL_REDUCE | Collective.REDUCE:
            return np.tile(group, demand.chunks), np.repeat(every, len(group))


def final(demand: Demand) -> Pairs | None:
    """Return who is to hold which chunk in the end; None: every member, every chunk."""
    group = np.array(demand.group, np.uint32)
    every = np.arange(demand.chunks, dtype=np.uint32)
    each = demand.chunks // len(group)
    match demand.collective:
        case Collective.ALL_GATHER | Collective.ALL_REDUCE | Collective.BROADCAST:
            return None
        case Collective.REDUCE_SCATTER | Collective.SCATTER:
            return np.repeat(group, each), every
        case Collective.REDUCE | Collective.GATHER:
            return np.full(demand.chunks, demand.root, np.uint32), every
        case Collective.ALL_TO_ALL:
            return np.tile(np.repeat(group, each // len(group)), len(group)), every


class Verifier:
    """Plays a schedule piece by piece: `play` any number of times, in order of start, then `finish`."""

    def __init__(self, network: Network, demand: Demand, seed: int = 0) -> None:
        self.network, self.demand = network, demand
        self._ffi, self._library = verifier()
        seconds = network.latency + demand.chunk_bytes / network.bandwidth
        self._duration = np.maximum(1, np.ceil(seconds * 1e12)).astype(np.int64)
        self._source, self._destination = packed(network.source, np.uint32), packed(network.destination, np.uint32)
        self._in_link = np.argsort(network.destination, kind="stable").astype(np.uint32)
        counts = np.bincount(network.destination, minlength=network.npus)
        self._first_in = np.concatenate(([0], np.cumsum(counts))).astype(np.uint32)
        shared, ports = network.ports, []
        if shared is not None:
            slots = np.minimum(shared.slots, np.bincount(shared.port, minlength=shared.count))  # no more than links
            first_slot = np.concatenate(([0], np.cumsum(slots)))
            ports = [packed(part, np.uint32) for part in (shared.first, shared.port, first_slot)]
        self._ports = ports  # the library keeps pointers to them
        self._sums = demand.collective in (Collective.ALL_REDUCE, Collective.REDUCE_SCATTER, Collective.REDUCE)
        self._played = 0
        p = self._pointer
        handle = self._library.verifier_new(
            network.npus,
            network.links,
            demand.chunks,
            0 if shared is None else shared.count,
            p(self._source),
            p(self._destination),
            p(self._first_in),
            p(self._in_link),
            *([p(part) for part in ports] or [self._ffi.NULL] * 3),
            p(self._duration),
            self._sums,
            seed,
        )
        if handle == self._ffi.NULL:
            raise FailureError("not enough memory to verify this schedule")
        self._handle = self._ffi.gc(handle, self._library.verifier_free)
        npu, chunk = initial(demand)
        self._library.verifier_hold(self._handle, len(npu), p(packed(npu, np.uint32)), p(packed(chunk, np.uint32)))

    def _pointer(self, array: npt.NDArray[Any]) -> Any:
        return pointer(self._ffi, array)

    def play(
        self,
        chunk: npt.ArrayLike,
        link: npt.ArrayLike,
        start: npt.ArrayLike,
        end: npt.ArrayLike,
        reduces: npt.ArrayLike | None = None,
    ) -> None:
        """Play more sends. Raises RejectedError that names the first one which is wrong."""
        chunks, links = packed(chunk, np.uint32), packed(link, np.uint32)
        starts, ends = packed(start, np.int64), packed(end, np.int64)
        adds = None if reduces is None else packed(reduces, np.uint8)
        if not len(chunks) == len(links) == len(starts) == len(ends) == (len(chunks) if adds is None else len(adds)):
            raise RejectedError("columns of unequal length")
        at = self._ffi.new("uint64_t *")
        p = self._pointer
        code = self._library.verifier_play(
            self._handle,
            len(chunks),
            p(chunks),
            p(links),
            p(starts),
            p(ends),
            self._ffi.NULL if adds is None else p(adds),
            at,
        )
        if code:
            i, link_number = int(at[0]), int(links[at[0]])
            where = (
                f"{self.network.source[link_number]} -> {self.network.destination[link_number]}"
                if link_number < self.network.links
                else f"link {link_number}"
            )
            raise RejectedError(
                f"send {self._played + i} (chunk {chunks[i]}, {where}, {starts[i]}..{ends[i]}) {COMPLAINTS[code]}"
            )
        self._played += len(chunks)

    def finish(self) -> Verdict:
        """Check that everyone holds in the end what the collective promises. Raises RejectedError."""
        end = int(self._library.verifier_end(self._handle))
        members = packed(self.demand.group, np.uint32)
        at = self._ffi.new("uint64_t *")
        p = self._pointer
        if (pairs := final(self.demand)) is None:
            code = self._library.verifier_expect_all(self._handle, p(members), len(members), at)
            npu, chunk = int(members[at[0] % len(members)]), int(at[0]) // len(members)
        else:
            npus, chunks = (packed(part, np.uint32) for part in pairs)
            code = self._library.verifier_expect(
                self._handle, len(npus), p(npus), p(chunks), p(members), len(members), at
            )
            npu, chunk = (int(npus[at[0]]), int(chunks[at[0]])) if code else (0, 0)
        if code:
            raise RejectedError(f"chunk {chunk} at NPU {npu}: {COMPLAINTS[code]}")
        return Verdict(self._played, end)


def verify(schedule: Schedule) -> Verdict:
    """Return what a right schedule does. Raises RejectedError that names the first thing which is wrong."""
    judge = Verifier(schedule.network, schedule.demand)
    judge.play(schedule.chunk, schedule.link, schedule.start, schedule.end, schedule.reduces)
    verdict = judge.finish()
    if verdict.end != (int(schedule.end.max()) if len(schedule.end) else 0):
        raise RejectedError("the times do not add up")
    return verdict


def verify_around(schedule: Around, seed: int = 0) -> Verdict:
    """Check an All-Gather around a cycle, step by step, without a bit for each NPU and chunk. Raises RejectedError.

    Links are used by one send a step, and steps are as long as the slowest. A member passes on to the next what came
    from the one before in the last step, or what is its own; so it holds what it sends. Each gets as many chunks as
    there are others', and the sum of what it gets (of random numbers modulo 2^64, one a chunk) is that of all others':
    a chunk that is missing or comes twice survives with probability 2^-63.
    """
    network, demand = schedule.network, schedule.demand
    group = np.array(demand.group, np.int64)
    count, each = len(group), demand.chunks // len(group)
    if sorted(schedule.order.tolist()) != list(range(count)):
        raise RejectedError("the cycle does not go through every member once")
    place = group[schedule.order]
    mark = np.random.default_rng(seed).integers(1, 1 << 63, demand.chunks, np.uint64)
    owner = np.repeat(np.arange(count), each)
    received, arrivals = np.zeros(count, np.uint64), np.zeros(count, np.int64)
    came = np.full((2, count), -1, np.int64)
    seconds = network.latency + demand.chunk_bytes / network.bandwidth
    length = np.maximum(1, np.ceil(seconds * 1e12)).astype(np.int64)
    sends, last_end, known = 0, 0, np.zeros(0, np.uint32)
    for chunk, link, start in schedule.instants():
        if not np.array_equal(link, known[: len(link)]):
            sources, destinations = network.source[link], network.destination[link]
            ends = np.concatenate((np.roll(place, -1), np.roll(place, 1)))[: len(link)]
            right = np.array_equal(sources, np.concatenate((place, place))[: len(link)])
            if not right or not np.array_equal(destinations, ends) or len(np.unique(link)) < len(link):
                raise RejectedError(
                    f"a send at {start} is not to the next or to the one before, over a link of its own"
                )
            known, slowest = link.copy(), int(length[link].max())
        if start < last_end:
            raise RejectedError(f"a send at {start} {COMPLAINTS[4]}")
        if len(chunk) and int(chunk.max()) >= demand.chunks:
            raise RejectedError(f"a send at {start} {COMPLAINTS[1]}")
        for way, part in enumerate((chunk[:count], chunk[count:])):
            sender = np.arange(len(part))
            held = (came[way, : len(part)] == part) | (schedule.order[sender] == owner[part])
            if not held.all():
                raise RejectedError(f"send {sends + way * count + int(np.argmin(held))} {COMPLAINTS[5]}")
            came[way] = -1
            into = np.roll(np.arange(count), -1 if way == 0 else 1)[: len(part)]
            came[way, into] = part
            received[into] += mark[part]
            arrivals[into] += 1
        sends += len(chunk)
        last_end = start + slowest
    own = mark.reshape(count, each).sum(axis=1, dtype=np.uint64)[schedule.order]
    wrong = (arrivals != demand.chunks - each) | (received + own != mark.sum(dtype=np.uint64))
    if wrong.any():
        raise RejectedError(f"NPU {place[int(np.argmax(wrong))]} does not get every chunk exactly once")
    return Verdict(sends, last_end)


def verify_translated(schedule: Translated) -> Verdict:
    """Check a schedule that stands for its translations, without writing them out. Raises RejectedError.

    Translations map the network onto itself; NPU 0's chunks reach everyone once, held before it is sent, at the
    links' times; and no two sends over links that are translations of each other overlap, so that no two of all the
    translated sends meet on a link. What mirrors it in space and time (the network's mirror image is itself turned
    round) is right where it is.
    """
    network, shape = schedule.network, schedule.network.shape
    if shape is None or int(np.prod(shape)) != network.npus:
        raise RejectedError(f"{network.name} has no translations")
    place = np.stack(np.unravel_index(np.arange(network.npus), shape, order="F"))
    sides = np.array(shape)[:, None]

    def number(coordinates: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        flat: npt.NDArray[np.int64] = np.ravel_multi_index(tuple(coordinates % sides), shape, order="F")
        return flat

    source, destination = network.source.astype(np.int64), network.destination.astype(np.int64)
    length = np.maximum(1, np.ceil((network.latency + schedule.demand.chunk_bytes / network.bandwidth) * 1e12))
    links = np.sort(np.rec.fromarrays([destination, source, length]))
    for axis in range(len(shape)):
        step = (np.arange(len(shape)) == axis).astype(np.int64)[:, None]
        moved = [number(place[:, destination] + step), number(place[:, source] + step), length]
        if not np.array_equal(links, np.sort(np.rec.fromarrays(moved))):
            raise RejectedError(f"{network.name} is not the same when it is moved along axis {axis}")
    target, offset = schedule.target, schedule.offset
    start, end = schedule.start, schedule.start + schedule.duration
    parts, uneven = divmod(schedule.demand.chunks, network.npus)
    if uneven or sorted(schedule.demand.group) != list(range(network.npus)):
        raise RejectedError("the schedule is not of everyone's chunks")
    reached = np.sort(schedule.part * network.npus + target)
    wanted = np.arange(parts * network.npus)
    if not np.array_equal(reached, wanted[wanted % network.npus > 0]):
        raise RejectedError("NPU 0's chunks do not reach every NPU exactly once")
    origin = number(place[:, target] - place[:, offset])
    known = dict(zip(zip(source.tolist(), destination.tolist(), strict=True), length.tolist(), strict=True))
    of_class = {g: known.get((0, g)) for g in np.unique(offset).tolist()}
    if any(value is None for value in of_class.values()):
        raise RejectedError("a send uses a link that does not exist")
    if not np.array_equal(schedule.duration, np.array([of_class[g] for g in offset.tolist()], np.int64)):
        raise RejectedError(f"a send {COMPLAINTS[3]}")
    arrival = np.zeros((parts, network.npus), np.int64)
    arrival[schedule.part, target] = end
    early = start < arrival[schedule.part, origin]
    if early.any():
        raise RejectedError(f"send {int(np.argmax(early))} {COMPLAINTS[5]}")
    order = np.lexsort((start, offset))
    same = offset[order][1:] == offset[order][:-1]
    if (same & (start[order][1:] < end[order][:-1])).any():
        raise RejectedError("two translated sends meet on a link")
    phases = 2 if schedule.demand.collective is Collective.ALL_REDUCE else 1
    return Verdict(phases * len(target) * network.npus, phases * int(end.max(initial=0)))
