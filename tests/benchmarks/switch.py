# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Measure the embedded switch against forwarders that do nothing but move frames, and BMv2 where it is installed.

`make bench BENCH=switch` prints a table and writes build/bench/switch.json: rows (program, size, engine, pps, CPU
microseconds a packet, latency) and ratios. Every round measures every engine once, so that a busy moment of the
machine meets them alike; what is told is the median over rounds with minimum and maximum.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any

from softswitch.build import build, tables_library
from softswitch.native import engine
from softswitch.switch import Switch
from tests.benchmarks.bed import TESTER_CORE, Bed, Tester, Trial, device, highest_rate, spread, test_bed
from tests.benchmarks.native import bench, ffi
from tests.benchmarks.programs import PROGRAMS, Compiled, Filter, Program, Router

OUTPUT = Path("build/bench/switch.json")
ENGINES = ("raw", "raw:xdp", "softswitch")
DEFAULT_PROGRAMS = ("gradlane", "router", "filter")
START_PPS = {"bmv2": 8_000.0}  # where the first search begins; the later ones begin where the last one ended
MOST_START = 200_000.0
FAR, NEAR = 2.0, 1.2  # steps of a search that begins at a guess, and at a former result
GROWTH = (1, 10, 100, 1000, 10_000, 100_000)
GROWTH_BYTES = 64
LOAD = 0.7  # of the highest rate: where CPU time and latency are taken
# The highest trial and the loaded one of each round, by program, size and engine.
Found = dict[tuple[str, int, str], list[tuple[Trial, Trial]]]


def measure(
    tester: Tester, bed: Bed, engine: str, program: Program, sizes: Sequence[int], seconds: float, found: Found
) -> None:
    """Add, for each size, the trial at the highest rate and one at 70 % of it, all on one start of the device."""
    with device(bed, engine, program) as pid:
        for size in sizes:
            pairs = found[program.name, size, engine]
            start, step = (pairs[-1][0].offered_pps, NEAR) if pairs else (START_PPS.get(engine, MOST_START), FAR)
            highest = highest_rate(tester, program, size, pid, start, step, seconds)
            loaded = tester.run(program, size, highest.offered_pps * LOAD, seconds, pid)
            pairs.append((highest, loaded))
            print(
                f"round {len(pairs)}: {program.name} {size} B {engine}: "
                f"{highest.offered_pps:,.0f} pps, {loaded.cpu_us:.2f} us",
                flush=True,
            )


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.25, help="of each trial")
    parser.add_argument(
        "--sizes", type=int, nargs="+", help="bytes of frames; by default what each program is made for"
    )
    parser.add_argument("--programs", nargs="+", default=DEFAULT_PROGRAMS, choices=list(PROGRAMS))
    parser.add_argument("--engines", nargs="*", default=list(ENGINES), help="none: only what is measured in process")
    parser.add_argument("--growth", type=int, nargs="*", default=GROWTH, help="entries of a table, in process")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args(arguments)
    if os.geteuid():
        print("the switch benchmark makes network namespaces: run it as root", file=sys.stderr)
        return 2
    joins = bool(options.engines) and "bmv2" not in options.engines and shutil.which("simple_switch_grpc")
    engines = options.engines + (["bmv2"] if joins else [])
    programs = [PROGRAMS[name] for name in options.programs if PROGRAMS[name].is_compiled]
    os.sched_setaffinity(0, {TESTER_CORE})
    found: Found = defaultdict(list)
    with test_bed() as bed:
        tester = Tester(bed)
        try:
            for _, program, engine in product(range(options.rounds), programs, engines):
                if engine == "bmv2" and program.name == "wire":
                    continue  # C by hand: there is nothing that BMv2 could run
                measure(tester, bed, engine, program, options.sizes or program.sizes, options.seconds, found)
        finally:
            tester.close()
    wanted = [(program, size) for program in programs for size in options.sizes or program.sizes]
    spent = pipeline_rounds(wanted, options.rounds)
    alone = {(program.name, size): values for (program, size), values in zip(wanted, spent, strict=True)}
    result = summary(found, alone)
    result["growth"] = growth(options.growth, options.rounds)
    result["compile"] = [compile_time(program) for program in programs if isinstance(program, Compiled)]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=1) + "\n")
    print_table(result)
    return 0


def compile_time(program: Compiled) -> dict[str, Any]:
    """Return the seconds from BMv2 JSON to a loadable library, in an empty cache and again in a filled one."""
    former = os.environ.get("GRADLANE_CACHE")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["GRADLANE_CACHE"] = cache
        try:
            tables_library()  # one for all programs
            times = [time.perf_counter()]
            for _ in range(2):
                build(program.json)
                times.append(time.perf_counter())
        finally:
            if former is None:
                del os.environ["GRADLANE_CACHE"]
            else:
                os.environ["GRADLANE_CACHE"] = former
    return {"program": program.name, "seconds": round(times[1] - times[0], 3), "cached": round(times[2] - times[1], 3)}


def pipeline_ns(program: Program, switch: Switch, size: int, packets: int) -> float:
    """Return the CPU nanoseconds that ingress, egress and deparser take for a packet, in process."""
    frames, left = program.frames(size), ffi().new("uint64_t *")
    compiled = engine().ss_switch_program(switch.handle)
    with switch.locked():
        spent = bench().pipeline_alone(compiled, switch.state, b"".join(frames), len(frames), size, 1, packets, left)
    if spent < 0 or left[0] < packets:
        raise SystemExit(f"{program.name}: {packets - left[0]} of {packets} packets of {size} bytes were dropped")
    return float(spent)


def pipeline_rounds(wanted: Sequence[tuple[Program, int]], rounds: int, packets: int = 500_000) -> list[list[float]]:
    """Return pipeline_ns of each program and frame size, round by round: a busy minute meets them alike."""
    values: list[list[float]] = [[] for _ in wanted]
    with ExitStack() as stack:
        switches = []
        for program, _ in wanted:
            switch = stack.enter_context(Switch())
            program.install(switch)
            switch.add_port(1)
            switch.add_port(2)
            switches.append(switch)
        for _ in range(rounds):
            for (program, size), switch, spent in zip(wanted, switches, values, strict=True):
                spent.append(pipeline_ns(program, switch, size, packets))
    return values


def growth(sizes: Sequence[int], rounds: int) -> list[dict[str, Any]]:
    """Return how long the pipeline alone takes by kind of match and number of entries."""
    kinds: dict[str, Callable[[int], Program]] = {
        "exact": lambda entries: Router(entries, "host"), "lpm": lambda entries: Router(entries), "ternary": Filter,
    }  # fmt: skip
    rows = []
    for kind, program in kinds.items():
        spent = pipeline_rounds([(program(entries), GROWTH_BYTES) for entries in sizes], rounds, packets=200_000)
        rows += [
            {"match": kind, "entries": entries, "ns": spread(values)}
            for entries, values in zip(sizes, spent, strict=True)
        ]
    return rows


def summary(found: Found, alone: dict[tuple[str, int], list[float]]) -> dict[str, Any]:
    """Return rows and ratios."""
    rows: list[dict[str, Any]] = [
        {
            "program": name,
            "size": size,
            "engine": name_of,
            "pps": spread([highest.offered_pps for highest, _ in pairs]),
            "cpu_us_per_packet": spread([loaded.cpu_us for _, loaded in pairs]),
            "latency_us": {
                "p50": spread([loaded.latency_p50 for _, loaded in pairs])["median"],
                "p99": spread([loaded.latency_p99 for _, loaded in pairs])["median"],
            },
        }
        for (name, size, name_of), pairs in found.items()
    ]
    rows += [
        {
            "program": name,
            "size": size,
            "engine": "pipeline",
            "pps": spread([1e9 / ns for ns in values]),
            "cpu_us_per_packet": spread([ns / 1000 for ns in values]),
            "latency_us": {"p50": 0.0, "p99": 0.0},
        }
        for (name, size), values in alone.items()
    ]
    ratios: dict[str, dict[str, float]] = {}
    for row in rows:
        for base in ("raw", "raw:xdp", "bmv2"):
            other = next(
                (r for r in rows if (r["program"], r["size"], r["engine"]) == (row["program"], row["size"], base)), None
            )
            if other and str(row["engine"]).startswith("softswitch"):
                key = f"{row['program']}.{row['size']}.{row['engine']}/{base}"
                ratios[key] = {
                    "pps": round(row["pps"]["median"] / other["pps"]["median"], 3),
                    "cpu": round(row["cpu_us_per_packet"]["median"] / other["cpu_us_per_packet"]["median"], 3),
                }
    return {"rows": rows, "ratios": ratios}


def print_table(result: dict[str, Any]) -> None:
    """Print rows and ratios."""
    print(f"{'program':10} {'bytes':>5} {'engine':18} {'pps (min..max)':>32} {'CPU us':>7} {'p50 us':>8} {'p99 us':>8}")
    for row in result["rows"]:
        pps = row["pps"]
        rate = f"{pps['median']:,.0f} ({pps['min']:,.0f}..{pps['max']:,.0f})"
        print(
            f"{row['program']:10} {row['size']:5} {row['engine']:18} {rate:>32} "
            f"{row['cpu_us_per_packet']['median']:7.2f} {row['latency_us']['p50']:8.1f} {row['latency_us']['p99']:8.1f}"
        )
    for row in result["compile"]:
        print(f"{row['program']:10} compiled in {row['seconds']:.2f} s, found in the cache in {row['cached']:.2f} s")
    for row in result["growth"]:
        print(f"{row['match']:8} {row['entries']:7} entries: {row['ns']['median']:6.0f} ns")
    for key, ratio in result["ratios"].items():
        print(f"{key}: {ratio['pps']:.2f} of its packets/s, {ratio['cpu']:.2f} of its CPU a packet")


if __name__ == "__main__":
    sys.exit(main())
