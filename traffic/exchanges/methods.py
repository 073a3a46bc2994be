# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Open either end of an exchange from settings that travel as JSON: the one place that knows every kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from traffic.exchanges.collective import CollectiveServer, CollectiveSettings, CollectiveWorker
from traffic.exchanges.exchange import Exchange
from traffic.exchanges.gloo import GlooSettings, GlooWorker
from traffic.exchanges.pieces import cut
from traffic.exchanges.tcp import TcpServer, TcpSettings, TcpWorker
from traffic.model import Parameter

Kind = TcpSettings | CollectiveSettings | GlooSettings
KINDS: dict[str, type[Kind]] = {"tcp": TcpSettings, "collective": CollectiveSettings, "gloo": GlooSettings}


class ServerEnd(Protocol):
    """A parameter server that runs."""

    @property
    def error(self) -> Exception | None:
        """What went wrong, if anything did."""

    def close(self) -> None:
        """End connections and threads."""


@dataclass(frozen=True)
class Wiring:
    """An exchange, and where its ends are."""

    kind: Kind
    workers: tuple[str, ...]
    """Addresses by rank."""
    servers: tuple[str, ...]
    largest_piece: int | None = None
    """Values; None: a tensor's share of each server is one piece."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` reads them back."""
        name = next(name for name, kind in KINDS.items() if isinstance(self.kind, kind))
        return {**asdict(self), "kind": {"name": name, **asdict(self.kind)}}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> Wiring:
        """Read back what `as_dict` gave."""
        kind = dict(values["kind"])
        return Wiring(
            kind=KINDS[kind.pop("name")](**kind),
            workers=tuple(values["workers"]),
            servers=tuple(values["servers"]),
            largest_piece=values["largest_piece"],
        )

    def worker(self, rank: int, parameters: Sequence[Parameter]) -> Exchange:
        """Open a worker's end. Raises OSError or FailureError."""
        sizes = [parameter.size for parameter in parameters]
        # The communicator deals out a piece to all servers by itself.
        shares = 1 if isinstance(self.kind, CollectiveSettings) else max(len(self.servers), 1)
        pieces = cut(parameters, shares, self.largest_piece)
        address = self.workers[rank]
        match self.kind:
            case TcpSettings():
                return TcpWorker(self.kind, rank, address, self.servers, sizes, pieces)
            case CollectiveSettings():
                return CollectiveWorker(self.kind, self.kind.job(self.workers, self.servers), rank, pieces)
            case GlooSettings():
                return GlooWorker(self.kind, rank, address, self.workers, sizes)

    def server(self, number: int, parameters: Sequence[Parameter]) -> ServerEnd:
        """Open a server's end. Raises OSError or FailureError."""
        pieces = cut(parameters, len(self.servers), self.largest_piece)
        match self.kind:
            case TcpSettings():
                return TcpServer(self.kind, self.servers[number], len(self.workers), pieces)
            case CollectiveSettings():
                return CollectiveServer(self.kind.job(self.workers, self.servers), number)
        raise ValueError("an all-reduce has no servers")
