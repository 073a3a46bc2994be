# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a fabric is: hosts, switches and links, with their rates, queues and addresses, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from topologies import addresses
from topologies.errors import UsageError

if TYPE_CHECKING:
    import networkx

QUEUES = 8
MAX_PORTS = 63  # dense port indices are 0..62; 63 stands for "no port of the fabric" in the pipeline
MAX_INTERFACE_NAME = 15  # IFNAMSIZ - 1
DEFAULT_MTU = 1500
DEFAULT_FIRST_GRPC_PORT = 50051


@dataclass(frozen=True)
class QueueDepth:
    """How much one queue holds: packets, and bytes (0: packets alone decide)."""

    packets: int = 256
    bytes: int = 0


DEFAULT_QUEUES = (QueueDepth(),) * QUEUES


@dataclass(frozen=True)
class Endpoint:
    """One end of a link. A switch's ports count from 1; a host has the single port 0."""

    node: str
    port: int


@dataclass(frozen=True)
class Link:
    """A cable between `a` and `b`; `a` is the switch of a host's link, and the lower switch of a fabric link.

    `rate_bps` and `queues` hold for the direction a -> b (they are the egress of `a`), the `reverse_` ones for
    b -> a. A rate of None is unlimited. `delay_ns` is the one-way propagation delay of each direction.
    """

    a: Endpoint
    b: Endpoint
    rate_bps: int | None = None
    reverse_rate_bps: int | None = None
    delay_ns: int = 0
    queues: tuple[QueueDepth, ...] = DEFAULT_QUEUES
    reverse_queues: tuple[QueueDepth, ...] = DEFAULT_QUEUES

    @property
    def ends(self) -> frozenset[str]:
        """The two nodes: what tells this link from every other, since no two links join the same pair."""
        return frozenset((self.a.node, self.b.node))

    @property
    def name(self) -> str:
        """The link as people name it: `leaf1-spine2`."""
        return f"{self.a.node}-{self.b.node}"

    def end(self, node: str) -> Endpoint:
        """Return this link's end at `node`."""
        return self.a if self.a.node == node else self.b

    def other(self, node: str) -> Endpoint:
        """Return this link's end away from `node`."""
        return self.b if self.a.node == node else self.a

    def rate_from(self, node: str) -> int | None:
        """Return the rate in bit/s at which `node` sends into this link; None is unlimited."""
        return self.rate_bps if self.a.node == node else self.reverse_rate_bps

    def queues_from(self, node: str) -> tuple[QueueDepth, ...]:
        """Return the eight queues with which `node` sends into this link."""
        return self.queues if self.a.node == node else self.reverse_queues


@dataclass(frozen=True)
class Host:
    """A machine at the edge, behind one switch."""

    name: str
    switch: str
    mac: str
    ipv4: str
    ipv6: str


@dataclass(frozen=True)
class Switch:
    """A switch: `role` is leaf, spine, edge, aggregation, core or switch."""

    name: str
    device_id: int
    role: str
    grpc_port: int

    @property
    def grpc_address(self) -> str:
        """Where its P4Runtime server listens."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def mac(self) -> str:
        """The MAC address with which it routes, and answers for its hosts' gateways."""
        return addresses.gateway_mac_of(self.device_id)


@dataclass(frozen=True)
class Port:
    """One port of a switch, with all that its egress needs."""

    switch: str
    number: int
    interface: str
    peer: Endpoint
    faces_host: bool
    rate_bps: int | None
    delay_ns: int
    queues: tuple[QueueDepth, ...]

    @property
    def index(self) -> int:
        """The dense port index of the pipeline, 0..62."""
        return self.number - 1


@dataclass(frozen=True)
class Fabric:
    """A whole fabric. Build one with `topologies.load` or `topologies.builders`.

    `interface_prefix` is empty for the fabric that a user runs; a fabric that runs beside it has a short prefix
    of its own (`Fabric.instance`).
    """

    name: str
    kind: str
    hosts: tuple[Host, ...]
    switches: tuple[Switch, ...]
    links: tuple[Link, ...]
    mtu: int = DEFAULT_MTU
    interface_prefix: str = ""
    description: str = field(default="", compare=False)

    def host(self, name: str) -> Host:
        """Return the host called `name`; UsageError if there is none."""
        try:
            return self._hosts[name]
        except KeyError:
            raise UsageError(f"fabric {self.name} has no host {name!r}; it has {_listed(self._hosts)}") from None

    def switch(self, name: str) -> Switch:
        """Return the switch called `name`; UsageError if there is none."""
        try:
            return self._switches[name]
        except KeyError:
            raise UsageError(f"fabric {self.name} has no switch {name!r}; it has {_listed(self._switches)}") from None

    def hosts_of(self, switch: str) -> tuple[Host, ...]:
        """Return the hosts behind `switch`, in port order."""
        return tuple(self._hosts[port.peer.node] for port in self.ports(switch) if port.faces_host)

    def is_host(self, node: str) -> bool:
        """Tell whether `node` is a host of this fabric."""
        return node in self._hosts

    def link(self, a: str, b: str) -> Link:
        """Return the link between two nodes, named in either order; UsageError if there is none."""
        try:
            return self._links[frozenset((a, b))]
        except KeyError:
            raise UsageError(f"fabric {self.name} has no link between {a!r} and {b!r}") from None

    def links_of(self, node: str) -> tuple[Link, ...]:
        """Return the links of a node in port order."""
        return self._links_of[node]

    def ports(self, switch: str) -> tuple[Port, ...]:
        """Return the ports of a switch, in order."""
        self.switch(switch)
        return self._ports[switch]

    def port(self, switch: str, number: int) -> Port:
        """Return one port of a switch; UsageError if it has none of that number."""
        ports = self.ports(switch)
        if not 1 <= number <= len(ports):
            raise UsageError(f"switch {switch} has no port {number}; its ports are 1..{len(ports)}")
        return ports[number - 1]

    def port_of(self, node: str, neighbour: str) -> int:
        """Return the port of `node` that faces `neighbour`."""
        return self.link(node, neighbour).end(node).port

    def neighbours(self, node: str) -> tuple[str, ...]:
        """Return the nodes that `node` is cabled to, in port order."""
        return tuple(link.other(node).node for link in self._links_of[node])

    def interface(self, node: str, port: int) -> str:
        """Return the name of the interface that is `port` of `node`.

        A host's stands in its own namespace and needs no prefix. With a prefix, a switch goes by its device id, so
        that any fabric's names stay within the kernel's 15 characters.
        """
        if node in self._hosts or not self.interface_prefix:
            return f"{node}-eth{port}"
        return f"{self.interface_prefix}{self._switches[node].device_id}-eth{port}"

    def instance(self, prefix: str, first_grpc_port: int) -> Fabric:
        """Return the same fabric under other interface names and gRPC ports, to run beside another."""
        switches = tuple(
            replace(switch, grpc_port=first_grpc_port + number) for number, switch in enumerate(self.switches)
        )
        return replace(self, interface_prefix=prefix, switches=switches)

    def graph(self) -> networkx.Graph:
        """Return the fabric as a networkx graph: nodes carry `role`, edges carry `link`."""
        import networkx  # here, since it takes a third of a second and few callers need it

        graph = networkx.Graph(name=self.name)
        for switch in self.switches:
            graph.add_node(switch.name, role=switch.role)
        for host in self.hosts:
            graph.add_node(host.name, role="host")
        for link in self.links:
            graph.add_edge(link.a.node, link.b.node, link=link)
        return graph

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` reads them back."""
        return {
            "name": self.name,
            "kind": self.kind,
            "description": self.description,
            "mtu": self.mtu,
            "interface_prefix": self.interface_prefix,
            "hosts": [vars(host) for host in self.hosts],
            "switches": [
                {"name": s.name, "device_id": s.device_id, "role": s.role, "grpc_port": s.grpc_port}
                for s in self.switches
            ],
            "links": [_link_as_dict(link) for link in self.links],
        }

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Fabric:
        """Read back what `as_dict` gave. Raises KeyError, TypeError or ValueError on anything else."""
        return Fabric(
            name=values["name"],
            kind=values["kind"],
            hosts=tuple(Host(**host) for host in values["hosts"]),
            switches=tuple(Switch(**switch) for switch in values["switches"]),
            links=tuple(_link_from_dict(link) for link in values["links"]),
            mtu=values["mtu"],
            interface_prefix=values["interface_prefix"],
            description=values["description"],
        )

    @cached_property
    def _hosts(self) -> dict[str, Host]:
        return {host.name: host for host in self.hosts}

    @cached_property
    def _switches(self) -> dict[str, Switch]:
        return {switch.name: switch for switch in self.switches}

    @cached_property
    def _links(self) -> dict[frozenset[str], Link]:
        return {link.ends: link for link in self.links}

    @cached_property
    def _links_of(self) -> dict[str, tuple[Link, ...]]:
        found: dict[str, list[Link]] = {node: [] for node in (*self._switches, *self._hosts)}
        for link in self.links:
            found[link.a.node].append(link)
            found[link.b.node].append(link)
        return {node: tuple(sorted(links, key=lambda link: link.end(node).port)) for node, links in found.items()}

    @cached_property
    def _ports(self) -> dict[str, tuple[Port, ...]]:
        return {name: tuple(self._port(name, link) for link in self._links_of[name]) for name in self._switches}

    def _port(self, switch: str, link: Link) -> Port:
        number = link.end(switch).port
        peer = link.other(switch)
        return Port(
            switch=switch,
            number=number,
            interface=self.interface(switch, number),
            peer=peer,
            faces_host=peer.node in self._hosts,
            rate_bps=link.rate_from(switch),
            delay_ns=link.delay_ns,
            queues=link.queues_from(switch),
        )


def _listed(names: Mapping[str, object]) -> str:
    shown = list(names)
    return ", ".join(shown) if len(shown) <= 12 else f"{shown[0]} .. {shown[-1]}"


def _link_as_dict(link: Link) -> dict[str, Any]:
    return {
        "a": [link.a.node, link.a.port],
        "b": [link.b.node, link.b.port],
        "rate_bps": link.rate_bps,
        "reverse_rate_bps": link.reverse_rate_bps,
        "delay_ns": link.delay_ns,
        "queues": [[queue.packets, queue.bytes] for queue in link.queues],
        "reverse_queues": [[queue.packets, queue.bytes] for queue in link.reverse_queues],
    }


def _link_from_dict(values: Mapping[str, Any]) -> Link:
    return Link(
        a=Endpoint(*values["a"]),
        b=Endpoint(*values["b"]),
        rate_bps=values["rate_bps"],
        reverse_rate_bps=values["reverse_rate_bps"],
        delay_ns=values["delay_ns"],
        queues=tuple(QueueDepth(*queue) for queue in values["queues"]),
        reverse_queues=tuple(QueueDepth(*queue) for queue in values["reverse_queues"]),
    )
