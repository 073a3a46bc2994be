# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The fixed algorithms are right where their neighbours are the network's, and never better than the bound."""

from __future__ import annotations

import pytest

from traffic.collectives.tacos.baselines import BASELINES, neighbours_only
from traffic.collectives.tacos.bounds import bounds
from traffic.collectives.tacos.network import Dimension, Network, mesh, product_of, torus
from traffic.collectives.tacos.schedule import Collective, demand
from traffic.collectives.tacos.verify import verify

FULL = product_of([Dimension("full", 8, 1e9)])


@pytest.mark.parametrize(
    ("name", "network"),
    [
        ("multi-dimensional ring", torus(4, 3)),
        ("ring", torus(5)),
        ("Hamiltonian ring", torus(3, 3)),
        ("Hamiltonian ring", mesh(8, 8)),
        *((name, FULL) for name in BASELINES),
    ],
)
def test_a_baseline_is_right(name: str, network: Network) -> None:
    wanted = demand(network, Collective.ALL_REDUCE, 1e6)
    schedule = BASELINES[name](network, wanted)
    assert neighbours_only(schedule)
    verify(schedule)
    assert schedule.seconds >= bounds(network, wanted).best


def test_a_baseline_goes_through_npus_between() -> None:
    network = mesh(4, 4)
    wanted = demand(network, Collective.ALL_REDUCE, 1e6)
    for name in ("ring", "direct", "halving-doubling", "double binary tree"):
        schedule = BASELINES[name](network, wanted)
        assert not neighbours_only(schedule)
        assert schedule.seconds >= bounds(network, wanted).best


def test_the_ring_of_neighbours_is_twice_the_one_way_ring() -> None:
    network = torus(6)
    wanted = demand(network, Collective.ALL_REDUCE, 1e9)
    ratio = BASELINES["ring"](network, wanted).seconds / BASELINES["Hamiltonian ring"](network, wanted).seconds
    assert ratio == pytest.approx(2, rel=0.1)
