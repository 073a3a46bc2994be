# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What becomes of a collective over a real fabric when a worker, a server, a switch or a link dies in mid-round.

Either it recovers, or every rank ends with one clear line; both within a time that the job states.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import pytest

import topologies
from controller.reconcile import Controller, install
from controller.reroute import Rerouted, Rerouter
from topologies.mininet_fabric import MininetFabric
from traffic.collectives.job import Job
from traffic.hosts import ROOT, Site, site_of
from traffic.transport.tolerance import Tolerance

pytestmark = [pytest.mark.fabric, pytest.mark.timeout(240)]

WORKERS, SERVERS = ("h1", "h2", "h6"), ("h5",)
PATIENCE = 3.0
SLACK = 60.0
"""What a busy machine may add before a test fails; the bound itself is asserted in what the errors say."""
WORKER = """
import sys
from pathlib import Path
import numpy as np
from topologies.errors import GradlaneError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Job

job, rank = Job.load(Path(sys.argv[1])), int(sys.argv[2])
values = np.random.default_rng(rank).normal(size=120_000).astype(np.float32)
try:
    with Communicator(job, rank) as communicator:
        for round_ in range(10**9):
            futures = communicator.all_reduce_each(np.split(values, 4), layers=range(4), round=round_)
            [future.result() for future in futures]
            print(round_, flush=True)
except GradlaneError as error:
    sys.exit(str(error))
"""


@dataclass
class Program:
    """A process in a host whose output goes to files."""

    process: subprocess.Popen[bytes]
    out: Path
    errors: Path

    def rounds(self) -> int:
        return len(self.out.read_text().split())

    def failure(self) -> str:
        return self.errors.read_text().strip()


@dataclass
class Training:
    """Workers and servers that sum for ever."""

    folder: Path
    programs: dict[str, Program] = field(default_factory=dict)

    def start(self, site: Site, *arguments: str) -> None:
        out, errors = self.folder / f"{site.name}.out", self.folder / f"{site.name}.err"
        with out.open("wb") as to, errors.open("wb") as errors_to:
            self.programs[site.name] = Program(
                subprocess.Popen(
                    [*site.enter, sys.executable, *arguments],
                    stdout=to,
                    stderr=errors_to,
                    start_new_session=True,
                    env={**site.environment, "PYTHONPATH": str(ROOT)},
                ),
                out,
                errors,
            )

    def end(self) -> None:
        for program in self.programs.values():
            program.process.kill()
            program.process.wait()

    def until(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, {name: p.failure() for name, p in self.programs.items()}
            time.sleep(0.02)

    def rounds_more(self, count: int, seconds: float) -> None:
        wanted = {name: self.programs[name].rounds() + count for name in WORKERS}
        self.until(lambda: all(self.programs[name].rounds() >= rounds for name, rounds in wanted.items()), seconds)


@contextmanager
def training(net: MininetFabric, folder: Path, collective: str, patience: float = PATIENCE) -> Iterator[Training]:
    """Begin to train on a running fabric, and wait until rounds go by."""
    fabric, running = net.running.fabric, net.running
    servers = SERVERS if collective == "ps" else ()
    job = Job(
        number=1,
        workers=tuple(fabric.host(name).ipv4 for name in WORKERS),
        servers=tuple(fabric.host(name).ipv4 for name in servers),
        collective=collective,
        tolerance=Tolerance(push=0.1),
        line_rate=100e6,
        patience=patience,
    )
    folder.mkdir()
    job.save(folder / "job.json")
    jobs = Training(folder)
    with ExitStack() as stack:
        stack.callback(jobs.end)
        for name in servers:
            jobs.start(site_of(running, name), "-m", "traffic.collectives.server", str(folder / "job.json"))
        for rank, name in enumerate(WORKERS):
            jobs.start(site_of(running, name), "-c", WORKER, str(folder / "job.json"), str(rank))
        jobs.until(lambda: all(jobs.programs[name].rounds() > 2 for name in WORKERS), 90)
        yield jobs


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MininetFabric]:
    folder = tmp_path_factory.mktemp("collectives")
    path = folder / "fabric.json"
    with MininetFabric(topologies.load("leaf_spine"), instance=None, state_path=path, logs=folder) as started:
        install(path, "dlcp").check()
        yield started


def all_end(jobs: Training, survivors: list[str], *reasons: str) -> None:
    """All survivors end, each with one line that gives one of the reasons."""
    jobs.until(lambda: all(jobs.programs[name].process.poll() is not None for name in survivors), PATIENCE + SLACK)
    for name in survivors:
        program = jobs.programs[name]
        assert program.process.returncode == 1
        assert any(reason in program.failure() for reason in reasons), program.failure()
        assert len(program.failure().splitlines()) == 1


@pytest.mark.parametrize("collective", ["ps", "ring"])
def test_a_worker_that_is_killed_is_named_by_all_others(net: MininetFabric, tmp_path: Path, collective: str) -> None:
    with training(net, tmp_path / "job", collective) as jobs:
        jobs.programs["h2"].process.send_signal(signal.SIGKILL)
        address = net.running.fabric.host("h2").ipv4
        survivors = [name for name in jobs.programs if name != "h2"]
        all_end(jobs, survivors, f"rank 1 ({address}) is lost: nothing was heard of it for {PATIENCE:g} s")


def test_a_server_that_is_killed_is_named_by_all_workers(net: MininetFabric, tmp_path: Path) -> None:
    with training(net, tmp_path / "job", "ps") as jobs:
        jobs.programs["h5"].process.send_signal(signal.SIGKILL)
        address = net.running.fabric.host("h5").ipv4
        all_end(jobs, list(WORKERS), f"server 0 ({address}) is lost: nothing was heard of it for {PATIENCE:g} s")


@pytest.mark.parametrize("collective", ["ps", "ring"])
def test_training_goes_on_when_a_link_is_cut_or_a_spine_dies(
    net: MininetFabric, tmp_path: Path, collective: str
) -> None:
    reactions: SimpleQueue[Rerouted] = SimpleQueue()
    running = training(net, tmp_path / "job", collective, patience=SLACK)  # however long new routes take
    with running as jobs, Rerouter(Controller.find(net.state_path), reactions.put):
        try:
            net.link_down("leaf1", "spine1")
            jobs.rounds_more(5, SLACK)
        finally:
            net.link_up("leaf1", "spine1")
        try:
            net.stop_switch("spine2")
            jobs.rounds_more(5, SLACK)
        finally:
            net.start_switch("spine2")
        while "spine2" not in (reaction := reactions.get(timeout=SLACK)).changed or reaction.failed or reaction.dead:
            pass  # what follows on this fabric needs both spines whole
        jobs.rounds_more(5, SLACK)


def test_a_server_behind_a_cut_link_is_lost_and_said_so(net: MininetFabric, tmp_path: Path) -> None:
    with training(net, tmp_path / "job", "ps") as jobs:
        try:
            net.link_down("h5", "leaf2")
            address = net.running.fabric.host("h5").ipv4
            all_end(jobs, list(WORKERS), f"server 0 ({address}) is lost")
            jobs.until(lambda: jobs.programs["h5"].process.poll() is not None, PATIENCE + SLACK)
            assert "is lost: nothing was heard of it" in jobs.programs["h5"].failure()
        finally:
            net.link_up("h5", "leaf2")


def test_a_leaf_switch_that_is_killed_ends_the_job_on_both_sides(tmp_path: Path) -> None:
    path = tmp_path / "fabric.json"
    with MininetFabric(topologies.load("leaf_spine"), instance=None, state_path=path, logs=tmp_path) as own:
        install(path, "dlcp").check()
        with training(own, tmp_path / "job", "ps") as jobs:
            victim = own.running.switches["leaf2"].process
            assert victim is not None
            os.kill(victim.pid, signal.SIGKILL)
            all_end(jobs, [*WORKERS, *SERVERS], f"is lost: nothing was heard of it for {PATIENCE:g} s")
