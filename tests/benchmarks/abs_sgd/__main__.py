# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`make bench BENCH=abs_sgd`: ABS-SGD against its baselines, tuned, in virtual time: build/bench/abs_sgd.json and .png.

FULL=1 measures every cluster at every ratio of T_sync/T_compute, 16 workers, and the residual network. Runs are kept in
build/bench/abs_sgd.runs.jsonl; an interrupted study goes on where it was. `--fabric` measures over the fabric instead,
in real time and as root, and adds that to the same results.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.benchmarks.abs_sgd import picture, study
from tests.benchmarks.abs_sgd.runs import Runs
from tests.benchmarks.abs_sgd.study import Row, Speedup

OUTPUT = Path("build/bench/abs_sgd.json")
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def main(arguments: list[str] | None = None) -> int:
    """Run the study and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.abs_sgd", description=__doc__)
    parser.add_argument("--full", action="store_true", default=os.environ.get("FULL") == "1")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="that compute at once")
    parser.add_argument("--fabric", action="store_true", help="measure over the congested fabric")
    parser.add_argument("--pairs", type=int, default=3, help="with --fabric: how often the two take turns")
    options = parser.parse_args(arguments)
    console = Console(highlight=False)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    for variable in ONE_THREAD:
        os.environ[variable] = "1"  # of every process of the pool: there is one for each processor
    runs = Runs(options.output.with_suffix(".runs.jsonl"))
    before = json.loads(options.output.read_text()) if options.output.exists() else {}
    if options.fabric:
        return _fabric(runs, before, options, console)
    rows: list[Row] = []
    speedups: list[Speedup] = []
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        measuring = [pool.submit(study.measure_setting, runs.path, each) for each in study.settings(options.full)]
        for future in measuring:
            found = future.result()
            for comparison in study.COMPARISONS:
                rows += (mine := [row for row in found.rows if row.comparison == comparison])
                speedups.append(study.speedup(mine))
                console.print(_table(mine, speedups[-1]))
            console.print(f"{found.made} runs, {found.seconds:.0f} s of a processor\n")
            _write({**before, **study.summary(rows, speedups)}, options.output)
            picture.draw(rows, speedups, options.output.with_suffix(".png"))
    console.print(f"written: {options.output}, {options.output.with_suffix('.png')}")
    return 0


def _fabric(runs: Runs, before: dict[str, Any], options: argparse.Namespace, console: Console) -> int:
    from tests.benchmarks.abs_sgd import fabric  # it needs Mininet

    drawn = options.output.with_suffix(".fabric.png")

    def keep(found: dict[str, Any]) -> None:
        _write({**before, "fabric": found}, options.output)
        fabric.draw(found, drawn)
        speedup = found["speedup"]
        console.print(f"speedup: {speedup['median']}x ({speedup['least']} to {speedup['most']})")

    fabric.run(runs, console, options.output.parent, keep, pairs=options.pairs, every=options.full)
    console.print(f"written: {options.output}, {drawn}")
    return 0


def _write(result: dict[str, Any], path: Path) -> None:
    path.write_text(json.dumps(result, indent=2) + "\n")


def _table(rows: list[Row], speedup: Speedup) -> Table:
    setting = rows[0].setting
    table = Table(
        title=f"{setting.model}, {setting.workers} workers, {setting.cluster}, T_sync/T_compute {setting.ratio:g}"
        f"{' by the transport model' if setting.modelled else ''}, "
        f"{rows[0].comparison}: {speedup.value:.2f}x (±{speedup.ci95:.2f}) over {speedup.baseline.family}, "
        f"{speedup.frozen:.2f}x at frozen weights",
        title_justify="left",
    )
    columns = ("algorithm", "step", "batch", "micro", "seconds to target", "95 %", "samples/s", "samples/update")
    for column in (*columns, "waiting"):
        table.add_column(column, justify="left" if column == "algorithm" else "right")
    for row in rows:
        made = row.as_dict()
        scaling = "" if made["scaling"] == "constant" else f" {made['scaling']}"
        table.add_row(
            row.family,
            f"{row.tuned.step:.3g}{scaling}" + ("" if row.tuned.interior else " !"),
            str(made["batch_per_worker"] or ""),
            str(made["micro_batch"] or ""),
            "not reached" if made["tta"]["mean"] is None else f"{made['tta']['mean']:.1f}",
            "" if made["tta"]["ci95"] is None else f"±{made['tta']['ci95']:.1f}",
            f"{made['samples_per_s']:.0f}",
            f"{made['samples_per_update']:.0f}",
            f"{made['waiting']:.0%}",
        )
    return table


if __name__ == "__main__":
    sys.exit(main())
