# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Networks by what a user types: `mesh:8x8`, `ring:2@200+full:4@33.3+switch:16@50`, an edge list, or a fabric."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

import topologies
from topologies.errors import UsageError
from topologies.model import Fabric
from topologies.routes import next_hops
from traffic.collectives.tacos.network import (
    GIB,
    Dimension,
    Index,
    Network,
    Ports,
    from_arrays,
    from_csv,
    hypercube,
    mesh,
    product_of,
    torus,
)
from traffic.wire import FRAME_OVERHEAD, GRADIENT_BYTES, IPV4_VALUES

RATE = r"(?:@(\d+(?:\.\d*)?|\.\d+))?"
COUNT = r"\d{1,18}"
SHAPE = re.compile(rf"(mesh|torus|hypercube):({COUNT}(?:x{COUNT})*){RATE}")
AXIS = re.compile(rf"(ring|full|switch|line):({COUNT}){RATE}(?:/({COUNT}))?")
FRAME_BYTES = FRAME_OVERHEAD[4] + GRADIENT_BYTES + 4 * IPV4_VALUES
"""Of a full packet."""
LEAST_PACKETS = 64
"""Of a chunk: each is a message, which costs two hosts about a millisecond of Python (measured: 247 chunks of 8 packets
took twenty times what their links need)."""
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
                if len(sides) > 1:
                    raise UsageError(f"{text}: a hypercube has one number, of its dimensions")
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
    """Return a fabric's hosts as NPUs: a link for every way between two that leads past no other host's switch.

    Hosts are numbered as in the fabric. A link is as fast as the slowest cable on its way and as late as all of them
    together, each of which carries a packet before the next one does. Cables that could not carry at once all the links
    over them are ports, with as many slots as fastest links they carry. Of several shortest ways each is a link, kept
    to by the number that the controller gives it.
    """
    import networkx  # here, since it takes a third of a second

    graph = fabric.graph()
    homes = {host.switch for host in fabric.hosts}
    begins = next_hops(fabric)
    rows: list[tuple[int, int, float, float]] = []
    ways: list[tuple[str, ...]] = []
    paths: list[int] = []
    for j, b in enumerate(fabric.hosts):
        for i, a in enumerate(fabric.hosts):
            if i == j:
                continue
            for way in sorted(networkx.all_shortest_paths(graph, a.name, b.name)):
                if homes.intersection(way[2:-2]):
                    continue
                hops = list(pairwise(way))
                packet = [FRAME_BYTES / _rate(fabric, hop) for hop in hops]  # stored and forwarded by every switch
                wait = sum(fabric.link(x, y).delay_ns for x, y in hops) * 1e-9 + sum(packet) - max(packet)
                rows.append((i, j, wait, min(_rate(fabric, hop) for hop in hops)))
                choices = begins[way[1]][b.name]
                number = choices.index(fabric.port_of(way[1], way[2])) + 1
                paths.append(number if len(choices) > 1 else 0)
                ways.append(tuple(way))
    network = from_arrays(fabric.name, len(fabric.hosts), *zip(*rows, strict=True))  # which is in this order
    over: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for link, way in enumerate(ways):
        for hop in pairwise(way):
            over[hop].append(link)
    slots = [1] * network.links
    occupied = [[link] for link in range(network.links)]
    for hop, links in over.items():
        fastest, own = max(rows[link][3] for link in links), _rate(fabric, hop)
        if sum(rows[link][3] for link in links) > own * 1.001:
            for link in links:
                occupied[link].append(len(slots))
            slots.append(max(1, int(own / fastest * 1.001)))
    ports = None
    if len(slots) > network.links:
        first: Index = np.cumsum([0, *map(len, occupied)]).astype(np.uint32)
        ports = Ports(first, np.concatenate(occupied).astype(np.uint32), np.array(slots, np.uint32))
    return replace(
        network,
        ports=ports,
        ways=tuple(" ".join(way) for way in ways),
        paths=np.array(paths, np.uint32),
        least_chunk=LEAST_PACKETS * FRAME_BYTES,
    )


def _rate(fabric: Fabric, hop: tuple[str, str]) -> float:
    """Return bytes/s from the first node of a hop to the second."""
    return (fabric.link(*hop).rate_from(hop[0]) or 8 * DEFAULT_RATE) / 8
