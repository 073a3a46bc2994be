# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Schedules that stand for many more sends than they hold: around a cycle, and by translations of one source's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from traffic.collectives.tacos.network import Network
from traffic.collectives.tacos.schedule import TICK, Collective, Demand, Index, Schedule, Ticks, in_order, ticks

Places = npt.NDArray[np.int64]


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

    def _laps(self) -> Iterator[tuple[int, int, np.uint32, np.uint32]]:
        """Yield (first step, end, chunk of its owner that goes ahead, that goes back): a lap is count - 1 steps."""
        lap, half, last = len(self.order) - 1, self.each // 2, np.uint32(self.each - 1)
        for part, low in enumerate(range(0, self.steps, lap)):
            ahead, back = (np.uint32(part), np.uint32(half + part)) if part < half else (last, last)
            yield low, min(low + lap, self.steps), ahead, back

    def _owners(self) -> Index:
        """Return each member's first chunk, in the cycle's order from every place on; shape (count + 1, count)."""
        twice = np.concatenate((self.order, self.order)) * np.uint32(self.each)
        return np.lib.stride_tricks.sliding_window_view(twice, len(self.order))

    def _step(self, links: Index) -> int:
        """Return the ticks of a step: as long as the slowest link takes."""
        return int(ticks(self.network, self.demand.chunk_bytes)[links].max())

    def instants(self) -> Iterator[tuple[Index, Index, int]]:
        """Yield (chunks, links, start) for each step; the arrays are valid until the next."""
        count, owners, link = len(self.order), self._owners(), np.concatenate(self.links())
        step = self._step(link)
        chunk = np.empty(2 * count, np.uint32)
        for low, high, ahead, back in self._laps():
            for turn in range(low, high):
                np.add(owners[count - (turn - low)], ahead, chunk[:count])
                np.add(owners[turn - low], back, chunk[count:])
                sends = min(2 * count, self.sends - 2 * count * turn)
                yield chunk[:sends], link[:sends], turn * step

    def expanded(self) -> Schedule:
        """Return all sends one by one."""
        count, owners, links = len(self.order), self._owners(), np.concatenate(self.links())
        step, sends, wide = self._step(links), self.sends, 2 * count
        chunk, link = np.empty((2, self.steps, wide), np.uint32)
        for low, high, ahead, back in self._laps():
            np.add(owners[count : count - (high - low) : -1], ahead, chunk[low:high, :count])
            np.add(owners[: high - low], back, chunk[low:high, count:])
        link[:] = links
        time: Ticks = np.empty((self.steps + 1, wide), np.int64)
        time[:] = np.arange(0, (self.steps + 1) * step, step)[:, None]
        times = time.ravel()
        times.flags.writeable = False  # since starts and ends are the same numbers
        start, duration = times[:sends], ticks(self.network, self.demand.chunk_bytes)
        alike = bool((duration == duration[0]).all())
        chunk, link = chunk.ravel()[:sends], link.ravel()[:sends]
        end = times[wide : wide + sends] if alike else start + duration[link]
        return Schedule(self.network, self.demand, self.engine, chunk, link, start, end, np.zeros(sends, np.bool_))


def translate(shape: tuple[int, ...], place: npt.ArrayLike, by: npt.ArrayLike) -> Places:
    """Return the NPU numbers `place` moved by the offsets `by`, axis by axis, the first axis varying fastest."""
    a, b = np.broadcast_arrays(np.asarray(place, np.int64), np.asarray(by, np.int64))
    moved, stride = np.zeros_like(a), 1
    for side in shape:
        moved = moved + (a // stride + b // stride) % side * stride
        stride *= side
    return moved


def opposite(shape: tuple[int, ...], place: npt.ArrayLike) -> Places:
    """Return the NPU numbers mirrored at 0."""
    a = np.asarray(place, np.int64)
    moved, stride = np.zeros_like(a), 1
    for side in shape:
        moved = moved + (-(a // stride)) % side * stride
        stride *= side
    return moved


@dataclass(frozen=True)
class Translated:
    """The All-Gather of NPU 0's chunks, which stands for all: those of NPU s do the same, moved by s.

    `target[i]` receives NPU 0's chunk `part[i]` over the link from translate(target[i], -offset[i]), at
    `start[i]`. Reduce-Scatter is the same mirrored in space and time, All-Reduce one after the other.
    """

    network: Network
    demand: Demand
    engine: str
    part: Places
    target: Places
    offset: Places
    start: Ticks
    duration: Ticks

    @property
    def phase(self) -> int:
        """Ticks of one All-Gather."""
        return int((self.start + self.duration).max(initial=0))

    @property
    def seconds(self) -> float:
        """When the last send ends."""
        return self.phase * TICK * (2 if self.demand.collective is Collective.ALL_REDUCE else 1)

    @property
    def sends(self) -> int:
        """How many sends the whole collective has."""
        phases = 2 if self.demand.collective is Collective.ALL_REDUCE else 1
        return phases * len(self.target) * self.network.npus

    def expanded(self) -> Schedule:
        """Return all sends one by one."""
        network, shape = self.network, self.network.shape
        assert shape is not None
        everyone = np.arange(network.npus)[:, None]
        key = network.destination.astype(np.int64) * network.npus + network.source
        chunk = everyone * (self.demand.chunks // network.npus) + self.part
        origin = translate(shape, self.target, opposite(shape, self.offset))
        parts = []
        shift = 0
        if self.demand.collective is not Collective.ALL_GATHER:
            into = translate(shape, opposite(shape, origin), everyone)
            out_of = translate(shape, opposite(shape, self.target), everyone)
            begin = np.broadcast_to(self.phase - self.start - self.duration, chunk.shape)
            parts.append(
                (chunk.ravel(), np.searchsorted(key, (into * network.npus + out_of).ravel()), begin.ravel(), True)
            )
            shift = self.phase
        if self.demand.collective is not Collective.REDUCE_SCATTER:
            out_of, into = translate(shape, origin, everyone), translate(shape, self.target, everyone)
            begin = np.broadcast_to(self.start + shift, chunk.shape)
            parts.append(
                (chunk.ravel(), np.searchsorted(key, (into * network.npus + out_of).ravel()), begin.ravel(), False)
            )
        return in_order(
            network,
            self.demand,
            self.engine,
            np.concatenate([part[0] for part in parts]),
            np.concatenate([part[1] for part in parts]),
            np.concatenate([part[2] for part in parts]),
            np.concatenate([np.full(len(part[0]), part[3]) for part in parts]),
        )
