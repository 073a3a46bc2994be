# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What comes out of synthesis is feasible, never beats a bound, and is the same for the same seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topologies.errors import UsageError
from traffic.collectives.tacos.bounds import bounds
from traffic.collectives.tacos.matching import spread, stream
from traffic.collectives.tacos.network import (
    GIB,
    Dimension,
    Network,
    from_arrays,
    from_csv,
    hypercube,
    mesh,
    product_of,
    torus,
)
from traffic.collectives.tacos.optimum import all_reduce_optimum
from traffic.collectives.tacos.schedule import Collective, demand
from traffic.collectives.tacos.symmetric import synthesise_symmetric
from traffic.collectives.tacos.synthesis import owners, synthesise
from traffic.collectives.tacos.trees import synthesise_trees
from traffic.collectives.tacos.verify import verify, verify_translated

GB = 1e9
EVERY = list(Collective)


def heterogeneous(last: int = 4) -> Network:
    return product_of(
        [
            Dimension("ring", 2, 200 * GIB),
            Dimension("full", 4, 100 / 3 * GIB),
            Dimension("switch", last, 50 * GIB),
        ]
    )


NETWORKS = {
    "mesh": mesh(3, 4),
    "torus": torus(3, 3),
    "hypercube": hypercube(3),
    "heterogeneous": heterogeneous(),
    "one-way ring": from_arrays("one-way", 5, range(5), [1, 2, 3, 4, 0], [1e-6] * 5, [1e9] * 5),
    "a link failed": mesh(3, 3).without([(0, 1)]),
}


@pytest.mark.parametrize("collective", EVERY)
@pytest.mark.parametrize("name", NETWORKS)
def test_every_collective_is_feasible_on_every_kind_of_network(name: str, collective: Collective) -> None:
    network = NETWORKS[name]
    wanted = demand(network, collective, 1e7)
    schedule = synthesise(network, wanted, restarts=1)
    assert verify(schedule).sends == len(schedule.chunk)
    assert schedule.seconds >= bounds(network, wanted).best * (1 - 1e-6)


@pytest.mark.parametrize("collective", EVERY)
def test_others_only_forward_for_a_process_group(collective: Collective) -> None:
    network = mesh(4, 4)
    wanted = demand(network, collective, 1e7, group=[0, 3, 10, 15], root=10)
    verify(synthesise(network, wanted, restarts=1))


@pytest.mark.parametrize("collective", EVERY)
def test_an_npu_may_have_several_chunks(collective: Collective) -> None:
    network = torus(3, 3)
    verify(synthesise(network, demand(network, collective, 1e7, chunks=3), restarts=1))


def test_a_mesh_gathers_in_as_few_steps_as_its_corners_allow() -> None:
    network = mesh(8, 8)
    schedule = synthesise(network, demand(network, Collective.ALL_GATHER, GB), engine="matching")
    step = schedule.end[0] - schedule.start[0]
    assert schedule.end.max() == 32 * step  # 63 chunks through two links


def test_a_torus_is_served_in_the_least_number_of_steps() -> None:
    network = torus(8, 8, 8)
    schedule = synthesise_symmetric(network, demand(network, Collective.ALL_REDUCE, GB))
    verify_translated(schedule)
    assert schedule.phase == 86 * schedule.duration[0]  # 511 chunks through six links


def test_the_heterogeneous_product_of_128_comes_within_4_percent_of_the_optimum() -> None:
    network = heterogeneous(16)
    wanted = demand(network, Collective.ALL_GATHER, GIB, chunks=4)
    schedule = synthesise_symmetric(network, wanted, restarts=12)
    verify_translated(schedule)
    cut = bounds(network, wanted).cut
    assert cut == pytest.approx(3281.25e-6, rel=1e-6)
    assert schedule.seconds <= cut * 1.04


@pytest.mark.parametrize(("network", "gain"), [(mesh(4, 4), 1.4), (mesh(8, 8), 1.6), (mesh(4, 4, 4), 1.4)])
def test_trees_beat_what_scatter_and_gather_can_at_best(network: Network, gain: float) -> None:
    wanted = demand(network, Collective.ALL_REDUCE, GB)
    schedule = synthesise_trees(network, wanted, 1000)
    verify(schedule)
    limits = bounds(network, wanted)
    assert limits.halves is not None
    assert limits.halves / schedule.seconds >= gain
    assert schedule.seconds >= limits.best


@pytest.mark.parametrize(
    ("network", "microseconds"),
    [
        (mesh(2), 1e6),  # both send half to the other's sum, and half as a sum
        (mesh(3), 1e6),  # all sums in the middle: every link carries the buffer once
        (torus(4), 750e3 * 2 / 2),  # 2 (4 - 1) buffers over eight links
        (from_arrays("slow one", 3, [0, 1, 1, 2], [1, 0, 2, 1], [0.0] * 4, [1e9, 1e9, 5e8, 1e9]), 2e6),
    ],
)
def test_the_optimum_of_trees_is_what_counting_says(network: Network, microseconds: float) -> None:
    network = replace(network, bandwidth=network.bandwidth / network.bandwidth.max() * 1e9, latency=0 * network.latency)
    wanted = demand(network, Collective.ALL_REDUCE, GB)
    limits = bounds(network, wanted)
    assert limits.optimum == pytest.approx(microseconds * 1e-6, rel=1e-4)
    assert limits.best <= limits.optimum * (1 + 1e-6) <= limits.halves * (1 + 2e-6)


@given(st.integers(2, 5), st.integers(2, 4))
@settings(max_examples=10, deadline=None)
def test_one_npu_may_stand_for_all_where_all_are_alike(ring: int, full: int) -> None:
    alike = product_of([Dimension("ring", ring, 3e9), Dimension("full", full, 1e9)])
    each = all_reduce_optimum(replace(alike, shape=None), np.arange(alike.npus), GB)
    assert all_reduce_optimum(alike, np.arange(alike.npus), GB) == pytest.approx(each, rel=1e-4)


def test_equal_seeds_give_equal_schedules() -> None:
    network = heterogeneous()
    for collective in (Collective.ALL_GATHER, Collective.ALL_REDUCE, Collective.ALL_TO_ALL):
        first, second = (synthesise(network, demand(network, collective, 1e6), seed=7) for _ in range(2))
        for column in ("chunk", "link", "start", "reduces"):
            assert np.array_equal(getattr(first, column), getattr(second, column))


def test_an_unreachable_pair_is_named() -> None:
    network = from_arrays("gap", 4, [0, 1, 2], [1, 0, 3], [0.0] * 3, [1e9] * 3)
    with pytest.raises(UsageError, match="gap: no path from NPU 0 to NPU 2"):
        synthesise(network, demand(network, Collective.ALL_GATHER, 1e6))
    verify(synthesise(network, demand(network, Collective.ALL_REDUCE, 1e6, group=[0, 1])))
    verify(synthesise(network, demand(network, Collective.BROADCAST, 1e6, group=[2, 3], root=2)))


def test_an_edge_list_names_file_and_line_of_a_mistake(tmp_path) -> None:
    good = tmp_path / "pair.csv"
    good.write_text("source,destination,bandwidth,latency\n0,1,50,500\n1,0,25,500\n")
    network = from_csv(good)
    assert network.npus == 2 and network.bandwidth.tolist() == [25 * GIB, 50 * GIB]
    bad = tmp_path / "bad.csv"
    bad.write_text("0,1,50,500\n1,0,fast,500\n")
    with pytest.raises(UsageError, match=r"bad\.csv:2"):
        from_csv(bad)


@st.composite
def graphs(draw: st.DrawFn) -> Network:
    """A random strongly connected graph: a one-way ring through all, and more links of any speed."""
    npus = draw(st.integers(2, 7))
    order = draw(st.permutations(range(npus)))
    pairs = {(order[i], order[(i + 1) % npus]) for i in range(npus)}
    extra = st.tuples(st.integers(0, npus - 1), st.integers(0, npus - 1)).filter(lambda pair: pair[0] != pair[1])
    pairs |= draw(st.sets(extra, max_size=12))
    links = sorted(pairs)
    latency = draw(st.lists(st.sampled_from([0.0, 1e-6, 5e-6]), min_size=len(links), max_size=len(links)))
    rate = draw(st.lists(st.sampled_from([1e9, 2e9, 5e9]), min_size=len(links), max_size=len(links)))
    return from_arrays("random", npus, *zip(*links, strict=True), latency, rate)


@settings(max_examples=60, deadline=None)
@given(graphs(), st.sampled_from(EVERY), st.integers(1, 3), st.data())
def test_random_networks_get_feasible_schedules_that_beat_no_bound(
    network: Network, collective: Collective, chunks: int, data: st.DataObject
) -> None:
    group = data.draw(st.lists(st.integers(0, network.npus - 1), min_size=2, unique=True))
    wanted = demand(network, collective, 3e4, chunks=chunks, group=group)
    for engine in ("matching", "trees", "routing", "auto"):
        try:
            schedule = synthesise(network, wanted, engine=engine, restarts=1)
        except UsageError as error:
            assert "does not do" in str(error)
            continue
        assert schedule.seconds >= bounds(network, wanted).best * (1 - 1e-6)


def test_two_threads_decide_as_one_does() -> None:
    network = mesh(100, 100)
    wanted = demand(network, Collective.ALL_GATHER, GB)
    runs = [stream(network, wanted, owners(wanted), threads=threads) for threads in (1, 2)]
    for _ in range(30):
        (chunk, link, start), (other_chunk, other_link, other_start) = (next(run) for run in runs)
        assert start == other_start
        by_link, by_other_link = np.argsort(link), np.argsort(other_link)
        assert np.array_equal(link[by_link], other_link[by_other_link])
        assert np.array_equal(chunk[by_link], other_chunk[by_other_link])
    for run in runs:
        run.close()


def test_more_chunks_than_16_bits_can_number() -> None:
    uneven = from_arrays("uneven", 3, [0, 1, 1, 2], [1, 0, 2, 1], [0.0] * 4, [1e9, 1e9, 2e9, 1e9])
    for network in (mesh(3), uneven):
        wanted = demand(network, Collective.ALL_GATHER, GB, chunks=25_000)
        found = spread(network, wanted, owners(wanted))
        assert len(found.chunk) == 150_000
        verify(found)


@pytest.mark.parametrize(
    ("collective", "ends"), [(Collective.BROADCAST, ([2, 0], [0, 1])), (Collective.REDUCE, ([0, 1], [2, 0]))]
)
def test_one_way_from_the_root_is_enough(collective: Collective, ends: tuple[list[int], list[int]]) -> None:
    network = from_arrays("one-way", 3, *ends, [1e-6] * 2, [1e9] * 2)
    wanted = demand(network, collective, 1e6, group=[1, 0, 2], root=2)
    for engine in ("auto", "trees"):
        assert verify(synthesise(network, wanted, engine=engine)).sends >= 2
