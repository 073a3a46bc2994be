# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Trainings of several processes over loopback whose workers die, fall silent and come late."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import pytest

from tests.unit.training.elastic_worker import SERVER
from tests.unit.training.problems import quadratic
from traffic.collectives.job import Job, Op
from traffic.training.roster import RosterSettings

pytestmark = pytest.mark.timeout(120)
PORTS = iter(range(18700, 18900, 20))
WORKERS = 3
ENDLESS = 1_000_000


class Group:
    """A roster and its workers, as processes."""

    def __init__(self, stack: ExitStack, *, transport: str = "gradlane", patience: float = 5.0, **more: Any) -> None:
        self._stack, self.port, self._transport = stack, next(PORTS), transport
        workers = tuple(f"127.78.1.{number + 1}" for number in range(WORKERS))
        job = Job(
            number=100, workers=workers, servers=(SERVER,), op=Op.SUM, patience=patience, connect_timeout=30.0,
            port=self.port + 15,
        )  # fmt: skip
        settings = RosterSettings(
            job.as_dict(), self.port, quadratic().values, transport, patience=patience, **more
        )  # fmt: skip
        self.roster = self._run("traffic.training.roster", json.dumps(asdict(settings)))
        assert "ready" in self.line()
        self.workers: dict[int, subprocess.Popen[str]] = {}

    def start(self, *numbers: int, updates: int = ENDLESS) -> None:
        for number in numbers:
            arguments = str(number), str(self.port), self._transport, str(updates)
            self.workers[number] = self._run("tests.unit.training.elastic_worker", *arguments)

    def _run(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )  # fmt: skip
        self._stack.callback(process.communicate)
        self._stack.callback(process.kill)
        return process

    def line(self) -> dict[str, Any]:
        assert self.roster.stdout is not None
        text = self.roster.stdout.readline()
        if not text:
            raise AssertionError(f"the roster ended: {self.roster.communicate()[1]}")
        found: dict[str, Any] = json.loads(text)
        return found

    def until(self, wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        while not wanted(line := self.line()):
            assert "over" not in line
        return line

    def updates(self, more: int) -> int:
        """Wait for so many more sums; returns how many there are."""
        first = self.until(lambda line: "told" in line)["told"]["updates"]
        found: int = self.until(lambda line: line.get("told", {}).get("updates", 0) >= first + more)["told"]["updates"]
        return found

    def generation(self, size: int) -> dict[str, Any]:
        return self.until(lambda line: line.get("event") == "generation" and len(line["workers"]) == size)

    def ends(self) -> list[dict[str, Any]]:
        """Wait for the end; returns what the workers of the last generation have done."""
        found, last = [], None
        while "over" not in (line := self.line()):
            if "done" in line:
                found.append(line["done"])
            if line.get("event") == "generation":
                last = sorted(line["workers"])
        assert last in (None, sorted(f"w{end['number']}" for end in found))
        return found


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.mark.parametrize("transport", ["gradlane", "tcp"])
def test_training_goes_on_without_a_worker_that_dies_and_with_one_that_comes_late(
    stack: ExitStack, transport: str
) -> None:
    group = Group(stack, transport=transport)
    group.start(0, 1, 2)
    group.generation(3)
    group.updates(5)
    group.workers[1].kill()
    assert group.until(lambda line: line.get("event") == "lost")["worker"] == "w1"
    group.generation(2)
    before = group.updates(5)
    group.start(1, updates=20)
    assert group.generation(3)["workers"][-1] == "w1"
    assert group.updates(5) > before
    ends = group.ends()
    assert sorted(end["number"] for end in ends) == [0, 1, 2]
    assert len({end["digest"] for end in ends}) == 1
    assert ends[0]["loss"] < 0.9 * quadratic().loss(quadratic().initial())
    assert ends[0]["samples"] >= sum(end["computed"] for end in ends)  # nothing of those who live is lost


def test_training_stops_with_one_line_where_a_death_is_to_stop_it(stack: ExitStack) -> None:
    group = Group(stack, stop_on_death=True)
    group.start(0, 1, 2)
    group.generation(3)
    group.updates(3)
    group.workers[2].kill()
    assert group.roster.wait(30) == 1
    what = "the worker in w2 (127.78.1.3) has died"
    assert group.roster.communicate()[1].splitlines() == [what]
    for number in (0, 1):
        assert group.workers[number].wait(30) == 1
        assert group.workers[number].communicate()[1].splitlines() == [what]


def test_a_worker_that_was_silent_is_left_behind_and_comes_back(stack: ExitStack) -> None:
    group = Group(stack, patience=5.0)
    group.start(0, 1, 2)
    group.generation(3)
    group.updates(3)
    group.workers[2].send_signal(signal.SIGSTOP)
    assert sorted(group.generation(2)["workers"]) == ["w0", "w1"]
    group.updates(3)
    group.workers[2].send_signal(signal.SIGCONT)
    assert group.generation(3)["workers"][-1] == "w2"
    group.start(3, updates=20)
    ends = group.ends()
    assert len({end["digest"] for end in ends}) == 1
    assert len(ends) == 4


def test_a_caller_that_talks_nonsense_or_calls_twice_harms_nobody(stack: ExitStack) -> None:
    group = Group(stack)
    with socket.create_connection((SERVER, group.port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert stranger.recv(10) == b""
    group.start(0, 1, 2)
    group.generation(3)
    first = group.workers[2]
    group.start(2, updates=20)
    assert "called anew" in group.until(lambda line: line.get("event") == "lost")["how"]
    first.kill()
    ends = group.ends()
    assert sorted(end["number"] for end in ends) == [0, 1, 2]
    assert len({end["digest"] for end in ends}) == 1
