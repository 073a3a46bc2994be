# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Parameter servers over the bounded-loss transport (docs/transport.md)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from topologies.errors import FailureError
from traffic.packer import TensorId, importance, mean_magnitudes
from traffic.training.exchange import Arrivals, Gradient, Sums
from traffic.training.pieces import Piece
from traffic.transport.errors import TransportError
from traffic.transport.loss import ErrorFeedback
from traffic.transport.ranges import mask_of
from traffic.transport.rate import RateSettings
from traffic.transport.receiver import Expectation, ReceiveReport
from traffic.transport.sender import SendReport
from traffic.transport.settings import Settings
from traffic.transport.sockets import SocketEndpoint
from traffic.wire import IPV4_VALUES

BANDS = 8
AS_THEY_COME = 3
"""The one priority of all, where there is none."""
PATIENCE = 60.0


@dataclass(frozen=True)
class BoundedSettings:
    """How workers and servers talk."""

    job: int
    line_rate: float
    """Of the hosts' links, in bit/s."""
    tolerance: float = 0.0
    """Share of a worker's gradient that may be missing; of what servers send back, nothing may."""
    by_priority: bool = False
    """Front layers first; else as they come."""
    initial_rate: float = 20e6
    least_rate: float = 1e6
    target_delay: float = 0.003

    @property
    def priority(self) -> int | None:
        """What the transport is told."""
        return None if self.by_priority else AS_THEY_COME

    def endpoint(self, address: str, protected_share: float) -> SocketEndpoint:
        """Open an endpoint. Raises FailureError if its port is taken."""
        return SocketEndpoint(
            address,
            settings=Settings(
                rate=RateSettings(line=self.line_rate, initial=self.initial_rate, least=self.least_rate, target_delay=int(self.target_delay*1e9)),
                protected_share=protected_share,
            ),
        )


class BoundedWorker:
    """A worker's exchange through parameter servers over the transport."""

    def __init__(
        self,
        settings: BoundedSettings,
        rank: int,
        address: str,
        servers: Sequence[str],
        sizes: Sequence[int],
        pieces: Sequence[Piece],
    ) -> None:
        """Open an endpoint. Raises FailureError if its port is taken."""
        self._settings, self._rank = settings, rank
        self._of_tensor = [[piece for piece in pieces if piece.tensor == tensor] for tensor in range(len(sizes))]
        self._arrivals = Arrivals(sizes, pieces)
        self._sent: dict[int, tuple[Future[SendReport], Gradient]] = {}
        self._owed = ErrorFeedback() if ErrorFeedback.wanted(settings.tolerance) else None
        self._packets = np.zeros((max(piece.layer for piece in pieces) + 1, BANDS, 2), np.int64)
        """By layer and eighth of importance: packets, and those of them that never arrived."""
        self._endpoint = settings.endpoint(address, Settings().protected_share)
        self._servers = [self._endpoint.peer(server) for server in servers]

    def send(self, round_number: int, tensor: int, gradient: Gradient) -> None:
        """Send every piece of a tensor, and ask for its mean."""
        self._arrivals.expect(tensor)
        for piece in self._of_tensor[tensor]:
            self._settle(piece)
            values = gradient[piece.first : piece.end]
            if self._owed is not None:
                values = self._owed.add(piece.number, values)
            ids = TensorId(self._settings.job, self._rank, piece.number, piece.layer, round_number)
            server = self._servers[piece.server]
            expected = Expectation(values=piece.size, tolerance=0.0, out=self._arrivals.place(piece))
            self._endpoint.receive(server, ids, expected).result.add_done_callback(partial(self._arrived, piece))
            sent = self._endpoint.send(
                server, values, ids, tolerance=self._settings.tolerance, priority=self._settings.priority
            )
            self._sent[piece.number] = sent, values

    def wait(self, tensor: int) -> Gradient:
        """Return a tensor's mean once all its pieces are back."""
        return self._arrivals.wait(tensor)

    def losses(self) -> dict[str, Any]:
        """Return packets sent and lost by layer and by eighth of importance, the least important first."""
        for pieces in self._of_tensor:
            for piece in pieces:
                self._settle(piece)
        return {
            "by_layer": self._packets.sum(axis=1).tolist(),
            "by_importance": self._packets.sum(axis=0).tolist(),
        }

    def close(self) -> None:
        """Close the endpoint."""
        self._endpoint.close()

    def _arrived(self, piece: Piece, result: Future[ReceiveReport]) -> None:
        error = result.exception()
        if isinstance(error, Exception):
            self._arrivals.fail(error)
        else:
            self._arrivals.arrived(piece)

    def _settle(self, piece: Piece) -> None:
        """Take the report on what was sent of a piece in the round before."""
        if piece.number not in self._sent:
            return
        result, values = self._sent.pop(piece.number)
        try:
            missing = result.result(PATIENCE).missing
        except (TransportError, TimeoutError) as error:
            raise FailureError(f"a gradient did not get through: {error}") from error
        if self._owed is not None:
            self._owed.settle(piece.number, values, missing)
        bands = importance(mean_magnitudes(values, IPV4_VALUES)) // (256 // BANDS)
        lost = mask_of(missing, piece.size)[::IPV4_VALUES]
        self._packets[piece.layer, :, 0] += np.bincount(bands, minlength=BANDS)
        self._packets[piece.layer, :, 1] += np.bincount(bands[lost], minlength=BANDS)


class BoundedServer:
    """A parameter server over the transport."""

    def __init__(
        self, settings: BoundedSettings, address: str, workers: Sequence[str], pieces: Sequence[Piece]
    ) -> None:
        """Open an endpoint and ask for round 0; `pieces` are this server's. Raises FailureError."""
        self._settings = settings
        self._sums = Sums(len(workers))
        self.error: Exception | None = None
        # Of what goes back each value stands for every worker: the fabric may drop none of it.
        self._endpoint = settings.endpoint(address, 1.0)
        self._workers = [self._endpoint.peer(worker) for worker in workers]
        for piece in pieces:
            for rank in range(len(workers)):
                self._ask(piece, rank, 0)

    def close(self) -> None:
        """Close the endpoint."""
        self._endpoint.close()

    def _ask(self, piece: Piece, rank: int, round_number: int) -> None:
        ids = TensorId(self._settings.job, rank, piece.number, piece.layer, round_number)
        receiving = self._endpoint.receive(self._workers[rank], ids, Expectation(values=piece.size))
        receiving.result.add_done_callback(partial(self._take, piece, rank, round_number))

    def _take(self, piece: Piece, rank: int, round_number: int, result: Future[ReceiveReport]) -> None:
        error = result.exception()
        if error is not None:
            self.error = self.error or FailureError(str(error))
            return
        mean = self._sums.add(piece.number, rank, result.result().values)
        if mean is None:
            return
        for other, worker in enumerate(self._workers):
            ids = TensorId(self._settings.job, other, piece.number, piece.layer, round_number)
            self._endpoint.send(worker, mean, ids, priority=self._settings.priority)
            self._ask(piece, other, round_number + 1)
