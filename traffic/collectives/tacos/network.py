# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The network that a collective is synthesised for: NPUs and directed links with latency and bandwidth."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components

from topologies.errors import UsageError

Index = npt.NDArray[np.uint32]
Real = npt.NDArray[np.float64]

GIB = 2.0**30
MOST_LINKS = 1 << 26


@dataclass(frozen=True)
class Ports:
    """What links share: link l occupies port[first[l] : first[l + 1]], of each one of its `slots`, while it sends."""

    first: Index
    port: Index
    slots: Index
    """How many links may occupy a port at once, shape (ports,)."""

    @property
    def count(self) -> int:
        """Number of ports."""
        return len(self.slots)

    def of(self, links: Index) -> Ports:
        """Return the ports of these links alone, in their order."""
        parts = [self.port[self.first[link] : self.first[link + 1]] for link in links.tolist()]
        counts = np.array([0, *map(len, parts)])
        flat = np.concatenate([*parts, np.zeros(0, np.uint32)]).astype(np.uint32)
        return Ports(np.cumsum(counts).astype(np.uint32), flat, self.slots)

    def serves(self, links: int) -> bool:
        """Tell whether every one of so many links is said to occupy ports that there are."""
        return (
            len(self.first) == links + 1
            and self.first[0] == 0
            and self.first[-1] == len(self.port)
            and bool((np.diff(self.first.astype(np.int64)) >= 0).all())
            and bool((self.port < self.count).all())
            and bool((self.slots > 0).all())
        )


@dataclass(frozen=True)
class Network:
    """Directed links between NPUs 0..npus-1, numbered by destination.

    `source`, `destination`: shape (links,). `latency`: seconds. `bandwidth`: bytes/s. A link carries one chunk at a
    time and is busy for latency + bytes / bandwidth, the cost model of TACOS (MICRO 2024, section 4).
    """

    name: str
    npus: int
    source: Index
    destination: Index
    latency: Real
    bandwidth: Real
    shape: tuple[int, ...] | None = None
    """Side lengths if translation along every axis maps the network onto itself (ring, torus, full, products)."""
    ports: Ports | None = None
    """Where links share network cards or cables; None: every link is by itself."""
    ways: tuple[str, ...] | None = None
    """Of a fabric: the nodes that each link leads through, such as `h1 leaf1 spine2 leaf2 h5`."""
    paths: Index | None = None
    """Of a fabric: what the gradient header's `path` says to keep each link to its way, 0: there is no other."""
    least_chunk: float = 0.0
    """Bytes below which a chunk is not worth a message of its own."""

    @property
    def links(self) -> int:
        """Number of directed links."""
        return len(self.source)

    def seconds(self, chunk_bytes: float) -> Real:
        """Return how long each link is busy with a chunk, shape (links,)."""
        return self.latency + chunk_bytes / self.bandwidth

    @cached_property
    def first_in(self) -> Index:
        """Links into NPU n are first_in[n] .. first_in[n + 1] - 1; shape (npus + 1,)."""
        return np.searchsorted(self.destination, np.arange(self.npus + 1)).astype(np.uint32)

    @cached_property
    def out_links(self) -> Index:
        """Link numbers sorted by source; shape (links,)."""
        return np.argsort(self.source, kind="stable").astype(np.uint32)

    @cached_property
    def first_out(self) -> Index:
        """Links out of NPU n are out_links[first_out[n] : first_out[n + 1]]; shape (npus + 1,)."""
        return np.searchsorted(self.source[self.out_links], np.arange(self.npus + 1)).astype(np.uint32)

    def out_rate(self, npu: int) -> float:
        """Return bytes/s that an NPU can send at best: over all its links, or through a port that all of them share."""
        links = self.out_links[self.first_out[npu] : self.first_out[npu + 1]].tolist()
        rate = float(self.bandwidth[links].sum())
        ports = self.occupied
        shared = set.intersection(*(set(ports.port[ports.first[at] : ports.first[at + 1]].tolist()) for at in links))
        fastest = float(self.bandwidth[links].max())
        return min([rate, *(float(ports.slots[port]) * fastest for port in shared)])

    def reversed(self) -> tuple[Network, Index]:
        """Return the network with every link turned round, and for each of its links the number it has here."""
        order = np.lexsort((self.destination, self.source)).astype(np.uint32)
        turned = Network(
            self.name,
            self.npus,
            self.destination[order],
            self.source[order],
            self.latency[order],
            self.bandwidth[order],
            self.shape,
            self.ports and self.ports.of(order),
            least_chunk=self.least_chunk,
        )
        return turned, order

    @cached_property
    def occupied(self) -> Ports:
        """The ports; where links share none, each is its own."""
        if self.ports is not None:
            return self.ports
        every = np.arange(self.links + 1, dtype=np.uint32)
        return Ports(every, every[:-1], np.ones(self.links, np.uint32))

    def without(self, failed: Iterable[tuple[int, int]]) -> Network:
        """Return the network less the links (source, destination) that failed. Raises UsageError for unknown ones."""
        gone = set(failed)
        pairs = list(zip(self.source.tolist(), self.destination.tolist(), strict=True))
        if unknown := gone - set(pairs):
            a, b = min(unknown)
            raise UsageError(f"{self.name}: no link {a} -> {b} that could fail")
        keep = np.array([i for i, pair in enumerate(pairs) if pair not in gone], np.uint32)
        return Network(
            self.name,
            self.npus,
            self.source[keep],
            self.destination[keep],
            self.latency[keep],
            self.bandwidth[keep],
            ports=self.ports and self.ports.of(keep),
            ways=self.ways and tuple(self.ways[i] for i in keep.tolist()),
            paths=None if self.paths is None else self.paths[keep],
            least_chunk=self.least_chunk,
        )


def from_arrays(
    name: str,
    npus: int,
    source: npt.ArrayLike,
    destination: npt.ArrayLike,
    latency: npt.ArrayLike,
    bandwidth: npt.ArrayLike,
    shape: tuple[int, ...] | None = None,
) -> Network:
    """Return a checked network from arrays of equal length. Raises UsageError naming the first bad link."""
    if npus > MOST_LINKS:
        raise UsageError(f"{name}: {npus:,} NPUs are too many")
    a, b = np.asarray(source, np.int64), np.asarray(destination, np.int64)
    wait, rate = np.asarray(latency, np.float64), np.asarray(bandwidth, np.float64)
    bad = (a < 0) | (b < 0) | (a >= npus) | (b >= npus) | (a == b) | ~(rate > 0) | ~(wait >= 0)
    bad |= ~np.isfinite(rate) | ~np.isfinite(wait)
    if bad.any():
        i = int(np.flatnonzero(bad)[0])
        raise UsageError(
            f"{name}: link {a[i]} -> {b[i]} with latency {wait[i]:g} s, bandwidth {rate[i]:g} B/s is not one"
        )
    order = np.lexsort((a, b))
    return Network(name, npus, a[order].astype(np.uint32), b[order].astype(np.uint32), wait[order], rate[order], shape)


def from_csv(path: Path) -> Network:
    """Read an edge list: a line a directed link: source, destination, bandwidth in GiB/s, latency in ns.

    A first line of names, empty lines and lines that begin with # are skipped. Raises UsageError with file and line.
    """
    rows: list[tuple[int, int, float, float]] = []
    try:
        with path.open(newline="") as file:
            for line, row in enumerate(csv.reader(file), 1):
                if not row or row[0].lstrip().startswith("#") or (not rows and row[0].strip().lower() == "source"):
                    continue
                try:
                    a, b, rate, wait = row
                    rows.append((int(a), int(b), float(wait) * 1e-9, float(rate) * GIB))
                except ValueError:
                    raise UsageError(
                        f"wants source, destination, bandwidth, latency; found {','.join(row)!r}", file=path, line=line
                    ) from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UsageError(f"cannot read: {error}", file=path) from None
    if not rows:
        raise UsageError("has no links", file=path)
    sources, destinations, waits, rates = zip(*rows, strict=True)
    named = {*sources, *destinations}
    npus = max(named) + 1
    if npus > len(named) and min(named) >= 0:
        lacks = next(npu for npu in range(npus) if npu not in named)
        raise UsageError(f"has NPU {npus - 1}, and no link of NPU {lacks}: numbers go from 0 on", file=path)
    return from_arrays(path.stem, npus, sources, destinations, waits, rates)


@dataclass(frozen=True)
class Dimension:
    """One axis of a product network: `kind` ring | full | switch | line, its size, and each link's cost."""

    kind: str
    size: int
    bandwidth: float
    """Bytes/s of one link; of a switch: of one NPU's port, split over `degree` links."""
    latency: float = 0.5e-6
    """Seconds."""
    degree: int = 1
    """Of a switch: to how many successors an NPU keeps a link (unwound, TACOS section 4.6)."""

    def pairs(self) -> list[tuple[int, int]]:
        """Return the directed pairs along this axis."""
        match self.kind:
            case "line":
                forward = list(pairwise(range(self.size)))
                return forward + [(b, a) for a, b in forward]
            case "ring":
                steps = {1, self.size - 1} if self.size > 1 else set()
            case "full":
                steps = set(range(1, self.size))
            case "switch":
                steps = set(range(1, min(self.degree, self.size - 1) + 1))
            case _:
                raise UsageError(f"a dimension is ring, full, switch or line, not {self.kind!r}")
        return [(i, (i + step) % self.size) for i in range(self.size) for step in sorted(steps)]

    @property
    def links_each(self) -> int:
        """Links out of an NPU along this axis, at most."""
        return {"full": self.size - 1, "switch": min(self.degree, self.size - 1)}.get(self.kind, 2)

    @property
    def link_bandwidth(self) -> float:
        """Bytes/s of one link along this axis."""
        return self.bandwidth / (min(self.degree, self.size - 1) if self.kind == "switch" else 1)


def product_of(dimensions: Sequence[Dimension], name: str | None = None) -> Network:
    """Return the product of axes, the first varying fastest. Raises UsageError for sizes below 1 or unknown kinds."""
    sizes = [axis.size for axis in dimensions]
    if not sizes or min(sizes) < 1:
        raise UsageError("every dimension needs a size of at least 1")
    if math.prod(sizes) * max(1, sum(axis.links_each for axis in dimensions)) > MOST_LINKS:
        raise UsageError(f"{math.prod(sizes):,} NPUs have more than {MOST_LINKS:,} links, which are too many")
    strides = np.cumprod([1, *sizes])
    npus = int(strides[-1])
    everyone = np.arange(npus)
    parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], Dimension]] = []
    for axis, stride in zip(dimensions, strides, strict=False):
        place = everyone // stride % axis.size
        for a, b in axis.pairs():
            start = everyone[place == a]
            parts.append((start, start + (b - a) * int(stride), axis))
    sources = np.concatenate([p[0] for p in parts]) if parts else np.zeros(0, np.int64)
    destinations = np.concatenate([p[1] for p in parts]) if parts else np.zeros(0, np.int64)
    latency = np.concatenate([np.full(len(p[0]), p[2].latency) for p in parts]) if parts else np.zeros(0)
    rate = np.concatenate([np.full(len(p[0]), p[2].link_bandwidth) for p in parts]) if parts else np.zeros(0)
    symmetric = all(axis.kind != "line" for axis in dimensions)
    label = name or "x".join(f"{axis.kind}{axis.size}" for axis in dimensions)
    return from_arrays(label, npus, sources, destinations, latency, rate, tuple(sizes) if symmetric else None)


def mesh(*sides: int, bandwidth: float = 50 * GIB, latency: float = 0.5e-6) -> Network:
    """Return a mesh: open lines along every axis."""
    return product_of(
        [Dimension("line", side, bandwidth, latency) for side in sides], f"mesh{'x'.join(map(str, sides))}"
    )


def torus(*sides: int, bandwidth: float = 50 * GIB, latency: float = 0.5e-6) -> Network:
    """Return a torus: rings along every axis (one axis: a bidirectional ring)."""
    return product_of(
        [Dimension("ring", side, bandwidth, latency) for side in sides], f"torus{'x'.join(map(str, sides))}"
    )


def hypercube(order: int, bandwidth: float = 50 * GIB, latency: float = 0.5e-6) -> Network:
    """Return the hypercube of 2**order NPUs."""
    return product_of([Dimension("full", 2, bandwidth, latency)] * order, f"hypercube{order}")


def unreachable(network: Network, sources: Sequence[int], destinations: Sequence[int]) -> tuple[int, int] | None:
    """Return the first pair (source, destination) that no path joins, or None."""
    graph = csr_matrix(
        (np.ones(network.links, np.int8), (network.source, network.destination)), shape=(network.npus, network.npus)
    )
    parts, part = connected_components(graph, connection="strong")
    if parts == 1:
        return None
    for a in sources:
        seen = np.zeros(network.npus, bool)
        seen[breadth_first_order(graph, a, return_predecessors=False)] = True
        for b in destinations:
            if not seen[b]:
                return a, b
    return None
