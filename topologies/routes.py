# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Shortest paths: the equal-cost next hops from every switch to every host, with failed links left out."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from topologies.model import Fabric

# Each the two ends of a link in any order, as ("leaf1", "spine1") or as `Link.ends`.
FailedLinks = Collection[Iterable[str]]


def next_hops(fabric: Fabric, failed: FailedLinks = ()) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return, for every switch and every host, the ports that begin a shortest path, in port order.

    `failed` names the links that carry nothing. A host that a switch cannot reach has no ports: `()`.
    Switches and hosts stand in the fabric's own order, so that equal input gives equal output.
    """
    down = {frozenset(ends) for ends in failed}
    routes: dict[str, dict[str, tuple[int, ...]]] = {switch.name: {} for switch in fabric.switches}
    towards: dict[str, dict[str, tuple[int, ...]]] = {}
    for host in fabric.hosts:
        leaf = host.switch
        if leaf not in towards:
            towards[leaf] = _ports_towards(fabric, leaf, down)
        cut_off = fabric.link(leaf, host.name).ends in down
        for switch, hosts in routes.items():
            if cut_off:
                hosts[host.name] = ()
            elif switch == leaf:
                hosts[host.name] = (fabric.port_of(leaf, host.name),)
            else:
                hosts[host.name] = towards[leaf].get(switch, ())
    return routes


def path_count(fabric: Fabric, source: str, destination: str, failed: FailedLinks = ()) -> int:
    """Return how many shortest paths lead from one switch to another; 0 if none does."""
    down = {frozenset(ends) for ends in failed}
    distances = distances_to(fabric, destination, down)
    counts = {destination: 1}
    for switch in sorted(distances, key=distances.__getitem__):
        if switch != destination:
            counts[switch] = sum(
                counts[near]
                for near in fabric.neighbours(switch)
                if distances.get(near) == distances[switch] - 1 and frozenset((switch, near)) not in down
            )
    return counts.get(source, 0)


def _ports_towards(fabric: Fabric, target: str, down: set[frozenset[str]]) -> dict[str, tuple[int, ...]]:
    distances = distances_to(fabric, target, down)
    return {
        switch: tuple(
            link.end(switch).port
            for link in fabric.links_of(switch)
            if link.ends not in down and distances.get(link.other(switch).node) == distance - 1
        )
        for switch, distance in distances.items()
    }


def distances_to(fabric: Fabric, target: str, down: Collection[frozenset[str]] = ()) -> dict[str, int]:
    """Return the hops from every switch that reaches `target` over links between switches."""
    distances = {target: 0}
    waiting = deque([target])
    while waiting:
        here = waiting.popleft()
        for link in fabric.links_of(here):
            near = link.other(here).node
            if near not in distances and link.ends not in down and not fabric.is_host(near):
                distances[near] = distances[here] + 1
                waiting.append(near)
    return distances
