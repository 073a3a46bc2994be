# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Next hops, groups of equal paths, routes and ports: the entries that depend on the fabric more than on the policy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from ipaddress import IPv4Address, IPv6Address
from math import gcd
from typing import Final

from controller.p4rt.entities import (
    Call,
    Entity,
    Exact,
    FieldMatch,
    Group,
    GroupMember,
    GroupRef,
    Member,
    Prefix,
    TableEntry,
)
from controller.policy import MAX_WEIGHT, Policy
from topologies import addresses
from topologies.model import Fabric, Link

SELECTOR: Final = "path_selector"
GROUP_TABLES: Final = ("path_group", "path_group_alternative")


def _mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


def adjacency(fabric: Fabric, name: str) -> Iterator[Entity]:
    """Yield the next hops of a switch: one for each port, be its neighbour a host or a switch."""
    switch = fabric.switch(name)
    for port in fabric.ports(name):
        neighbour = port.peer.node
        mac = fabric.host(neighbour).mac if port.faces_host else fabric.switch(neighbour).mac
        arguments = (
            ("port", port.number),
            ("port_index", port.index),
            ("source_mac", _mac(switch.mac)),
            ("destination_mac", _mac(mac)),
        )
        yield TableEntry("next_hop", (("next_hop", Exact(port.number)),), Call("forward", arguments))


def _towards(
    policy: Policy, fabric: Fabric, switch: str, hops: dict[str, tuple[int, ...]]
) -> dict[str, tuple[int, ...]]:
    """Return the ports that lead to each other switch with hosts; those of weight 0 are left out."""
    ports: dict[str, tuple[int, ...]] = {}
    for host in fabric.hosts:
        if host.switch != switch and hops[host.name]:
            ports[host.switch] = (
                tuple(port for port in hops[host.name] if _weight(policy, fabric, switch, port) > 0) or hops[host.name]
            )
    return ports


def paths(policy: Policy, fabric: Fabric, switch: str, hops: dict[str, tuple[int, ...]]) -> Iterator[Entity]:
    """Yield members, groups and pinned paths. `hops` maps each host to the ports that begin a shortest path."""
    groups = {
        fabric.switch(destination).device_id: ports
        for destination, ports in _towards(policy, fabric, switch, hops).items()
        if len(ports) > 1
    }
    for uplink in fabric.ports(switch):
        if not uplink.faces_host:
            path = Call("set_path", (("next_hop", uplink.number), ("port", uplink.number)))
            yield Member(SELECTOR, uplink.number, path)
    for group, ports in groups.items():
        weights = _reduced([_weight(policy, fabric, switch, port) or 1 for port in ports])
        members = tuple(GroupMember(port, weight, port) for port, weight in zip(ports, weights, strict=True))
        yield Group(SELECTOR, group, members)
        for table in GROUP_TABLES:
            yield TableEntry(table, (("group", Exact(group)),), GroupRef(group))
        if policy.paths.pinned:
            for number, port in enumerate(ports, start=1):
                match: tuple[tuple[str, FieldMatch], ...] = (("group", Exact(group)), ("path", Exact(number)))
                yield TableEntry("pinned_path", match, Call("set_next_hop", (("next_hop", port),)))


def routes(policy: Policy, fabric: Fabric, switch: str, hops: dict[str, tuple[int, ...]]) -> Iterator[Entity]:
    """Yield the routes to every host that can be reached: to one next hop, or to a group of several."""
    towards = _towards(policy, fabric, switch, hops)
    for host in fabric.hosts:
        if not hops[host.name]:
            continue
        ports = hops[host.name] if host.switch == switch else towards[host.switch]
        if len(ports) > 1:
            action = Call("set_group", (("group", fabric.switch(host.switch).device_id),))
        else:
            action = Call("set_next_hop", (("next_hop", ports[0]),))
        for table, address, bits in (
            ("ipv4_route", int(IPv4Address(host.ipv4)), 32),
            ("ipv6_route", int(IPv6Address(host.ipv6)), 128),
        ):
            yield TableEntry(table, (("destination", Prefix(address, bits)),), action)


def ports_of(fabric: Fabric, name: str) -> Iterator[Entity]:
    """Yield the dense index of each port, and the answer to ARP requests for the hosts' gateway."""
    for port in fabric.ports(name):
        index = Call("set_port_index", (("index", port.index),))
        yield TableEntry("ingress_port", (("ingress_port", Exact(port.number)),), index)
    if fabric.hosts_of(name):
        gateway = Exact(int(IPv4Address(addresses.GATEWAY_IPV4)))
        mac = _mac(fabric.switch(name).mac)
        yield TableEntry("arp_reply", (("target", gateway),), Call("reply", (("mac", mac),)))


def _weight(policy: Policy, fabric: Fabric, switch: str, port: int) -> int:
    """Return the weight of the path that begins at `port`: relative to its peers alone."""
    weights = policy.paths.weights
    if weights == "equal":
        return 1
    end = fabric.port(switch, port)
    if isinstance(weights, str):
        return end.rate_bps or max(other.rate_bps or 1 for other in fabric.ports(switch))
    link = fabric.link(switch, end.peer.node)
    for name in (link.name, f"{link.b.node}-{link.a.node}", end.peer.node):
        if name in weights:
            return int(weights[name])
    return 1


def _reduced(weights: Sequence[int]) -> list[int]:
    """Return weights of the same ratios, small: BMv2 copies a member once for each unit of its weight."""
    divisor = reduce(gcd, weights)
    largest = max(weights) // divisor
    scale = MAX_WEIGHT / largest if largest > MAX_WEIGHT else 1
    return [max(1, round(weight // divisor * scale)) for weight in weights]


def _links_named(fabric: Fabric, name: str) -> list[Link]:
    """Return the link called `leaf1-spine2`, or every link between switches of the switch called `spine2`."""
    return [
        link
        for link in fabric.links
        if not (fabric.is_host(link.a.node) or fabric.is_host(link.b.node))
        and name in (link.a.node, link.b.node, f"{link.a.node}-{link.b.node}", f"{link.b.node}-{link.a.node}")
    ]


def out_of_service(policy: Policy, fabric: Fabric) -> list[frozenset[str]]:
    """Return the ends of each link that the policy takes out. Raises UsageError for a name the fabric lacks."""
    found = []
    for number, name in enumerate(policy.paths.out_of_service):
        links = _links_named(fabric, name)
        if not links:
            raise policy.error(
                f"fabric {fabric.name} has no switch and no link between switches called {name!r}",
                "paths",
                "out_of_service",
                number,
            )
        found += [link.ends for link in links]
    return found


def check_weights(policy: Policy, fabric: Fabric) -> None:
    """Raise UsageError where the policy weighs what the fabric lacks."""
    weights = policy.paths.weights
    for name in weights if isinstance(weights, dict) else ():
        if not _links_named(fabric, name):
            raise policy.error(
                f"fabric {fabric.name} has no switch and no link between switches called {name!r}",
                "paths",
                "weights",
                name,
            )
