# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Sums between threads, without a network."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from topologies.errors import FailureError
from traffic.training.real import SUMS
from traffic.training.share import CHUNK_VALUES, Floats
from traffic.transport.loss import ErrorFeedback


@dataclass
class Sum:
    values: Floats


class Table:
    """Adds up what threads bring, after a while."""

    def __init__(self, workers: int, seconds: float = 0.0) -> None:
        self._workers, self._seconds = workers, seconds
        self._lock = threading.Lock()
        self._brought: dict[tuple[int, int], list[tuple[Floats, Future[Sum]]]] = {}

    def all_reduce(self, values: Floats, *, tensor: int, layer: int = 0, round: int, weight: int = 1) -> Future[Any]:
        future: Future[Sum] = Future()
        with self._lock:
            here = self._brought.setdefault((tensor, round), [])
            here.append((values, future))
            if len(here) == self._workers:
                threading.Timer(self._seconds, self._give, [here]).start()
        return future

    def owed(self, tensor: int, size: int, *, failed: int | None = None) -> Floats | None:
        return None

    def fail(self) -> None:
        """Let what waits fail."""
        with self._lock:
            waiting = [future for here in self._brought.values() for _, future in here if not future.done()]
        for future in waiting:
            future.set_exception(FailureError("nobody answers"))

    @staticmethod
    def _give(brought: list[tuple[Floats, Future[Sum]]]) -> None:
        total = np.sum([values for values, _ in brought], axis=0)
        for _, future in brought:
            future.set_result(Sum(total))


class Lossy:
    """One worker's way to a table: each packet of its shares is lost with a probability, and owed."""

    def __init__(self, table: Table, share: float, seed: int) -> None:
        self._table, self._share = table, share
        self._random, self._feedback = np.random.default_rng(seed), ErrorFeedback()
        self.fails = False
        """Whether the next sums fail for this worker."""

    def all_reduce(self, values: Floats, *, tensor: int, layer: int = 0, round: int, weight: int = 1) -> Future[Any]:
        if tensor == SUMS:
            sent = self._feedback.add(tensor, values, round)
            lost = self._random.random(sent.size // (CHUNK_VALUES + 1)) < self._share
            missing = [[at * (CHUNK_VALUES + 1), (at + 1) * (CHUNK_VALUES + 1)] for at in np.flatnonzero(lost)]
            self._feedback.settle(tensor, sent, np.array(missing).reshape(-1, 2), round)
            values = np.where(np.repeat(lost, CHUNK_VALUES + 1), np.float32(0), sent)
        if self.fails:
            future: Future[Any] = Future()
            future.set_exception(FailureError("nobody answers"))
            return future
        return self._table.all_reduce(values, tensor=tensor, layer=layer, round=round, weight=weight)

    def owed(self, tensor: int, size: int, *, failed: int | None = None) -> Floats | None:
        return self._feedback.debts(failed).get(tensor)
