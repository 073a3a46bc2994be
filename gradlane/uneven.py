# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`make run JOB=abs_sgd`: four workers, two of them slowed down, train with synchronous SGD and then with ABS-SGD.

Both go over the running fabric and the bounded-loss transport, to the same accuracy. Shown is where the workers' time
went.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gradlane.uneven_job import Trained, UnevenJob, Way
from topologies.state import RunningFabric

SPEEDS = (1.0, 1.0, 0.5, 0.25)
"""Of the workers."""
SECONDS_PER_SAMPLE = 1e-3
"""At speed 1."""
TARGET, SECONDS = 0.88, 60.0
WAYS = (
    Way("synchronous SGD", "synchronous", 64, 0.5),
    Way("ABS-SGD", "abs_sgd", 64, 0.35, compensation=0.75),
)


def train(
    running: RunningFabric,
    workers: tuple[str, ...],
    server: str,
    way: Way,
    check: Callable[[], None] = lambda: None,
    say: Callable[[str], None] = lambda text: None,
    *,
    target: float = TARGET,
    seconds: float = SECONDS,
) -> Trained:
    """Train one way to the target, or for `seconds`. Raises FailureError; ends every process that it started."""
    slowness = [SECONDS_PER_SAMPLE / SPEEDS[number % len(SPEEDS)] for number in range(len(workers))]
    with UnevenJob(running, workers, server, way, slowness, target=target, seconds=seconds) as job:
        return job.run(check, say)


def run(
    running: RunningFabric,
    workers: tuple[str, ...],
    server: str,
    check: Callable[[], None],
    console: Console,
    output: Path,
) -> list[Trained]:
    """Train both ways, show the difference, and write `abs_sgd.json`."""
    speeds = ", ".join(f"{name} {speed:g}" for name, speed in zip(workers, SPEEDS, strict=False))
    console.print(f"training to {TARGET:.0%} with workers of unequal speed: {speeds}; sums at {server}")
    found = []
    for way in WAYS:
        found.append(train(running, workers, server, way, check, lambda text: console.print(f"  {text}", markup=False)))
        console.print(f"  {way.title}: {found[-1].last.accuracy:.1%} after {found[-1].seconds:.1f} s")
    console.print(table(found, workers))
    output.mkdir(parents=True, exist_ok=True)
    file = output / "abs_sgd.json"
    file.write_text(json.dumps([trained.as_dict() for trained in found], indent=2) + "\n", encoding="utf-8")
    console.print(f"written: {file}")
    return found


def table(found: list[Trained], workers: tuple[str, ...]) -> Table:
    """Return where the workers' time went, one column for each way."""
    shown = Table(title="Waiting", title_justify="left")
    shown.add_column("worker")
    shown.add_column("speed", justify="right")
    for trained in found:
        shown.add_column(trained.way.title, justify="right")
    for rank, name in enumerate(workers):
        waited = [trained.waiting(rank) for trained in found]
        shares = ("lost" if share is None else f"{share:.0%}" for share in waited)
        shown.add_row(name, f"{SPEEDS[rank % len(SPEEDS)]:g}", *shares, end_section=rank == len(workers) - 1)
    rows: dict[str, Callable[[Trained], str]] = {
        f"seconds to {TARGET:.0%}": lambda t: f"{t.seconds:.1f}" if t.reached else "not reached",
        "updates": lambda t: f"{t.spent[0].updates}",
        "samples a second": lambda t: f"{t.samples_per_s:.0f}",
        "values lost": lambda t: f"{t.lost:.1%}",
    }
    for title, text in rows.items():
        shown.add_row(title, "", *(text(trained) for trained in found))
    return shown
