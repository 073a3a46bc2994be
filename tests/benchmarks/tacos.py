# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How fast and how good schedules are synthesised: the table of docs/tacos.md, into build/bench/tacos.json.

Engine seconds are CPU seconds of all threads (of two threads: wall seconds in `wall_seconds`); the verifier is on and
timed apart. Each row runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from traffic.collectives.tacos import compiled
from traffic.collectives.tacos.bounds import bounds
from traffic.collectives.tacos.matching import Rule, spread, stream
from traffic.collectives.tacos.network import GIB, Dimension, Network, mesh, product_of, torus
from traffic.collectives.tacos.schedule import TICK, Collective, demand, ticks
from traffic.collectives.tacos.symmetric import synthesise_symmetric
from traffic.collectives.tacos.synthesis import owners, synthesise
from traffic.collectives.tacos.trees import synthesise_trees
from traffic.collectives.tacos.verify import Verifier, verify, verify_translated

OUTPUT = Path("build/bench/tacos.json")
SIZE = 1e9
Row = dict[str, Any]


def heterogeneous(npus: int) -> Network:
    """Ring of 2 x full of 4 x switch, 200/100/50 GiB/s of each NPU, as TACOS (MICRO 2024) has it."""
    return product_of(
        [Dimension("ring", 2, 200 * GIB), Dimension("full", 4, 100 / 3 * GIB), Dimension("switch", npus // 8, 50 * GIB)]
    )


def clocks() -> tuple[float, float]:
    return time.process_time(), time.perf_counter()


def row(network: Network, wanted: Any, engine: str, begin: tuple[float, float], seconds: float, sends: int) -> Row:
    cpu, wall = (now - then for now, then in zip(clocks(), begin, strict=True))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        "topology": network.name,
        "npus": network.npus,
        "collective": wanted.collective.value,
        "chunks": wanted.chunks,
        "engine": engine,
        "seconds": cpu,
        "wall_seconds": wall,
        "time_us": seconds * 1e6,
        "sends": sends,
        "ns_per_send": cpu * 1e9 / sends,
        "peak_rss_mb": memory,
    }


def finished(result: Row, network: Network, wanted: Any, check: Callable[[], Any]) -> Row:
    limits = bounds(network, wanted)
    begin = time.process_time()
    check()
    return {
        **result,
        "verified": True,
        "verify_seconds": time.process_time() - begin,
        "bound_us": limits.best * 1e6,
        "optimum_us": None if limits.cut is None else limits.cut * 1e6,
        "scatter_gather_bound_us": None if limits.halves is None else limits.halves * 1e6,
    }


def symmetric(network: Network, collective: Collective, size: float, chunks: int, restarts: int) -> Row:
    wanted = demand(network, collective, size, chunks=chunks)
    compiled.symmetric()
    begin = clocks()
    found = synthesise_symmetric(network, wanted, restarts=restarts)
    result = row(network, wanted, found.engine, begin, found.seconds, found.sends)
    return finished(result, network, wanted, lambda: verify_translated(found))


def matching(network: Network, size: float, threads: int = 1) -> Row:
    wanted = demand(network, Collective.ALL_GATHER, size)
    compiled.match()
    owner = owners(wanted)
    begin = clocks()
    found = spread(network, wanted, owner, rule=Rule.GREEDY, threads=threads)
    result = row(network, wanted, found.engine, begin, found.seconds, len(found.chunk))
    return finished(result, network, wanted, lambda: verify(found))


def huge(side: int, threads: int) -> Row:
    """The engine's own time first, for itself; then again with the verifier beside it, instant by instant."""
    network = mesh(side, side)
    wanted = demand(network, Collective.ALL_GATHER, SIZE)
    owner, duration = owners(wanted), ticks(network, wanted.chunk_bytes)
    compiled.match()
    begin, sends, end = clocks(), 0, 0
    for chunk, _, start in stream(network, wanted, owner, threads=threads):
        sends += len(chunk)
        end = start + int(duration[0]) if len(chunk) else end
    result = row(network, wanted, f"matching (greedy), {threads} threads", begin, end * TICK, sends)

    def check() -> None:
        judge = Verifier(network, wanted)
        for chunk, link, start in stream(network, wanted, owner, threads=threads):
            judge.play(chunk, link, np.full(len(link), start), start + duration[link])
        assert judge.finish().end == end

    return finished(result, network, wanted, check)


def trees(network: Network) -> Row:
    wanted = demand(network, Collective.ALL_REDUCE, SIZE)
    compiled.trees(), compiled.player()
    begin = clocks()
    found = synthesise_trees(network, wanted, 1000)
    result = row(network, wanted, found.engine, begin, found.seconds, len(found.chunk))
    return finished(result, network, wanted, lambda: verify(found))


def general(network: Network, collective: Collective) -> Row:
    wanted = demand(network, collective, GIB)
    compiled.match(), compiled.player(), compiled.verifier()
    begin = clocks()
    found = synthesise(network, wanted, engine="matching", restarts=1, check=False)
    result = row(network, wanted, found.engine, begin, found.seconds, len(found.chunk))
    return finished(result, network, wanted, lambda: verify(found))


ROWS: dict[str, Callable[[], Row]] = {
    "128 heterogeneous, fast": lambda: symmetric(heterogeneous(128), Collective.ALL_REDUCE, GIB, 4, 1),
    "128 heterogeneous, good": lambda: symmetric(heterogeneous(128), Collective.ALL_REDUCE, GIB, 4, 24),
    "128 heterogeneous, general engine": lambda: general(heterogeneous(128), Collective.ALL_REDUCE),
    "512 heterogeneous": lambda: symmetric(heterogeneous(512), Collective.ALL_REDUCE, GIB, 1, 1),
    "64 mesh": lambda: matching(mesh(8, 8), SIZE),
    "256 mesh": lambda: matching(mesh(16, 16), SIZE),
    "1024 mesh": lambda: matching(mesh(32, 32), SIZE),
    "4096 mesh": lambda: matching(mesh(64, 64), SIZE),
    "39304 torus": lambda: symmetric(torus(34, 34, 34), Collective.ALL_REDUCE, SIZE, 1, 1),
    "4x4 mesh, trees": lambda: trees(mesh(4, 4)),
    "8x8 mesh, trees": lambda: trees(mesh(8, 8)),
    "4x4x4 grid, trees": lambda: trees(mesh(4, 4, 4)),
    "40000 mesh": lambda: huge(200, 2),
}


def main() -> None:
    """Run the rows, each in a process of its own, print and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="rows whose name has this in it")
    parser.add_argument("--without", help="rows to leave out, by a part of the name")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.row:
        sys.stdout.write(json.dumps({"row": chosen.row, **ROWS[chosen.row]()}))
        return
    rows = []
    for name in ROWS:
        if (chosen.only and chosen.only not in name) or (chosen.without and chosen.without in name):
            continue
        command = [sys.executable, "-m", "tests.benchmarks.tacos", "--row", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout))
        shown = rows[-1]
        gain = shown["scatter_gather_bound_us"]
        print(
            f"{name:34} {shown['engine']:32} {shown['seconds']:9.4f} s  {shown['time_us']:12,.1f} us  "
            f"bound {shown['bound_us']:12,.1f}  {shown['ns_per_send']:6.1f} ns/send  {shown['peak_rss_mb']:6,.0f} MB"
            + (f"  {gain / shown['time_us']:.3f} x scatter+gather bound" if gain else ""),
            flush=True,
        )
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    OUTPUT.write_text(json.dumps({"machine": platform.processor() or platform.machine(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
