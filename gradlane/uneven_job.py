# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A training with workers of unequal speed in the hosts of a running fabric: a roster, and worker processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from gradlane.live import START_SECONDS, job_of
from topologies import processes
from topologies.errors import FailureError
from topologies.state import RunningFabric
from traffic.collectives.job import Op
from traffic.hosts import End, site_of
from traffic.live import share
from traffic.training.process import Spent, Told, WorkerSettings, network, values_of
from traffic.training.quota import Quota
from traffic.training.roster import PORT as ROSTER_PORT
from traffic.training.roster import RosterSettings
from traffic.transport.tolerance import Tolerance
from traffic.wire import DataType

SILENCE_SECONDS = 30.0
MEET_SECONDS = 15.0
"""How long workers may take to meet, once all have called the roster."""
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Way:
    """A way to train, and its numbers."""

    title: str
    algorithm: str
    batch: int
    step: float
    compensation: float = 0.0
    local: bool = False
    """Whether ABS-SGD's workers step by themselves, every `batch` samples."""
    transport: str = "gradlane"
    """"gradlane", the bounded-loss transport, or "tcp"."""
    tolerance: float = 0.2
    """Share of the values on their way to a sum that may be lost. Of the bounded-loss transport, as what follows."""
    left_out: float = 0.0
    """Share of a sum that workers do without."""
    wire: DataType = DataType.FLOAT32
    """How values travel."""


@dataclass(frozen=True)
class Trained:
    """How a training went."""

    way: Way
    told: list[Told]
    spent: list[Spent]
    """Of the workers that came to the end, by number."""
    events: list[dict[str, Any]]
    """Who died or came late, and how soon the others went on."""
    target: float

    @property
    def last(self) -> Told:
        """When it came to the target, or how far it came."""
        return next((told for told in self.told if told.accuracy >= self.target), self.told[-1])

    @property
    def reached(self) -> bool:
        """Whether it came to the target."""
        return self.last.accuracy >= self.target

    @property
    def lost(self) -> float:
        """Share of the values sent that never arrived."""
        return sum(each.lost_values for each in self.spent) / max(sum(each.sent_values for each in self.spent), 1)

    @property
    def seconds(self) -> float:
        """To the target, or to the end if it was not reached."""
        return self.last.seconds

    @property
    def samples_per_s(self) -> float:
        """Of all workers."""
        return sum(each.samples / each.seconds for each in self.spent)

    def waiting(self, number: int) -> float | None:
        """Return the share of a worker's time in which it waited; None if it did not come to the end."""
        return next((each.waited / each.seconds for each in self.spent if each.number == number), None)

    def as_dict(self) -> dict[str, object]:
        """Return it for a results file."""
        return {
            "algorithm": self.way.algorithm,
            "transport": self.way.transport,
            "batch": self.way.batch,
            "step_size": self.way.step,
            "tolerance": self.way.tolerance if self.way.transport == "gradlane" else 0.0,
            "left_out": self.way.left_out,
            "wire": self.way.wire.name.lower(),
            "compensation": self.way.compensation,
            "local": self.way.local,
            "seconds": round(self.seconds, 3),
            "reached": self.reached,
            "accuracy": self.last.accuracy,
            "samples_per_s": round(self.samples_per_s, 1),
            "values_lost": round(self.lost, 4),
            "curve": [asdict(told) for told in self.told],
            "workers": [asdict(spent) for spent in self.spent],
            "events": self.events,
        }


class UnevenJob:
    """A training that runs; a context manager that ends every process it started.

    Worker n computes a sample in `seconds_per_sample[n]`. With `quotas` worker n has that share of a processor besides,
    from when it trains: its start would take long.
    """

    def __init__(
        self,
        running: RunningFabric,
        workers: Sequence[str],
        server: str,
        way: Way,
        seconds_per_sample: Sequence[float],
        *,
        target: float,
        seconds: float,
        expected: int | None = None,
        stop_on_death: bool = False,
        patience: float = 3.0,
        quotas: Sequence[float] | None = None,
        checkpoints: Path | None = None,
        data: Path | None = None,
    ) -> None:
        """`expected` are the workers that are waited for at the start, by default all.

        `data` is a folder in which `traffic.live.share` has written MNIST-5k; by default the job does that itself.
        """
        self.running, self.workers, self.server, self.way = running, tuple(workers), server, way
        self.seconds_per_sample, self.target, self.seconds = seconds_per_sample, target, seconds
        self._first = self.workers[: len(workers) if expected is None else expected]
        self._stop_on_death, self._patience = stop_on_death, patience
        self._quotas, self._checkpoints, self._data = quotas, checkpoints, data
        self._started = 0
        self._free: dict[int, Quota] = {}
        """Of workers that do not train yet."""
        self._stack = ExitStack()
        self.ends: dict[int, End] = {}
        """The workers' processes, by number."""

    def __enter__(self) -> UnevenJob:
        with ExitStack() as stack:
            self._stack = stack
            if self._data is None:
                self._data = Path(
                    stack.enter_context(processes.scratch("uneven", processes.environment(self.running.run)))
                )
                share("mnist", self._data)
            way = self.way
            job = replace(
                job_of(self.running, self._first, self.server), op=Op.SUM, wire=way.wire, eager=False,
                tolerance=Tolerance(push=way.tolerance, pull=way.left_out), patience=self._patience,
                connect_timeout=MEET_SECONDS,
            )  # fmt: skip
            settings = RosterSettings(
                job.as_dict(), ROSTER_PORT, values_of(network()), self.way.transport, self._stop_on_death,
                self._patience,
            )  # fmt: skip
            module = "traffic.training.roster"
            self._roster = self._start(f"server in {self.server}", self.server, module, json.dumps(asdict(settings)))
            self._roster.expect_line(START_SECONDS)
            for number in range(len(self._first)):
                self.start(number)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *details: Any) -> None:
        self._stack.__exit__(*details)

    def start(self, number: int) -> None:
        """Start a worker's process: at the beginning, late, or anew after its death."""
        name, way = self.workers[number], self.way
        settings = WorkerSettings(
            name, number, self.running.fabric.host(name).ipv4, self.running.fabric.host(self.server).ipv4, ROSTER_PORT,
            str(self._data), way.algorithm, way.batch, way.step, self.seconds_per_sample[number], self.seconds,
            self.target, way.compensation, way.local, len(self._first), transport=way.transport,
            checkpoints=None if self._checkpoints is None else str(self._checkpoints),
        )  # fmt: skip
        if self._quotas is not None:
            quota = self._stack.enter_context(Quota(f"worker{self._started}", self._quotas[number]))
            self._free[number] = quota
        self._started += 1
        arguments = "traffic.training.process", json.dumps(asdict(settings))
        self.ends[number] = self._start(f"worker in {name}", name, *arguments)

    def _confine(self, workers: Sequence[str]) -> None:
        """Put workers that train into their control groups."""
        for number in [number for number in self._free if self.workers[number] in workers]:
            self._free.pop(number).add(self.ends[number].pid)

    def _start(self, title: str, host: str, module: str, argument: str) -> End:
        site = site_of(self.running, host)
        return self._stack.enter_context(End(title, site, module, argument, environment=ONE_THREAD))

    def lines(self, check: Callable[[], None] = lambda: None) -> Iterator[dict[str, Any]]:
        """Yield what the roster prints, until the training is over. Raises FailureError; `check` may raise too."""
        training = False

        def watch() -> None:
            check()
            for end in self.ends.values() if not training else ():
                end.check()  # later the roster says what becomes of a worker that dies

        while "over" not in (line := json.loads(self._roster.expect_line(SILENCE_SECONDS, watch))):
            if line.get("event") == "generation":
                training = True
                self._confine(line["workers"])
            yield line

    def run(self, check: Callable[[], None] = lambda: None, say: Callable[[str], None] = lambda text: None) -> Trained:
        """Train to the end and return how it went; `say` is told of deaths and the like. Raises FailureError."""
        told: list[Told] = []
        spent: list[Spent] = []
        events: list[dict[str, Any]] = []
        for line in self.lines(check):
            match line:
                case {"told": values}:
                    told.append(Told(**values))
                case {"done": values}:
                    spent.append(Spent(**values))
                case _:
                    events.append(line)
                    if text := told_of(line):
                        say(text)
        if not told:
            raise FailureError("the training ended before it began")
        spent.sort(key=lambda each: each.number)
        return Trained(self.way, told, spent, events, self.target)


def told_of(event: dict[str, Any]) -> str:
    """Return what to tell a person of a roster's event; nothing of the first generation."""
    match event:
        case {"event": "lost", "worker": worker, "how": how}:
            return f"the worker in {worker} {how}"
        case {"event": "joins", "worker": worker}:
            return f"the worker in {worker} comes"
        case {"event": "generation", "number": number, "workers": workers, "regrouped_in": seconds} if number > 1:
            return f"{' '.join(workers)} go on, {seconds:.2f} s later"
    return ""
