# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Networks by what a user types: `mesh:8x8`, `ring:2@200+full:4@33.3+switch:16@50`, an edge list, or a fabric."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np

import topologies
from topologies.errors import UsageError
from topologies.model import Fabric
from traffic.collectives.tacos.network import (
    GIB,
    Dimension,
    Index,
    Network,
    from_arrays,
    from_csv,
    hypercube,
    mesh,
    product_of,
    torus,
)

SHAPE = re.compile(r"(mesh|torus|hypercube):(\d+(?:x\d+)*)(?:@([\d.]+))?")
AXIS = re.compile(r"(ring|full|switch|line):(\d+)(?:@([\d.]+))?(?:/(\d+))?")
DEFAULT_GIB = 50.0
DEFAULT_RATE = 1e9 / 8
"""Bytes/s of a fabric's link that has no rate of its own."""


def network_of(text: str, latency: float = 0.5e-6) -> Network:
    """Return the network that a text names.

    `mesh:4x4`, `torus:3x3x3`, `hypercube:4`, each with @GiB/s of a link; axes `ring|full|line|switch:SIZE@GiB/s`
    joined by +, the first varying fastest, a switch with /DEGREE successors among which a port is divided; a CSV file
    of source, destination, GiB/s, ns; or a fabric's name or YAML file. Raises UsageError.
    """
    if found := SHAPE.fullmatch(text):
        sides = [int(side) for side in found[2].split("x")]
        rate = float(found[3] or DEFAULT_GIB) * GIB
        if min(sides) < 1:
            raise UsageError(f"{text}: every side is at least 1")
        match found[1]:
            case "mesh":
                return mesh(*sides, bandwidth=rate, latency=latency)
            case "torus":
                return torus(*sides, bandwidth=rate, latency=latency)
            case _:
                return hypercube(sides[0], rate, latency)
    axes = [AXIS.fullmatch(part) for part in text.split("+")]
    if all(axes):
        return product_of(
            [
                Dimension(a[1], int(a[2]), float(a[3] or DEFAULT_GIB) * GIB, latency, int(a[4] or 1))
                for a in axes
                if a is not None
            ]
        )
    if text.endswith(".csv"):
        return from_csv(Path(text))
    return from_fabric(topologies.load(text))


def from_fabric(fabric: Fabric) -> Network:
    """Return a fabric's hosts as NPUs: a link for every two whose way leads past no other host's switch.

    Hosts are numbered as in the fabric. A link is as fast as the slowest cable on its way and as late as all of them
    together. Cables that could not carry all the links over them at once are ports, which links occupy in turn;
    several equally short ways are dealt out in turn to the pairs.
    """
    import networkx  # here, since it takes a third of a second

    graph = fabric.graph()
    homes = {host.switch for host in fabric.hosts}
    rows: list[tuple[int, int, float, float, list[tuple[str, str]]]] = []
    for i, a in enumerate(fabric.hosts):
        for j, b in enumerate(fabric.hosts):
            if i == j:
                continue
            ways = sorted(networkx.all_shortest_paths(graph, a.name, b.name))
            ways = [way for way in ways if not homes.intersection(way[2:-2])]
            if not ways:
                continue
            way = ways[(i + j) % len(ways)]
            hops = list(pairwise(way))
            rates = [(fabric.link(x, y).rate_from(x) or 8 * DEFAULT_RATE) / 8 for x, y in hops]
            rows.append((i, j, sum(fabric.link(x, y).delay_ns for x, y in hops) * 1e-9, min(rates), hops))
    rows.sort(key=lambda row: (row[1], row[0]))
    load: dict[tuple[str, str], float] = {}
    for *_, rate, hops in rows:
        for hop in hops:
            load[hop] = load.get(hop, 0.0) + rate
    narrow = [hop for hop in load if load[hop] > (fabric.link(*hop).rate_from(hop[0]) or 8 * DEFAULT_RATE) / 8 * 1.001]
    number = {hop: len(rows) + i for i, hop in enumerate(narrow)}
    occupied = [[link, *(number[hop] for hop in row[4] if hop in number)] for link, row in enumerate(rows)]
    network = from_arrays(fabric.name, len(fabric.hosts), *zip(*(row[:4] for row in rows), strict=True))
    if not narrow:
        return network
    first: Index = np.cumsum([0, *map(len, occupied)]).astype(np.uint32)
    ports = first, np.concatenate(occupied).astype(np.uint32)
    columns = (network.source, network.destination, network.latency, network.bandwidth)
    return Network(network.name, network.npus, *columns, ports=ports)
