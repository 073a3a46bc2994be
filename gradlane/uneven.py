# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`make run JOB=abs_sgd`: four workers, two of them slowed down, train with synchronous SGD and then with ABS-SGD.

Both go over the running fabric and the bounded-loss transport, to the same accuracy. Shown is where the workers' time
went.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from gradlane.live import START_SECONDS, job_of
from topologies.errors import FailureError
from topologies.state import RunningFabric
from traffic.collectives.job import Op
from traffic.hosts import End, site_of
from traffic.live import share
from traffic.training.process import Spent, Told, WorkerSettings
from traffic.wire import DataType

SPEEDS = (1.0, 1.0, 0.5, 0.25)
"""Of the workers."""
SECONDS_PER_SAMPLE = 1e-3
"""At speed 1."""
TARGET, SECONDS = 0.88, 60.0
SILENCE_SECONDS = 30.0


@dataclass(frozen=True)
class Way:
    """A way to train, and its numbers."""

    title: str
    algorithm: str
    batch: int
    step: float


WAYS = (Way("synchronous SGD", "synchronous", 64, 0.35), Way("ABS-SGD", "abs_sgd", 8, 0.25))


@dataclass(frozen=True)
class Trained:
    """How a training went."""

    way: Way
    told: list[Told]
    spent: list[Spent]

    @property
    def reached(self) -> bool:
        """Whether it came to the target."""
        return self.told[-1].accuracy >= TARGET

    @property
    def lost(self) -> float:
        """Share of the values sent that never arrived."""
        return sum(each.lost_values for each in self.spent) / max(sum(each.sent_values for each in self.spent), 1)

    def waiting(self, rank: int) -> float:
        """Return the share of a worker's time in which it waited."""
        return self.spent[rank].waited / self.spent[rank].seconds

    def as_dict(self) -> dict[str, object]:
        """Return it for a results file."""
        return {
            "algorithm": self.way.algorithm,
            "batch": self.way.batch,
            "step_size": self.way.step,
            "seconds": round(self.told[-1].seconds, 3),
            "reached": self.reached,
            "accuracy": self.told[-1].accuracy,
            "curve": [asdict(told) for told in self.told],
            "workers": [asdict(spent) for spent in self.spent],
        }


def train(
    running: RunningFabric,
    workers: tuple[str, ...],
    server: str,
    way: Way,
    check: Callable[[], None] = lambda: None,
    *,
    target: float = TARGET,
    seconds: float = SECONDS,
) -> Trained:
    """Train one way to the target, or for `seconds`. Raises FailureError; ends every process that it started."""
    job = replace(job_of(running, workers, server), op=Op.SUM, wire=DataType.FLOAT32, eager=False)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gradlane-uneven-")))
        share("mnist", folder)
        file = folder / "job.json"
        job.save(file)
        module = "traffic.collectives.server"
        serving = stack.enter_context(End(f"server in {server}", site_of(running, server), module, str(file)))
        serving.expect_line(START_SECONDS, check)
        ends = []
        for rank, name in enumerate(workers):
            slow = SECONDS_PER_SAMPLE / SPEEDS[rank % len(SPEEDS)]
            settings = WorkerSettings(
                str(file), rank, str(folder), way.algorithm, way.batch, way.step, slow, seconds, target
            )
            arguments = "traffic.training.process", json.dumps(asdict(settings))
            ends.append(stack.enter_context(End(f"worker in {name}", site_of(running, name), *arguments)))
        told: list[Told] = []
        while "accuracy" in (line := json.loads(ends[0].expect_line(START_SECONDS, check))):
            told.append(Told(**line))
        if not told:
            raise FailureError("the training ended before it began")
        spent = [line, *(json.loads(end.expect_line(START_SECONDS, check)) for end in ends[1:])]
        return Trained(way, told, [Spent(**each) for each in spent])


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
        found.append(train(running, workers, server, way, check))
        console.print(f"  {way.title}: {found[-1].told[-1].accuracy:.1%} after {found[-1].told[-1].seconds:.1f} s")
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
        shares = (f"{trained.waiting(rank):.0%}" for trained in found)
        shown.add_row(name, f"{SPEEDS[rank % len(SPEEDS)]:g}", *shares, end_section=rank == len(workers) - 1)
    rows: dict[str, Callable[[Trained], str]] = {
        f"seconds to {TARGET:.0%}": lambda t: f"{t.told[-1].seconds:.1f}" if t.reached else "not reached",
        "updates": lambda t: f"{t.spent[0].updates}",
        "samples a second": lambda t: f"{sum(s.samples for s in t.spent) / t.spent[0].seconds:.0f}",
        "values lost": lambda t: f"{t.lost:.1%}",
    }
    for title, text in rows.items():
        shown.add_row(title, "", *(text(trained) for trained in found))
    return shown
