# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Shortest paths, held against networkx on every named topology, with and without failed links."""

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topologies
from topologies import Fabric, next_hops, schema
from topologies.builders import build
from topologies.routes import path_count

FABRICS = [topologies.load(name) for name in topologies.names()]


def reference(fabric: Fabric, failed: set[frozenset[str]]) -> dict[str, dict[str, tuple[int, ...]]]:
    """Next hops by asking networkx for all shortest paths; hosts are leaves of the graph and carry no transit."""
    graph = fabric.graph()
    graph.remove_edges_from([tuple(ends) for ends in failed])
    expected: dict[str, dict[str, tuple[int, ...]]] = {}
    for switch in fabric.switches:
        expected[switch.name] = {}
        for host in fabric.hosts:
            ports: set[int] = set()
            if networkx.has_path(graph, switch.name, host.name):
                for path in networkx.all_shortest_paths(graph, switch.name, host.name):
                    ports.add(fabric.port_of(switch.name, path[1]))
            expected[switch.name][host.name] = tuple(sorted(ports))
    return expected


@pytest.mark.parametrize("fabric", FABRICS, ids=lambda fabric: fabric.name)
def test_next_hops_are_all_shortest_paths_in_port_order(fabric: Fabric) -> None:
    assert next_hops(fabric) == reference(fabric, set())


@settings(deadline=None)
@given(data=st.data())
def test_next_hops_leave_failed_links_out(data: st.DataObject) -> None:
    fabric = data.draw(st.sampled_from(FABRICS))
    links = data.draw(st.sets(st.sampled_from(fabric.links), max_size=4))
    failed = {link.ends for link in links}
    assert next_hops(fabric, failed) == reference(fabric, failed)


def test_a_failed_link_may_be_named_in_either_order() -> None:
    fabric = topologies.load("leaf_spine")
    assert next_hops(fabric, [("spine1", "leaf1")]) == next_hops(fabric, {frozenset(("leaf1", "spine1"))})
    assert next_hops(fabric, [("spine1", "leaf1")])["leaf2"]["h1"] == (6,)


def test_a_host_whose_cable_is_out_is_reached_from_nowhere() -> None:
    routes = next_hops(topologies.load("leaf_spine"), [("h1", "leaf1")])
    assert all(hosts["h1"] == () for hosts in routes.values())
    assert all(hosts["h2"] for hosts in routes.values())


def test_a_fabric_cut_in_two_still_routes_within_each_part() -> None:
    fabric = topologies.load("dumbbell")
    routes = next_hops(fabric, [("s1", "s2")])
    assert routes["s1"]["h1"] == (1,)
    assert routes["s1"]["h5"] == ()


def test_path_counts_are_those_of_the_topology() -> None:
    assert path_count(topologies.load("leaf_spine"), "leaf1", "leaf2") == 2
    assert path_count(topologies.load("leaf_spine"), "leaf1", "leaf2", [("leaf2", "spine1")]) == 1
    fat_tree = build(schema.FatTree(k=6))
    assert path_count(fat_tree, "edge1", "edge18") == 9
    assert path_count(fat_tree, "edge1", "edge2") == 3
    assert path_count(fat_tree, "edge1", "edge1") == 1
