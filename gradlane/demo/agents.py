# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Agents in the hosts of a fabric (traffic/exchanges/agent.py), and how to ask many of them at once."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from topologies.errors import FailureError
from topologies.state import RunningFabric
from traffic.exchanges.agent import Place
from traffic.hosts import End, site_of

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

Key = TypeVar("Key")
Answer = dict[str, Any]


class Agent(End):
    """One host's agent: a process in the host's namespace, ended when the context is left."""

    def __init__(self, running: RunningFabric, place: Place) -> None:
        self.name = f"{place.role} in {place.name}"
        settings = json.dumps(asdict(place))
        super().__init__(
            self.name, site_of(running, place.name), "traffic.exchanges.agent", settings, environment=ONE_THREAD
        )

    def ask(self, do: str, **arguments: Any) -> None:
        """Send a command; `answer` returns what comes of it."""
        self.say(json.dumps({"do": do, **arguments}))

    def answer(self, deadline: float, check: Callable[[], None]) -> Answer:
        """Return the next answer. Raises FailureError for an error, no answer by the deadline, or a dead agent."""
        answer = json.loads(self.expect_line(deadline - time.monotonic(), check))
        if "error" in answer:
            raise FailureError(f"the {self.name}: {answer['error']}")
        result: Answer = answer["answer"]
        return result


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
