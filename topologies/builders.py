# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""From what a topology file says to a fabric: numbers switches and ports, gives addresses, checks the whole.

Ports are dense and in a fixed order: a switch's hosts first, then its links in the order in which they are laid,
so that the uplink ports of a leaf follow the spines and the ports of a spine follow the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TypeVar, cast

from topologies import addresses, schema
from topologies.errors import UsageError
from topologies.model import MAX_INTERFACE_NAME, MAX_PORTS, QUEUES, Endpoint, Fabric, Host, Link, QueueDepth, Switch
from topologies.routes import distances_to

T = TypeVar("T")


class _Wiring:
    """Switches, hosts and links as they are laid; each end takes the next free port of its node."""

    def __init__(self, topology: schema.Topology) -> None:
        self.topology = topology
        self.switches: list[Switch] = []
        self.hosts: list[Host] = []
        self.links: dict[frozenset[str], Link] = {}
        self._ports: dict[str, int] = {}
        self._hosts_on: dict[str, int] = {}
        self._device_ids: dict[str, int] = {}

    def switch(self, name: str, role: str = "switch") -> str:
        device_id = len(self.switches) + 1
        if device_id > addresses.MAX_DEVICE_ID:
            raise UsageError(f"more than {addresses.MAX_DEVICE_ID} switches: the address rule ends there")
        self.switches.append(Switch(name, device_id, role, self.topology.first_grpc_port + device_id - 1))
        self._device_ids[name] = device_id
        self._ports[name] = 0
        self._hosts_on[name] = 0
        return name

    def switch_row(self, prefix: str, count: int, role: str = "switch") -> list[str]:
        return [self.switch(f"{prefix}{number}", role) for number in range(1, count + 1)]

    def host(self, switch: str, name: str | None = None, settings: schema.LinkSettings | None = None) -> None:
        """Add a host behind `switch`, called h1, h2, ... unless it has a name."""
        name = name or f"h{len(self.hosts) + 1}"
        self._hosts_on[switch] += 1
        number = self._hosts_on[switch]
        device_id = self._device_ids[switch]
        by_rule = Host(
            name,
            switch,
            mac=addresses.mac_of(device_id, number),
            ipv4=addresses.ipv4_of(device_id, number),
            ipv6=addresses.ipv6_of(device_id, number),
        )
        by_hand = self.topology.addresses.get(name)
        given = {} if by_hand is None else {k: v for k, v in by_hand.model_dump().items() if v is not None}
        self.hosts.append(replace(by_rule, **given))
        end = Endpoint(switch, self._next_port(switch))
        self._lay(_settled(Link(end, Endpoint(name, 0)), self.topology.host_link, settings))

    def hosts_on(self, switches: Iterable[str], count: int) -> None:
        for switch in switches:
            for _ in range(count):
                self.host(switch)

    def link(self, a: str, b: str, settings: schema.LinkSettings | None = None, field: str | None = None) -> None:
        """Cable two switches."""
        if a == b:
            raise UsageError(f"{a} is linked to itself", field=field)
        if frozenset((a, b)) in self.links:
            raise UsageError(f"two links between {a} and {b}; give one link the rate of both", field=field)
        ends = Endpoint(a, self._next_port(a)), Endpoint(b, self._next_port(b))
        self._lay(_settled(Link(*ends), self.topology.fabric_link, settings))

    def _lay(self, link: Link) -> None:
        self.links[link.ends] = link

    def _next_port(self, node: str) -> int:
        self._ports[node] += 1
        if self._ports[node] > MAX_PORTS:
            raise UsageError(f"switch {node} has more than {MAX_PORTS} ports; the pipeline counts {MAX_PORTS}")
        return self._ports[node]


def build(topology: schema.Topology, name: str | None = None) -> Fabric:
    """Build the fabric that `topology` describes; `name` serves where the description has none.

    Raises UsageError, with the field at fault, for what the schema alone cannot see.
    """
    wiring = _Wiring(topology)
    kind = type(topology)
    _BUILDERS[kind](topology, wiring)
    if kind is not schema.Custom:
        _apply_overrides(topology.links, wiring)
    fabric = Fabric(
        name=topology.name or name or _kind_name(topology),
        kind=_kind_name(topology),
        hosts=tuple(wiring.hosts),
        switches=tuple(wiring.switches),
        links=tuple(wiring.links.values()),
        mtu=topology.mtu,
        description=topology.description.strip(),
    )
    _check(topology, fabric)
    return fabric


def _single(topology: schema.Single, wiring: _Wiring) -> None:
    wiring.hosts_on([wiring.switch("s1")], topology.hosts)


def _dumbbell(topology: schema.Dumbbell, wiring: _Wiring) -> None:
    left, right = wiring.switch_row("s", 2)
    wiring.hosts_on([left], topology.left)
    wiring.hosts_on([right], topology.right)
    wiring.link(left, right)


def _leaf_spine(topology: schema.LeafSpine, wiring: _Wiring) -> None:
    leaves = wiring.switch_row("leaf", topology.leaves, "leaf")
    spines = wiring.switch_row("spine", topology.spines, "spine")
    wiring.hosts_on(leaves, topology.hosts_per_leaf)
    for leaf, spine in product(leaves, spines):
        wiring.link(leaf, spine)


def _fat_tree(topology: schema.FatTree, wiring: _Wiring) -> None:
    """Cable the fat tree of Al-Fares et al., SIGCOMM 2008, section 3: aggregation j of each pod reaches core row j."""
    half = topology.k // 2
    edges = _rows(wiring.switch_row("edge", topology.k * half, "edge"), half)
    aggregations = _rows(wiring.switch_row("agg", topology.k * half, "aggregation"), half)
    cores = _rows(wiring.switch_row("core", half * half, "core"), half)
    for pod in edges:
        wiring.hosts_on(pod, half if topology.hosts_per_edge is None else topology.hosts_per_edge)
    for pod_edges, pod_aggregations in zip(edges, aggregations, strict=True):
        for edge, aggregation in product(pod_edges, pod_aggregations):
            wiring.link(edge, aggregation)
        for aggregation, row in zip(pod_aggregations, cores, strict=True):
            for core in row:
                wiring.link(aggregation, core)


def _ring(topology: schema.Ring, wiring: _Wiring) -> None:
    switches = wiring.switch_row("s", topology.switches)
    wiring.hosts_on(switches, topology.hosts_per_switch)
    for here, there in zip(switches, [*switches[1:], switches[0]], strict=True):
        wiring.link(here, there)


def _grid(topology: schema.Mesh | schema.Torus, wiring: _Wiring) -> None:
    places = list(product(*(range(size) for size in topology.dimensions)))
    switches = dict(zip(places, wiring.switch_row("s", len(places)), strict=True))
    wiring.hosts_on(switches.values(), topology.hosts_per_switch)
    for place, switch in switches.items():
        for neighbour in _forward_neighbours(place, topology.dimensions, wraps=isinstance(topology, schema.Torus)):
            wiring.link(switch, switches[neighbour])


def _forward_neighbours(place: tuple[int, ...], dimensions: Sequence[int], wraps: bool) -> Iterator[tuple[int, ...]]:
    """Yield the next place along each dimension; a ring of two has one link, not two."""
    for axis, size in enumerate(dimensions):
        ahead = place[axis] + 1
        if ahead < size or (wraps and size > 2):
            yield (*place[:axis], ahead % size, *place[axis + 1 :])


def _custom(topology: schema.Custom, wiring: _Wiring) -> None:
    for name, switch in topology.switches.items():
        wiring.switch(name, switch.role)
    for name, host in topology.hosts.items():
        if name in topology.switches:
            raise UsageError(f"{name} is a switch already", field=f"hosts.{name}")
        if host.switch not in topology.switches:
            raise UsageError(f"there is no switch {host.switch!r}", field=f"hosts.{name}.switch")
        wiring.host(host.switch, name, host)
    for number, link in enumerate(topology.links):
        for node in link.between:
            if node not in topology.switches:
                raise UsageError(f"there is no switch {node!r}", field=f"links[{number}].between")
        wiring.link(*link.between, settings=link, field=f"links[{number}].between")


_BUILDERS = cast(
    dict[type[schema.Topology], Callable[[schema.Topology, _Wiring], None]],
    {
        schema.Single: _single,
        schema.Dumbbell: _dumbbell,
        schema.LeafSpine: _leaf_spine,
        schema.FatTree: _fat_tree,
        schema.Ring: _ring,
        schema.Mesh: _grid,
        schema.Torus: _grid,
        schema.Custom: _custom,
    },
)


def _apply_overrides(overrides: Sequence[schema.NamedLink], wiring: _Wiring) -> None:
    for number, override in enumerate(overrides):
        link = wiring.links.get(frozenset(override.between))
        if link is None:
            raise UsageError(
                f"there is no link between {override.between[0]!r} and {override.between[1]!r}",
                field=f"links[{number}].between",
            )
        turned = link.a.node != override.between[0]
        changed = _settled(_turned(link) if turned else link, override)
        wiring.links[link.ends] = _turned(changed) if turned else changed


def _settled(link: Link, *layers: schema.LinkSettings | None) -> Link:
    """Give a link the settings of each layer in turn; what a later layer leaves out stays."""
    for settings in layers:
        if settings is None:
            continue
        given = settings.model_fields_set
        if "rate" in given:
            link = replace(link, rate_bps=settings.rate, reverse_rate_bps=settings.rate)
        if "reverse_rate" in given:
            link = replace(link, reverse_rate_bps=settings.reverse_rate)
        if "delay" in given:
            link = replace(link, delay_ns=settings.delay or 0)
        if "queue" in given:
            link = replace(link, queues=_queues(settings.queue), reverse_queues=_queues(settings.queue))
        if settings.reverse_queue is not None:
            link = replace(link, reverse_queues=_queues(settings.reverse_queue))
    return link


def _turned(link: Link) -> Link:
    return Link(
        a=link.b,
        b=link.a,
        rate_bps=link.reverse_rate_bps,
        reverse_rate_bps=link.rate_bps,
        delay_ns=link.delay_ns,
        queues=link.reverse_queues,
        reverse_queues=link.queues,
    )


def _queues(queue: schema.Queue) -> tuple[QueueDepth, ...]:
    depths: list[schema.Depth] = [queue.classes.get(number, queue) for number in range(QUEUES)]
    return tuple(QueueDepth(depth.packets, depth.bytes) for depth in depths)


def _check(topology: schema.Topology, fabric: Fabric) -> None:
    for name in topology.addresses:
        if not fabric.is_host(name):
            raise UsageError(f"there is no host {name!r}", field=f"addresses.{name}")
    for attribute in ("ipv4", "ipv6", "mac"):
        taken: dict[str, str] = {switch.mac: switch.name for switch in fabric.switches} if attribute == "mac" else {}
        for host in fabric.hosts:
            value: str = getattr(host, attribute)
            if value in taken:
                culprit = host.name if host.name in topology.addresses else taken[value]
                raise UsageError(
                    f"{host.name} and {taken[value]} both have {value}", field=f"addresses.{culprit}.{attribute}"
                )
            taken[value] = host.name
    for switch in fabric.switches:
        for port in fabric.ports(switch.name):
            if len(port.interface) > MAX_INTERFACE_NAME:
                raise UsageError(
                    f"interface {port.interface} has {len(port.interface)} characters and the kernel takes "
                    f"{MAX_INTERFACE_NAME}; shorten the switch's name",
                    field=f"switches.{switch.name}",
                )
    _check_joined(fabric)
    if fabric.switches[-1].grpc_port > 65535:
        raise UsageError(
            f"switch {fabric.switches[-1].name} would need gRPC port {fabric.switches[-1].grpc_port}",
            field="first_grpc_port",
        )


def _check_joined(fabric: Fabric) -> None:
    """Raise UsageError where links leave a host that others cannot reach."""
    first, *others = fabric.hosts or (None,)
    if first is None:
        return
    joined = distances_to(fabric, first.switch)
    for host in others:
        if host.switch not in joined:
            raise UsageError(
                f"no links join {host.switch} and {first.switch}: {host.name} cannot reach {first.name}",
                field=f"hosts.{host.name}.switch",
            )


def _rows(values: Sequence[T], width: int) -> list[Sequence[T]]:
    return [values[start : start + width] for start in range(0, len(values), width)]


def _kind_name(topology: schema.Topology) -> str:
    return next(name for name, kind in schema.KINDS.items() if kind is type(topology))
