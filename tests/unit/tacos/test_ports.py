# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Links that share network cards and cables take turns, in every engine, bound and check."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from topologies.errors import UsageError
from traffic.collectives.tacos.bounds import bounds
from traffic.collectives.tacos.naming import from_fabric
from traffic.collectives.tacos.network import Network, Ports, from_arrays
from traffic.collectives.tacos.schedule import TICK, Collective, Schedule, demand
from traffic.collectives.tacos.synthesis import synthesise
from traffic.collectives.tacos.verify import RejectedError, verify

ENGINES = ("matching", "trees", "routing", "auto")


def never_more_than_slots(schedule: Schedule) -> bool:
    """Count for every port how many links send at once, from the definition."""
    ports = schedule.network.ports
    assert ports is not None
    for port in range(ports.count):
        users = [
            link
            for link in range(schedule.network.links)
            if port in ports.port[ports.first[link] : ports.first[link + 1]]
        ]
        mine = np.isin(schedule.link, users)
        times = sorted([(t, 1) for t in schedule.start[mine]] + [(t, -1) for t in schedule.end[mine]], key=lambda e: e)
        if max(np.cumsum([change for _, change in times]), default=0) > ports.slots[port]:
            return False
    return True


@st.composite
def stars(draw: st.DrawFn) -> Network:
    """NPUs behind one switch: everyone reaches everyone through network cards of one or two slots, at any speed."""
    npus = draw(st.integers(2, 5))
    pairs = [(a, b) for b in range(npus) for a in range(npus) if a != b]
    rates = draw(st.lists(st.sampled_from([1e9, 2e9]), min_size=npus, max_size=npus))
    slots = draw(st.lists(st.integers(1, 2), min_size=2 * npus, max_size=2 * npus))
    speed = [min(rates[a], rates[b]) for a, b in pairs]
    plain = from_arrays("star", npus, *zip(*pairs, strict=True), [1e-6] * len(pairs), speed)
    count = plain.links
    port = np.stack([np.arange(count), count + plain.source, count + npus + plain.destination], axis=1).ravel()
    first = np.arange(count + 1) * 3
    ports = Ports(first.astype(np.uint32), port.astype(np.uint32), np.array([1] * count + slots, np.uint32))
    columns = (plain.source, plain.destination, plain.latency, plain.bandwidth)
    return Network("star", npus, *columns, ports=ports)


@settings(max_examples=25, deadline=None)
@given(stars(), st.sampled_from(list(Collective)), st.integers(1, 3))
def test_ports_are_never_overused_and_bounds_never_beaten(
    network: Network, collective: Collective, chunks: int
) -> None:
    wanted = demand(network, collective, 3e5, chunks=chunks)
    for engine in ENGINES:
        try:
            schedule = synthesise(network, wanted, engine=engine, restarts=1)
        except UsageError as error:
            assert "does not do" in str(error)
            continue
        assert never_more_than_slots(schedule)
        limits = bounds(network, wanted)
        assert schedule.seconds >= limits.best * (1 - 1e-6)
        assert limits.optimum is None or schedule.seconds >= limits.optimum * (1 - 1e-4)


def test_a_send_too_many_over_a_port_is_rejected() -> None:
    two = np.array([2], np.uint32)
    ports = Ports(np.array([0, 1, 2, 3], np.uint32), np.array([0, 0, 0], np.uint32), two)
    columns = (np.zeros(3, np.uint32), np.array([1, 2, 3], np.uint32), np.zeros(3), np.full(3, 1e6))
    network = Network("fan", 4, *columns, ports=ports)
    wanted = demand(network, Collective.BROADCAST, 1e6, root=0)
    second = round(1 / TICK)
    right = synthesise(network, wanted, engine="routing")
    assert sorted(right.start.tolist()) == [0, 0, second]
    early = Schedule(network, wanted, "test", right.chunk, right.link, right.start // 2, right.end, right.reduces)
    with pytest.raises(RejectedError, match="as long as|busy"):
        verify(early)


def test_a_slow_host_behind_a_leaf_is_a_leaf_of_every_tree() -> None:
    network = from_fabric(topologies.load("leaf_spine"))
    assert network.ports is not None and network.ways is not None and network.paths is not None
    across = [link for link, way in enumerate(network.ways) if way.startswith("h1 ") and way.endswith(" h5")]
    assert sorted(network.ways[link] for link in across) == ["h1 leaf1 spine1 leaf2 h5", "h1 leaf1 spine2 leaf2 h5"]
    assert sorted(network.paths[across].tolist()) == [1, 2]
    slow = Network(
        "slow host",
        network.npus,
        network.source,
        network.destination,
        network.latency,
        np.where((network.source == 0) | (network.destination == 0), network.bandwidth / 4, network.bandwidth),
        ports=network.ports,
    )
    wanted = demand(slow, Collective.ALL_REDUCE, 4e6)
    schedule = synthesise(slow, wanted, engine="trees")
    limits = bounds(slow, wanted)
    assert limits.optimum == pytest.approx(4 * 4e6 / 12.5e6, rel=0.02)
    assert schedule.seconds < 1.15 * limits.optimum
