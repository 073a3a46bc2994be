# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Collectives over the bounded-loss transport (traffic/collectives): parameter servers, or a ring."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from topologies.errors import FailureError
from traffic.collectives.communicator import Communicator, Reduced
from traffic.collectives.job import Job
from traffic.collectives.server import Server
from traffic.exchanges.exchange import Gradient
from traffic.exchanges.pieces import Piece
from traffic.transport.tolerance import Tolerance


@dataclass(frozen=True)
class CollectiveSettings:
    """How the members talk."""

    line_rate: float
    """Of the hosts' links, in bit/s."""
    collective: str = "ps"
    tolerance: float = 0.0
    """Share of what is still to be summed that may be missing."""
    left_out: float = 0.0
    """Share of a mean that all do without."""
    by_priority: bool = False
    """Front layers first; else all tensors say that they are of one layer, and go as they come."""

    def job(self, workers: Sequence[str], servers: Sequence[str]) -> Job:
        """Return the job of these members."""
        return Job(
            number=1,
            workers=tuple(workers),
            servers=tuple(servers),
            collective=self.collective,
            tolerance=Tolerance(push=self.tolerance, pull=self.left_out),
            line_rate=self.line_rate,
        )


@dataclass(frozen=True)
class Pieces:
    """A tensor of which every piece is summed, or has failed."""

    gradient: Gradient
    pieces: Sequence[Piece]
    parts: Sequence[Future[Reduced]]

    @property
    def values(self) -> Gradient:
        """Join the means, in the gradient's place. Raises what made a piece fail."""
        for piece, part in zip(self.pieces, self.parts, strict=True):
            self.gradient[piece.first : piece.end] = part.result().values
        return self.gradient


class CollectiveWorker:
    """A rank."""

    def __init__(self, settings: CollectiveSettings, job: Job, rank: int, pieces: Sequence[Piece]) -> None:
        """Meet the others. Raises CollectiveError if they do not come."""
        self._by_priority = settings.by_priority
        self._of_tensor: dict[int, list[Piece]] = {}
        for piece in pieces:
            self._of_tensor.setdefault(piece.tensor, []).append(piece)
        self._communicator = Communicator(job, rank)

    def all_reduce(self, values: Gradient, *, tensor: int, layer: int, round: int, weight: int = 1) -> Future[Pieces]:
        """Begin to sum every piece of a tensor; its mean replaces the gradient."""
        pieces = self._of_tensor[tensor]
        parts = [
            self._communicator.all_reduce(
                values[piece.first : piece.end],
                tensor=piece.number,
                layer=piece.layer if self._by_priority else 0,
                round=round,
                weight=weight,
            )
            for piece in pieces
        ]
        whole: Future[Pieces] = Future()
        left = len(parts)
        lock = threading.Lock()

        def done(_: Future[Reduced]) -> None:
            nonlocal left
            with lock:
                left -= 1
                last = not left
            if last:
                whole.set_result(Pieces(values, pieces, parts))

        for part in parts:
            part.add_done_callback(done)
        return whole

    def losses(self) -> dict[str, Any]:
        """Return values by layer, and packets by eighth of importance, least first: sent, and of those lost."""
        counts = self._communicator.statistics
        return {
            "by_layer": [list(counts.by_layer[layer]) for layer in sorted(counts.by_layer)],
            "by_importance": counts.by_band.T.tolist(),
        }

    def close(self) -> None:
        """Leave the job."""
        self._communicator.close()


class CollectiveServer:
    """A parameter server."""

    def __init__(self, job: Job, number: int) -> None:
        """Open its endpoint. Raises FailureError."""
        self._server = Server(job, number)

    @property
    def error(self) -> Exception | None:
        """Why the job failed, if it did."""
        try:
            self._server.wait(0)
        except FailureError as error:
            return error
        return None

    def close(self) -> None:
        """End it."""
        self._server.close()
