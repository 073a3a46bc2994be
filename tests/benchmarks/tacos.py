# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How fast and how good schedules are synthesised: the table of docs/tacos.md, into build/bench/tacos.json.

`seconds` are CPU seconds of the engine, all threads together, the median of up to REPEATS runs; of more than one thread
wall seconds, since that is what the threads are for. Compilation and verification are left out and timed apart; the
verifier plays every schedule. Each row runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from traffic.collectives.tacos import compiled
from traffic.collectives.tacos.bounds import bounds
from traffic.collectives.tacos.cycles import synthesise_around
from traffic.collectives.tacos.matching import spread, stream
from traffic.collectives.tacos.network import GIB, Dimension, Index, Network, mesh, product_of, torus
from traffic.collectives.tacos.schedule import TICK, Collective, Demand, demand, ticks
from traffic.collectives.tacos.symmetric import synthesise_symmetric
from traffic.collectives.tacos.synthesis import owners
from traffic.collectives.tacos.trees import synthesise_trees
from traffic.collectives.tacos.verify import Verifier, verify, verify_around, verify_translated

OUTPUT = Path("build/bench/tacos.json")
SIZE = 1e9
REPEATS, ENOUGH = 9, 2.0
"""Runs of an engine, and the CPU seconds after which there are no more."""
KEYS = (
    "topology",
    "npus",
    "collective",
    "chunks",
    "engine",
    "seconds",
    "time_us",
    "bound_us",
    "optimum_us",
    "verified",
    "peak_rss_mb",
)
Row = dict[str, Any]
Instants = Iterator[tuple[Index, Index, int]]
THREADS = 2


def heterogeneous(npus: int) -> Network:
    """Ring of 2 x full of 4 x switch, 200/100/50 GiB/s of each NPU, as TACOS (MICRO 2024) has it."""
    return product_of(
        [Dimension("ring", 2, 200 * GIB), Dimension("full", 4, 100 / 3 * GIB), Dimension("switch", npus // 8, 50 * GIB)]
    )


def timed(run: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a run returns, and the median of its CPU seconds; the first run warms up, if it is short."""
    seconds: list[float] = []
    while len(seconds) < REPEATS and sum(seconds) < ENOUGH:
        begin = time.process_time()
        found = run()
        seconds.append(time.process_time() - begin)
    return found, statistics.median(seconds[1:] or seconds)


def peak_megabytes() -> float:
    """Return the most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def row(
    network: Network, wanted: Demand, engine: str, seconds: float, end: float, sends: int, check: Callable[[], Any]
) -> Row:
    """Return a row for a schedule that ends after `end` seconds, once `check` finds no fault in it."""
    memory = peak_megabytes()
    begin = time.process_time()
    check()
    checked, checked_memory = time.process_time() - begin, peak_megabytes()
    limits = bounds(network, wanted)
    return {
        "topology": network.name,
        "npus": network.npus,
        "collective": wanted.collective.value,
        "chunks": wanted.chunks,
        "engine": engine,
        "seconds": seconds,
        "time_us": end * 1e6,
        "bound_us": limits.best * 1e6,
        "optimum_us": None if limits.optimum is None else limits.optimum * 1e6,
        "verified": True,
        "peak_rss_mb": memory,
        "verify_seconds": checked,
        "verify_rss_mb": checked_memory,
        "ns_per_send": seconds * 1e9 / sends,
        "gain": limits.halves / end if limits.halves else None,
    }


def symmetric(network: Network, collective: Collective, size: float, chunks: int, restarts: int) -> Row:
    wanted = demand(network, collective, size, chunks=chunks)
    compiled.symmetric()
    found, seconds = timed(lambda: synthesise_symmetric(network, wanted, restarts=restarts))
    return row(network, wanted, found.engine, seconds, found.seconds, found.sends, lambda: verify_translated(found))


def gather(network: Network) -> Row:
    wanted = demand(network, Collective.ALL_GATHER, SIZE)
    compiled.even()
    owner = owners(wanted)
    found, seconds = timed(lambda: spread(network, wanted, owner))
    return row(network, wanted, found.engine, seconds, found.seconds, len(found.chunk), lambda: verify(found))


def cycle(network: Network) -> Row:
    wanted = demand(network, Collective.ALL_GATHER, SIZE)
    compiled.cycles()
    found, seconds = timed(lambda: synthesise_around(network, wanted).expanded())
    return row(network, wanted, found.engine, seconds, found.seconds, len(found.chunk), lambda: verify(found))


def huge_cycle(network: Network) -> Row:
    """The engine for itself, all its steps, in wall seconds; then again under the eyes of the verifier of cycles."""
    wanted = demand(network, Collective.ALL_GATHER, SIZE)
    compiled.cycles()
    begin = time.perf_counter()
    found = synthesise_around(network, wanted)
    sends = end = 0
    for chunk, _, start in found.instants():
        sends += len(chunk)
        end = start
    seconds = time.perf_counter() - begin
    end += int(ticks(network, wanted.chunk_bytes)[0])

    def check() -> None:
        verdict = verify_around(found)
        assert (verdict.sends, verdict.end) == (sends, end)

    return row(network, wanted, found.engine, seconds, end * TICK, sends, check)


def huge(network: Network, engine: str, instants: Callable[[Network, Demand], Instants]) -> Row:
    """The engine for itself first, in wall seconds; then again with the verifier beside it, instant by instant."""
    wanted = demand(network, Collective.ALL_GATHER, SIZE)
    duration = ticks(network, wanted.chunk_bytes)
    compiled.even(), compiled.cycles()
    begin, sends, end = time.perf_counter(), 0, 0
    for chunk, _, start in instants(network, wanted):
        sends += len(chunk)
        end = start + int(duration[0])
    seconds = time.perf_counter() - begin

    def check() -> None:
        judge = Verifier(network, wanted)
        for chunk, link, start in instants(network, wanted):
            judge.play(chunk, link, np.full(len(link), start), start + duration[link])
        verdict = judge.finish()
        assert (verdict.sends, verdict.end) == (sends, end)

    return row(network, wanted, engine, seconds, end * TICK, sends, check)


def matched(network: Network, wanted: Demand) -> Instants:
    return stream(network, wanted, owners(wanted), threads=THREADS)


def circled(network: Network, wanted: Demand) -> Instants:
    return synthesise_around(network, wanted).instants()


def trees(network: Network) -> Row:
    wanted = demand(network, Collective.ALL_REDUCE, SIZE)
    compiled.trees(), compiled.player()
    found, seconds = timed(lambda: synthesise_trees(network, wanted, 1000))
    return row(network, wanted, found.engine, seconds, found.seconds, len(found.chunk), lambda: verify(found))


ROWS: dict[str, Callable[[], Row]] = {
    "128 heterogeneous, fast": lambda: symmetric(heterogeneous(128), Collective.ALL_REDUCE, GIB, 4, 1),
    "128 heterogeneous, good": lambda: symmetric(heterogeneous(128), Collective.ALL_REDUCE, GIB, 4, 24),
    "512 heterogeneous": lambda: symmetric(heterogeneous(512), Collective.ALL_REDUCE, GIB, 1, 1),
    "64 mesh": lambda: cycle(mesh(8, 8)),
    "1024 mesh": lambda: cycle(mesh(32, 32)),
    "4096 mesh": lambda: cycle(mesh(64, 64)),
    "40000 mesh": lambda: huge_cycle(mesh(200, 200)),
    "64 mesh, matching": lambda: gather(mesh(8, 8)),
    "1024 mesh, matching": lambda: gather(mesh(32, 32)),
    "4096 mesh, matching": lambda: gather(mesh(64, 64)),
    "39304 torus": lambda: symmetric(torus(34, 34, 34), Collective.ALL_REDUCE, SIZE, 1, 1),
    "4x4 mesh, trees": lambda: trees(mesh(4, 4)),
    "8x8 mesh, trees": lambda: trees(mesh(8, 8)),
    "4x4x4 grid, trees": lambda: trees(mesh(4, 4, 4)),
    "40000 mesh, send by send": lambda: huge(mesh(200, 200), "cycle", circled),
    "40000 mesh, matching": lambda: huge(mesh(200, 200), f"matching (greedy), {THREADS} threads", matched),
}
LONG = ("40000 mesh, send by send", "40000 mesh, matching")


def main() -> None:
    """Run the rows, each in a process of its own, print and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="rows whose name has this in it")
    parser.add_argument("--without", help="rows to leave out, by a part of the name")
    parser.add_argument("--long", action="store_true", help=f"also {' and '.join(LONG)}: a quarter of an hour")
    parser.add_argument("--row", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.row:
        sys.stdout.write(json.dumps({"row": chosen.row, **ROWS[chosen.row]()}))
        return
    rows = []
    for name in ROWS:
        if name in LONG and not chosen.long:
            continue
        if (chosen.only and chosen.only not in name) or (chosen.without and chosen.without in name):
            continue
        command = [sys.executable, "-m", "tests.benchmarks.tacos", "--row", name]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        rows.append(json.loads(done.stdout))
        shown = rows[-1]
        best = shown["optimum_us"] or shown["bound_us"]
        print(
            f"{name:24} {shown['engine']:30} {shown['seconds']:9.4f} s {shown['time_us']:10,.1f} us "
            f"{best / shown['time_us']:6.1%} of {'optimum' if shown['optimum_us'] else 'bound'} "
            f"{shown['ns_per_send']:8.1f} ns/send {shown['peak_rss_mb']:6,.0f} MB, verified in "
            f"{shown['verify_seconds']:.2f} s, {shown['verify_rss_mb']:,.0f} MB"
            + (f", {shown['gain']:.3f} x scatter + gather" if shown["gain"] else ""),
            flush=True,
        )
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    kept = [{key: one[key] for key in KEYS} for one in rows]
    OUTPUT.write_text(json.dumps({"machine": platform.processor() or platform.machine(), "rows": kept}, indent=1))


if __name__ == "__main__":
    main()
