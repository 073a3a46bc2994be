# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Sums between threads, without a network."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from traffic.training.share import Floats


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

    @staticmethod
    def _give(brought: list[tuple[Floats, Future[Sum]]]) -> None:
        total = np.sum([values for values, _ in brought], axis=0)
        for _, future in brought:
            future.set_result(Sum(total))
