# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Parameter servers over TCP: as tensors come, or by priority and in pieces (P3, arXiv 1905.03960; ByteScheduler).

The kernel's congestion control and its least RTO are those of the host's route. Connections stay open over rounds.
"""

from __future__ import annotations

import socket
import threading
from collections import defaultdict
from collections.abc import Hashable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topologies.errors import FailureError
from traffic.exchanges import blocks
from traffic.exchanges.connections import Connections, Header, Values, answer, dial
from traffic.exchanges.exchange import Arrivals, Gradient, Mean, Sums
from traffic.exchanges.pieces import Piece
from traffic.transport.loss import ErrorFeedback
from traffic.transport.ranges import value_ranges
from traffic.wire import IPV4_VALUES

ACCEPT_SECONDS = 30.0


@dataclass(frozen=True)
class TcpSettings:
    """How workers and servers talk."""

    port: int
    connections: int = 4
    """From each worker to each server."""
    by_priority: bool = False
    """Front layers first; else as they come."""
    kept_share: float | None = None
    """Block top-k with error feedback: the share of the blocks that travel. None: all values, without block numbers."""

    def urgency(self, piece: Piece) -> int:
        """Return how urgent a piece is."""
        return -piece.layer if self.by_priority else 0


class TcpWorker:
    """A worker's exchange through parameter servers over TCP."""

    def __init__(
        self,
        settings: TcpSettings,
        rank: int,
        address: str,
        servers: Sequence[str],
        sizes: Sequence[int],
        pieces: Sequence[Piece],
    ) -> None:
        """Connect to every server. Raises OSError."""
        self._settings, self._rank, self._pieces = settings, rank, pieces
        self._of_tensor = [[piece for piece in pieces if piece.tensor == tensor] for tensor in range(len(sizes))]
        self._arrivals = Arrivals(sizes, pieces)
        self._owed = ErrorFeedback()
        self._connections = Connections(self._place, self._take, self._arrivals.fail)
        for number, server in enumerate(servers):
            for _ in range(settings.connections):
                self._connections.add(number, dial(address, server, settings.port, rank))
        self._connections.start()

    def all_reduce(self, values: Gradient, *, tensor: int, layer: int, round: int, weight: int = 1) -> Future[Mean]:
        """Queue every piece of a tensor; its mean is there once all are back."""
        mean = self._arrivals.expect(tensor)
        for piece in self._of_tensor[tensor]:
            part = values[piece.first : piece.end]
            if self._settings.kept_share is not None:
                part = self._sparse(piece, part, self._settings.kept_share)
            header = Header(round, piece.number, self._rank, part.nbytes)
            self._connections.send(piece.server, header, part, self._settings.urgency(piece))
        return mean

    def losses(self) -> dict[str, Any]:
        """TCP loses nothing for good."""
        return {}

    def close(self) -> None:
        """End the connections."""
        self._connections.close()

    def _sparse(self, piece: Piece, gradient: Values, share: float) -> Values:
        values = self._owed.add(piece.number, gradient)
        chosen = blocks.choose(values, share)
        self._owed.settle(piece.number, values, value_ranges(~chosen, IPV4_VALUES, piece.size))
        return blocks.encode(values, chosen)

    def _place(self, _: Hashable, header: Header) -> Values:
        if self._settings.kept_share is not None:
            return np.empty(header.bytes // 4, np.float32)
        return self._arrivals.place(self._pieces[header.piece])

    def _take(self, _: Hashable, header: Header, values: Values) -> None:
        piece = self._pieces[header.piece]
        if self._settings.kept_share is not None:
            self._arrivals.place(piece)[:] = blocks.decode(values, piece.size)[0]
        self._arrivals.arrived(piece)


class TcpServer:
    """A parameter server over TCP."""

    def __init__(self, settings: TcpSettings, address: str, workers: int, pieces: Sequence[Piece]) -> None:
        """Listen; workers are let in by a thread. Raises OSError if the port is taken."""
        self._settings, self._workers, self._pieces = settings, workers, pieces
        self._sums = Sums(workers)
        self._chosen: dict[int, NDArray[np.bool_]] = defaultdict(lambda: np.zeros(1, np.bool_))
        """By piece, the blocks that any worker has sent this round."""
        self.error: Exception | None = None
        self._connections = Connections(self._place, self._take, self._failed, may_leave=True)
        self._listener = socket.create_server((address, settings.port), backlog=64)
        self._listener.settimeout(ACCEPT_SECONDS)
        self._thread = threading.Thread(target=self._accept, name="accept", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the connections, and the wait for whoever has not called."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._connections.close()
        self._listener.close()

    def _accept(self) -> None:
        try:
            for _ in range(self._workers * self._settings.connections):
                rank, connected = answer(self._listener)
                self._connections.add(rank, connected)
        except OSError as error:
            self._failed(FailureError(f"not every worker called: {error}"))
            return
        self._connections.start()

    def _place(self, _: Hashable, header: Header) -> Values:
        return np.empty(header.bytes // 4, np.float32)

    def _take(self, _: Hashable, header: Header, values: Values) -> None:
        piece = self._pieces[header.piece]
        sparse = self._settings.kept_share is not None
        if sparse:
            values, there = blocks.decode(values, piece.size)
            self._chosen[piece.number] = self._chosen[piece.number] | there
        mean = self._sums.add(piece.number, header.rank, values)
        if mean is None:
            return
        if sparse:
            mean = blocks.encode(mean, self._chosen.pop(piece.number))
        back = Header(header.round, piece.number, 0, mean.nbytes)
        for rank in range(self._workers):
            self._connections.send(rank, back, mean, self._settings.urgency(piece))

    def _failed(self, error: Exception) -> None:
        self.error = self.error or error
