# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the gated step asks of any way to exchange gradients, and what the parameter servers have in common."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from topologies.errors import FailureError
from traffic.exchanges.pieces import Piece
from traffic.frameworks.gate import Reducer

Gradient = NDArray[np.float32]


class Exchange(Reducer, Protocol):
    """One worker's end, over which a gate sends: every worker counts alike, whatever its weight."""

    def losses(self) -> dict[str, Any]:
        """Return what was lost of what this worker has sent."""

    def close(self) -> None:
        """End connections and threads."""


@dataclass(frozen=True)
class Mean:
    """Of all workers' gradients of a tensor, flat."""

    values: Gradient


class Arrivals:
    """Aggregates as their pieces come in, from another thread."""

    def __init__(self, sizes: Sequence[int], pieces: Sequence[Piece]) -> None:
        """`sizes` are the tensors' values."""
        self._aggregates = [np.zeros(size, np.float32) for size in sizes]
        self._pieces: dict[int, int] = defaultdict(int)
        for piece in pieces:
            self._pieces[piece.tensor] += 1
        self._missing = [0] * len(sizes)
        self._coming: dict[int, Future[Mean]] = {}
        self._lock = threading.Lock()
        self._error: Exception | None = None

    def expect(self, tensor: int) -> Future[Mean]:
        """Note that this worker's gradient is under way, and return its aggregate to be."""
        future: Future[Mean] = Future()
        with self._lock:
            self._missing[tensor] = self._pieces[tensor]
            self._coming[tensor] = future
        if self._error is not None:
            self._fail()
        return future

    def place(self, piece: Piece) -> NDArray[np.float32]:
        """Return where a piece's values go."""
        return self._aggregates[piece.tensor][piece.first : piece.end]

    def arrived(self, piece: Piece) -> None:
        """Note that a piece's values are there."""
        with self._lock:
            self._missing[piece.tensor] -= 1
            whole = None if self._missing[piece.tensor] else self._coming.pop(piece.tensor, None)
        if whole is not None:
            whole.set_result(Mean(self._aggregates[piece.tensor]))

    def fail(self, error: Exception) -> None:
        """Let whoever waits know that nothing will come."""
        self._error = self._error or FailureError(f"the exchange of gradients failed: {error}")
        self._fail()

    def _fail(self) -> None:
        with self._lock:
            failed, self._coming = list(self._coming.values()), {}
        for future in failed:
            future.set_exception(self._error)


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
