# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Agents in the hosts of a fabric (traffic/training/agent.py), and how to ask many of them at once."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from topologies import processes
from topologies.errors import FailureError
from topologies.state import RunningFabric
from traffic.training.agent import Place

ROOT = Path(__file__).resolve().parents[2]
CHECK_SECONDS = 0.5
ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

Key = TypeVar("Key")
Answer = dict[str, Any]


class Agent:
    """One host's agent: a process in the host's namespace, ended when the context is left."""

    def __init__(self, running: RunningFabric, place: Place) -> None:
        self.name = f"{place.role} in {place.name}"
        pid = running.hosts[place.name].process.pid
        command = [*processes.inside(pid), sys.executable, "-m", "traffic.training.agent", json.dumps(asdict(place))]
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,  # Ctrl-C reaches us alone, and we end them
                env={**processes.environment(running.run), **ONE_THREAD, "PYTHONPATH": str(ROOT)},
            )
        except OSError as error:
            raise FailureError(f"cannot start the {self.name}: {command[0]}: {error.strerror}") from None
        processes.go_first(self._process.pid)  # a late end makes congestion that is the machine's, not the fabric's

    @property
    def pid(self) -> int:
        """The process."""
        return self._process.pid

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def ask(self, do: str, **arguments: Any) -> None:
        """Send a command; `answer` returns what comes of it."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._failure() from None

    def answer(self, deadline: float, check: Callable[[], None]) -> Answer:
        """Return the next answer. Raises FailureError for an error, no answer by the deadline, or a dead agent."""
        output = self._process.stdout
        assert output is not None
        while not select.select([output], [], [], CHECK_SECONDS)[0]:
            check()
            if time.monotonic() > deadline:
                raise FailureError(f"the {self.name} gave no answer in time")
        line = output.readline()
        if not line.endswith("\n"):
            raise self._failure()
        answer = json.loads(line)
        if "error" in answer:
            raise FailureError(f"the {self.name}: {answer['error']}")
        result: Answer = answer["answer"]
        return result

    def _failure(self) -> FailureError:
        self._process.kill()
        _, errors = self._process.communicate()
        reason = (errors.strip().splitlines() or ["it ended early"])[-1]
        return FailureError(f"the {self.name} failed: {reason}")


def ask(
    agents: Mapping[Key, Agent], do: str, seconds: float, check: Callable[[], None], **arguments: Any
) -> dict[Key, Answer]:
    """Ask all agents the same at once, and return their answers. Raises FailureError."""
    for agent in agents.values():
        agent.ask(do, **arguments)
    return collect(agents, seconds, check)


def collect(agents: Mapping[Key, Agent], seconds: float, check: Callable[[], None]) -> dict[Key, Answer]:
    """Return what all agents answer within so many seconds. Raises FailureError, once all have, if any failed."""
    deadline = time.monotonic() + seconds
    answers: dict[Key, Answer] = {}
    failures: list[FailureError] = []
    for key, agent in agents.items():
        try:
            answers[key] = agent.answer(deadline, check)
        except FailureError as failure:
            failures.append(failure)
    if failures:
        raise failures[0]
    return answers
