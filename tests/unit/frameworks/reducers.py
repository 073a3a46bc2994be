# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""An all-reduce within one process, which delivers when and in what order a test likes."""

from __future__ import annotations

import threading
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass
class Aggregate:
    values: Floats


class Meeting:
    """Takes every rank's tensors; `deliver` hands out the mean of one tensor's oldest round that all have given."""

    def __init__(self, size: int) -> None:
        self.size = size
        self._changed = threading.Condition()
        self._given: defaultdict[tuple[int, int], dict[int, tuple[Floats, Future[Aggregate]]]] = defaultdict(dict)
        self.layers: dict[int, int] = {}

    def give(self, rank: int, values: Floats, tensor: int, round_number: int, layer: int) -> Future[Aggregate]:
        future: Future[Aggregate] = Future()
        with self._changed:
            self.layers[tensor] = layer
            self._given[round_number, tensor][rank] = values, future
            self._changed.notify_all()
        return future

    @property
    def complete(self) -> list[tuple[int, int]]:
        return sorted(key for key, given in self._given.items() if len(given) == self.size)

    def deliver(self, tensor: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: any(key[1] == tensor for key in self.complete), 60)
            key = next(key for key in self.complete if key[1] == tensor)
            given = self._given.pop(key)
        mean = sum(given[rank][0] for rank in range(self.size)) / np.float32(self.size)
        for _, future in given.values():
            future.set_result(Aggregate(mean.copy()))

    def fail(self, error: Exception) -> None:
        with self._changed:
            given, self._given = self._given, defaultdict(dict)
        for ranks in given.values():
            for _, future in ranks.values():
                future.set_exception(error)


@dataclass
class Rank:
    """One rank's face of a meeting."""

    meeting: Meeting
    rank: int

    def all_reduce(self, values: Floats, *, tensor: int, layer: int, round: int, weight: int = 1) -> Future[Aggregate]:
        return self.meeting.give(self.rank, values, tensor, round, layer)
