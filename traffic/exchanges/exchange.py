# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the step loop asks of any way to exchange gradients, and what the parameter servers have in common."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from topologies.errors import FailureError
from traffic.exchanges.pieces import Piece

Gradient = NDArray[np.float32]
PATIENCE = 60.0
"""Seconds that a tensor's aggregate may take."""


class Exchange(Protocol):
    """One worker's end. Rounds are counted from 0; a tensor is sent once a round and then awaited once."""

    def send(self, round_number: int, tensor: int, gradient: Gradient) -> None:
        """Begin to send this worker's gradient of a tensor; it must not change until its aggregate is there."""

    def wait(self, tensor: int) -> Gradient:
        """Return the mean of all workers' gradients of a tensor, flat, once it is there. Raises FailureError."""

    def losses(self) -> dict[str, Any]:
        """Return what was lost of what this worker has sent."""

    def close(self) -> None:
        """End connections and threads."""


class Arrivals:
    """Aggregates as their pieces come in, from another thread, and who waits for them."""

    def __init__(self, sizes: Sequence[int], pieces: Sequence[Piece]) -> None:
        """`sizes` are the tensors' values."""
        self.aggregates = [np.zeros(size, np.float32) for size in sizes]
        self._pieces: dict[int, int] = defaultdict(int)
        for piece in pieces:
            self._pieces[piece.tensor] += 1
        self._missing = [0] * len(sizes)
        self._condition = threading.Condition()
        self._error: Exception | None = None

    def expect(self, tensor: int) -> None:
        """Note that this worker's gradient is under way: its aggregate is to come."""
        with self._condition:
            self._missing[tensor] = self._pieces[tensor]

    def place(self, piece: Piece) -> NDArray[np.float32]:
        """Return where a piece's values go."""
        return self.aggregates[piece.tensor][piece.first : piece.end]

    def arrived(self, piece: Piece) -> None:
        """Note that a piece's values are there."""
        with self._condition:
            self._missing[piece.tensor] -= 1
            if not self._missing[piece.tensor]:
                self._condition.notify_all()

    def fail(self, error: Exception) -> None:
        """Let whoever waits know that nothing will come."""
        with self._condition:
            self._error = self._error or error
            self._condition.notify_all()

    def wait(self, tensor: int) -> Gradient:
        """Return a tensor's aggregate once it is whole."""
        with self._condition:
            there = self._condition.wait_for(lambda: not self._missing[tensor] or self._error, PATIENCE)
            if self._error is not None:
                raise FailureError(f"the exchange of gradients failed: {self._error}")
            if not there:
                raise FailureError(f"the aggregate of tensor {tensor} did not come within {PATIENCE:.0f} s")
        return self.aggregates[tensor]


@dataclass
class Sums:
    """A parameter server's sums: a piece's mean is there once every worker's values are.

    Values are added in the order of ranks, whoever came first, so that the mean does not depend on the network.
    """

    workers: int
    _parts: dict[int, dict[int, Gradient]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, piece: int, rank: int, values: Gradient) -> Gradient | None:
        """Take a worker's values, which must not change; returns the mean if they were the last."""
        parts = self._parts[piece]
        parts[rank] = values
        if len(parts) < self.workers:
            return None
        total = parts[0].copy()
        for other in range(1, self.workers):
            total += parts[other]
        total /= np.float32(self.workers)
        del self._parts[piece]
        return total
