# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Cycles of neighbours are found, and All-Gather around them takes as few steps as two links into an NPU allow."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from topologies.errors import UsageError
from traffic.collectives.tacos.compact import Around
from traffic.collectives.tacos.cycles import cycle, goes_around, synthesise_around
from traffic.collectives.tacos.network import Dimension, Index, Network, from_arrays, mesh, product_of, torus
from traffic.collectives.tacos.schedule import Collective, demand, ticks
from traffic.collectives.tacos.synthesis import synthesise
from traffic.collectives.tacos.verify import RejectedError, Verifier, verify, verify_around

GATHERS = (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)


def shuffled(network: Network, seed: int) -> Network:
    """The same network under other numbers."""
    number = np.random.default_rng(seed).permutation(network.npus)
    ends = number[network.source], number[network.destination]
    return from_arrays("shuffled", network.npus, *ends, network.latency, network.bandwidth)


@pytest.mark.parametrize(
    "network",
    [
        mesh(4, 4),
        mesh(6, 5),
        torus(6),
        torus(3, 3),
        torus(5, 5, 5),
        mesh(4, 4, 4),
        mesh(32, 32),
        mesh(31, 40),
        shuffled(mesh(16, 16), 1),
        mesh(32, 32).without([(500, 501), (501, 500), (700, 732)]),
    ],
    ids=lambda network: f"{network.name} of {network.links}",
)
def test_a_cycle_goes_around_everyone_over_links_both_ways(network: Network) -> None:
    order = cycle(network, list(range(network.npus)))
    assert sorted(order) == list(range(network.npus))
    pairs = set(zip(network.source.tolist(), network.destination.tolist(), strict=True))
    assert all({(order[i - 1], order[i]), (order[i], order[i - 1])} <= pairs for i in range(network.npus))


@pytest.mark.parametrize(
    "network",
    [
        mesh(3, 3),  # nine squares of a chess board: of one colour more than of the other
        mesh(9),
        from_arrays("one-way", 3, [0, 1, 2], [1, 2, 0], [0.0] * 3, [1e9] * 3),
        mesh(4, 4).without([(0, 1)]),  # a corner with but one neighbour both ways
        from_arrays(
            "apart", 6, [0, 1, 2] * 2 + [3, 4, 5] * 2, [1, 2, 0, 2, 0, 1, 4, 5, 3, 5, 3, 4], [0.0] * 12, [1e9] * 12
        ),
    ],
    ids=lambda network: str(network.name),
)
def test_no_cycle_where_there_is_none(network: Network) -> None:
    with pytest.raises(UsageError, match="no cycle"):
        cycle(network, list(range(network.npus)))


@pytest.mark.parametrize("chunks", [1, 2, 3])
@pytest.mark.parametrize("collective", GATHERS)
@pytest.mark.parametrize("network", [mesh(4, 4), mesh(5, 6), torus(5)], ids=lambda network: str(network.name))
def test_everything_arrives_in_the_least_number_of_steps(network: Network, collective: Collective, chunks: int) -> None:
    wanted = demand(network, collective, 1e9, chunks=chunks)
    schedule = synthesise(network, wanted, engine="cycle")
    steps = math.ceil(chunks * (network.npus - 1) / 2)
    assert verify(schedule).end == steps * ticks(network, wanted.chunk_bytes)[0]


def test_the_cycle_is_taken_where_nothing_can_beat_it() -> None:
    for collective in GATHERS:
        assert synthesise(mesh(6, 6), demand(mesh(6, 6), collective, 1e9)).engine == "cycle"
        assert synthesise(mesh(5, 5), demand(mesh(5, 5), collective, 1e9)).engine.startswith("matching")
    assert not goes_around(mesh(4, 4, 4), demand(mesh(4, 4, 4), Collective.ALL_GATHER, 1e9))
    uneven = product_of_lines(1e9, 2e9)
    assert not goes_around(uneven, demand(uneven, Collective.ALL_GATHER, 1e9))
    verify(synthesise(uneven, demand(uneven, Collective.ALL_GATHER, 1e9), engine="cycle"))


def product_of_lines(*rates: float) -> Network:
    """A 4 x 4 mesh whose rows and columns are of different speed."""
    return product_of([Dimension("line", 4, rate) for rate in rates])


def test_a_group_goes_around_itself() -> None:
    network = mesh(4, 4)
    wanted = demand(network, Collective.ALL_GATHER, 1e9, group=[5, 6, 10, 9], chunks=2)
    verify(synthesise(network, wanted, engine="cycle"))
    scattered = demand(network, Collective.ALL_GATHER, 1e9, group=[0, 5, 10])
    with pytest.raises(UsageError, match="no cycle"):
        synthesise(network, scattered, engine="cycle")


def test_instant_by_instant_it_is_what_it_is_at_once() -> None:
    network = mesh(20, 10)
    wanted = demand(network, Collective.ALL_GATHER, 1e9)
    around = synthesise_around(network, wanted)
    duration = ticks(network, wanted.chunk_bytes)
    judge = Verifier(network, wanted)
    for chunk, link, start in around.instants():
        judge.play(chunk, link, np.full(len(link), start), start + duration[link])
    verdict = judge.finish()
    assert verify_around(around) == verdict
    assert verdict.sends == around.sends == 200 * 199
    assert verdict.end == verify(around.expanded()).end == 100 * duration[0]


class Tampered(Around):
    """An All-Gather around a cycle whose steps are altered on their way to the verifier."""

    def instants(self) -> Iterator[tuple[Index, Index, int]]:
        for step, (chunk, link, start) in enumerate(super().instants()):
            yield self.alter(step, chunk.copy(), link.copy(), start)  # type: ignore[attr-defined]


def other_chunk(step: int, chunk: Index, link: Index, start: int) -> tuple[Index, Index, int]:
    if step == 3:
        chunk[2] = chunk[1]
    return chunk, link, start


def same_chunk_again(step: int, chunk: Index, link: Index, start: int) -> tuple[Index, Index, int]:
    if step == 7:  # the last: everyone sends its own chunk once more
        chunk[:] = np.concatenate((CYCLE, CYCLE))[: len(chunk)]
    return chunk, link, start


def other_link(step: int, chunk: Index, link: Index, start: int) -> tuple[Index, Index, int]:
    if step == 2:
        link[[0, 1]] = link[[1, 0]]
    return chunk, link, start


def too_early(step: int, chunk: Index, link: Index, start: int) -> tuple[Index, Index, int]:
    return chunk, link, start - (step == 4)


def one_step_less(step: int, chunk: Index, link: Index, start: int) -> tuple[Index, Index, int]:
    return (chunk[:0], link[:0], start) if step == 7 else (chunk, link, start)


CYCLE = synthesise_around(mesh(4, 4), demand(mesh(4, 4), Collective.ALL_GATHER, 1e9)).order


@pytest.mark.parametrize("alter", [other_chunk, same_chunk_again, other_link, too_early, one_step_less])
def test_an_altered_step_is_rejected(alter: Callable[..., tuple[Index, Index, int]]) -> None:
    wanted = demand(mesh(4, 4), Collective.ALL_GATHER, 1e9)
    verify_around(Around(mesh(4, 4), wanted, CYCLE))
    kind = type("Altered", (Tampered,), {"alter": staticmethod(alter)})
    with pytest.raises(RejectedError):
        verify_around(kind(mesh(4, 4), wanted, CYCLE))


def test_a_cycle_that_leaves_someone_out_is_rejected() -> None:
    wanted = demand(mesh(4, 4), Collective.ALL_GATHER, 1e9)
    twice = CYCLE.copy()
    twice[3] = twice[2]
    with pytest.raises(RejectedError, match="every member once"):
        verify_around(Around(mesh(4, 4), wanted, twice))
    with pytest.raises(RejectedError, match="over a link of its own"):
        verify_around(Around(mesh(4, 4), wanted, np.arange(16, dtype=np.uint32)))
