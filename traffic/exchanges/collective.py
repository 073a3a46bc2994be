# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Collectives over the bounded-loss transport (traffic/collectives): parameter servers, or a ring."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from topologies.errors import FailureError
from traffic.collectives.communicator import Communicator, Reduced
from traffic.collectives.job import Job
from traffic.collectives.server import Server
from traffic.exchanges.exchange import PATIENCE, Gradient
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


class CollectiveWorker:
    """A rank."""

    def __init__(self, settings: CollectiveSettings, job: Job, rank: int, pieces: Sequence[Piece]) -> None:
        """Meet the others. Raises CollectiveError if they do not come."""
        self._by_priority = settings.by_priority
        self._of_tensor: dict[int, list[Piece]] = {}
        for piece in pieces:
            self._of_tensor.setdefault(piece.tensor, []).append(piece)
        self._coming: dict[int, list[Future[Reduced]]] = {}
        self._gradients: dict[int, Gradient] = {}
        self._communicator = Communicator(job, rank)

    def send(self, round_number: int, tensor: int, gradient: Gradient) -> None:
        """Begin to sum every piece of a tensor."""
        self._gradients[tensor] = gradient
        self._coming[tensor] = [
            self._communicator.all_reduce(
                gradient[piece.first : piece.end],
                tensor=piece.number,
                layer=piece.layer if self._by_priority else 0,
                round=round_number,
            )
            for piece in self._of_tensor[tensor]
        ]

    def wait(self, tensor: int) -> Gradient:
        """Return a tensor's mean once all its pieces are summed; it replaces the gradient."""
        mean = self._gradients.pop(tensor)
        for piece, future in zip(self._of_tensor[tensor], self._coming.pop(tensor), strict=True):
            try:
                mean[piece.first : piece.end] = future.result(PATIENCE).values
            except TimeoutError:
                raise FailureError(f"the sum of tensor {tensor} did not come within {PATIENCE:.0f} s") from None
        return mean

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
