# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Sums of a training over TCP, through a parameter server: what ABS-SGD and its baselines have without Gradlane."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from topologies.errors import FailureError
from traffic.collectives.statistics import Statistics
from traffic.exchanges.exchange import Mean
from traffic.exchanges.pieces import Piece, cut
from traffic.exchanges.tcp import TcpServer, TcpSettings, TcpWorker
from traffic.model import Parameter
from traffic.training.real import LAST, NOTES, SUMS
from traffic.training.share import CHUNK_VALUES, Floats, chunks_of

NEWEST, BARRIER = LAST + 1, LAST + 2
PIECE = 16384
"""Values that travel as one, as P3's."""
PATIENCE = 60.0
"""Seconds that a sum may take."""


def _tensors(values: int, workers: int) -> dict[int, int]:
    """Return the sizes of what is summed, by its number: a share, its notes, a state, a barrier."""
    return {SUMS: chunks_of(values) * (CHUNK_VALUES + 1), NOTES: workers + 1, NEWEST: 2 * values + 3, BARRIER: 1}


def _pieces(values: int, workers: int) -> list[Piece]:
    parameters = [Parameter(at, 0, "", (size,)) for at, size in enumerate(_tensors(values, workers).values())]
    return cut(parameters, 1, PIECE)


@dataclass(frozen=True)
class Summed:
    """What a sum gives."""

    values: Floats


class TcpSums:
    """One worker's end; stands where a Communicator of the bounded-loss transport stands."""

    def __init__(self, settings: TcpSettings, rank: int, workers: Sequence[str], server: str, values: int) -> None:
        """Connect. Raises OSError."""
        self.rank, self.size = rank, len(workers)
        sizes = _tensors(values, self.size)
        self._place = {number: at for at, number in enumerate(sizes)}
        self._place[LAST] = self._place[SUMS]  # nothing is lost of either
        pieces = _pieces(values, self.size)
        self._exchange = TcpWorker(settings, rank, workers[rank], [server], list(sizes.values()), pieces)
        self._waiting = ThreadPoolExecutor(len(sizes), thread_name_prefix="sums")
        self._barriers = 0

    def __enter__(self) -> TcpSums:
        return self

    def __exit__(self, *_: object) -> None:
        self._exchange.close()
        self._waiting.shutdown(wait=True)

    @property
    def statistics(self) -> Statistics:
        """TCP loses nothing for good."""
        return Statistics()

    def all_reduce(self, values: Floats, *, tensor: int, layer: int = 0, round: int, weight: int = 1) -> Future[Any]:
        """Begin the sum of a tensor; one sum of each at a time."""
        at = self._place[tensor]
        given = np.ascontiguousarray(values, np.float32)
        mean = self._exchange.all_reduce(given, tensor=at, layer=layer, round=round)
        return self._waiting.submit(self._sum_of, mean)

    def owed(self, tensor: int, size: int, *, failed: int | None = None) -> Floats | None:
        """Return nothing: TCP loses nothing."""
        return None

    def barrier(self) -> None:
        """Wait until every worker has come here. Raises FailureError."""
        self._barriers += 1
        self.all_reduce(np.zeros(1, np.float32), tensor=BARRIER, round=self._barriers).result()

    def _sum_of(self, mean: Future[Mean]) -> Summed:
        try:
            return Summed(mean.result(PATIENCE).values * np.float32(self.size))
        except TimeoutError:
            raise FailureError(f"a sum did not come within {PATIENCE:.0f} s") from None

    def abandon(self, reason: str) -> None:
        """Let what waits fail: it does so by itself, since the server closes the connections."""


class TcpSumServer(TcpServer):
    """The parameter server."""

    def __init__(self, settings: TcpSettings, address: str, workers: int, values: int) -> None:
        """Listen. Raises OSError."""
        super().__init__(settings, address, workers, _pieces(values, workers))

    def abandon(self, reason: str) -> None:
        """End serving: `close` does."""
