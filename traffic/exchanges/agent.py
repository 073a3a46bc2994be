# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A host of a training job: `python -m traffic.exchanges.agent <place as JSON>` in the host's namespace.

Reads one command a line from standard input and answers each with one line: {"answer": ...}, or {"error": "..."}.
Ends when its standard input closes. Every time is CLOCK_MONOTONIC, which all hosts of one machine share.
"""

from __future__ import annotations

import gc
import hashlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from topologies.errors import FailureError
from traffic import native
from traffic.exchanges import data
from traffic.exchanges.background import Background
from traffic.exchanges.exchange import Exchange
from traffic.exchanges.methods import ServerEnd, Wiring
from traffic.exchanges.networks import RECIPES
from traffic.exchanges.step import GatedTraining
from traffic.transport import core


@dataclass(frozen=True)
class Place:
    """Who this host is."""

    role: str
    """`worker`, `server` or `background`."""
    name: str
    """The host's."""
    number: int
    """The worker's rank, or the server's number."""
    workers: int
    folder: str
    """Of the data."""


class Worker:
    """A worker: a replica for each track, and the exchange that is open."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._data = data.load(Path(place.folder))
        self._tracks: dict[str, tuple[str, GatedTraining]] = {}
        self._exchange: Exchange | None = None
        self._training: GatedTraining | None = None
        self._model = ""

    def open(self, track: str, model: str, seed: int, wiring: dict[str, Any]) -> dict[str, Any]:
        """Take up a track (a model that is trained one way from one seed) where it was left, and connect."""
        if track not in self._tracks:
            recipe = RECIPES[model]
            batches = self._data.batches(self._place.number, self._place.workers, recipe.batch, seed)
            self._tracks[track] = (
                model,
                GatedTraining(recipe.build(seed), batches, recipe.learning_rate, recipe.momentum),
            )
        self._model, self._training = self._tracks[track]
        self._exchange = Wiring.from_dict(wiring).worker(self._place.number, self._training.network.parameters)
        return {"rounds": self._training.rounds}

    def train(self, rounds: int, every: int, compute: float) -> dict[str, Any]:
        """Train, and tell when each round ended, and the accuracy after every `every` rounds (rank 0; 0: never).

        A round goes from the end of a forward pass to that of the next, of which every layer has waited for its update;
        the last one to its last update.
        Accuracies are computed afterwards, of copies: they take none of the rounds' time.
        """
        training, exchange = self._training, self._exchange
        assert training is not None and exchange is not None
        cpu, turns, losses = time.process_time(), [], []
        copies: list[tuple[int, list[Any]]] = []
        begin = time.monotonic()
        sent = _interface_bytes()

        def forwarded() -> None:
            turns.append(time.monotonic())
            number = training.rounds + 1
            if every and not self._place.number and number % every == 0:
                copies.append((number, [value.copy() for value in training.network.values]))

        with training.over(exchange):
            for _ in range(rounds):
                losses.append(training.run(compute, forwarded))
        turns.append(time.monotonic())
        seconds = turns[-1] - begin
        return {
            "begin": turns[0],
            "end": turns[-1],
            "ends": turns[1:],
            "cpu": (time.process_time() - cpu) / seconds,
            "loss": float(np.mean(losses)),
            "bytes": _interface_bytes() - sent,
            "accuracies": [(number, self._accuracy(values)) for number, values in copies],
            "lost": exchange.losses(),
            "digest": _digest(training.network.values),
        }

    def close(self) -> dict[str, Any]:
        """Close the exchange; the track stays."""
        if self._exchange is not None:
            self._exchange.close()
            self._exchange = None
        return {}

    def forget(self, track: str) -> dict[str, Any]:
        """Drop a track."""
        self._tracks.pop(track, None)
        return {}

    def _accuracy(self, values: list[Any]) -> float:
        network = RECIPES[self._model].build(0)
        for value, copy in zip(network.values, values, strict=True):
            value[...] = copy
        return network.accuracy(self._data.test_inputs, self._data.test_labels)


class Server:
    """A parameter server: whatever end is open."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._end: ServerEnd | None = None
        self._cpu = self._since = 0.0

    def open(self, model: str, wiring: dict[str, Any]) -> dict[str, Any]:
        """Listen."""
        parameters = RECIPES[model].build(0).parameters
        self._end = Wiring.from_dict(wiring).server(self._place.number, parameters)
        self._cpu, self._since = time.process_time(), time.monotonic()
        return {}

    def close(self) -> dict[str, Any]:
        """Stop, and tell the share of a processor that serving took. Raises what went wrong meanwhile."""
        if self._end is None:
            return {}
        cpu = (time.process_time() - self._cpu) / (time.monotonic() - self._since)
        error = self._end.error
        self._end.close()
        self._end = None
        if error is not None:
            raise FailureError(f"server {self._place.number}: {error}")
        return {"cpu": cpu}


class Bystander:
    """A host's share of the traffic beside the job."""

    def __init__(self, place: Place) -> None:
        self._background = Background(place.name)

    def start(self, trace: str, addresses: dict[str, str], begin: float, longest: float) -> dict[str, Any]:
        """Begin the trace; see Background.start."""
        self._background.start(Path(trace), addresses, begin, longest)
        return {}

    def close(self) -> dict[str, Any]:
        """End it, and tell what was sent and what arrived."""
        return self._background.stop()


ROLES: dict[str, type[Worker] | type[Server] | type[Bystander]] = {
    "worker": Worker,
    "server": Server,
    "background": Bystander,
}


def _interface_bytes() -> int:
    """Return the bytes that this host's interfaces have sent, headers and all."""
    lines = Path("/proc/net/dev").read_text().splitlines()[2:]
    return sum(int(line.split(":")[1].split()[8]) for line in lines if not line.strip().startswith("lo:"))


def _digest(values: list[Any]) -> str:
    """Return what tells whether replicas are equal, bit by bit."""
    return hashlib.blake2b(b"".join(np.ascontiguousarray(value).tobytes() for value in values)).hexdigest()[:16]


def main() -> int:
    """Serve commands until standard input closes."""
    place = Place(**json.loads(sys.argv[1]))
    native.load()
    core.load()
    host = ROLES[place.role](place)
    gc.freeze()  # what is there stays: no collection walks through it in the midst of a round
    print(json.dumps({"answer": {}}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        action: Callable[..., dict[str, Any]] = getattr(host, request.pop("do"))
        try:
            answer: dict[str, Any] = {"answer": action(**request)}
        except (FailureError, OSError) as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)
    host.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
