# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How a model's tensors are cut into pieces and dealt out to parameter servers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from traffic.model import Parameter

SPLIT_ABOVE = 4096
"""Values; a smaller tensor stays whole on one server."""


@dataclass(frozen=True)
class Piece:
    """A range of a tensor's values that travels and is summed up by itself."""

    number: int
    tensor: int
    layer: int
    first: int
    end: int
    server: int

    @property
    def size(self) -> int:
        """How many values."""
        return self.end - self.first


def cut(parameters: Sequence[Parameter], servers: int, largest: int | None) -> list[Piece]:
    """Cut every tensor into a share for each server, and each share into pieces of at most `largest` values.

    Small tensors go whole to the server that has least so far. Pieces are numbered in the order of the tensors, within
    a tensor turn by turn among the servers, so that both are busy with the same tensor.
    """
    pieces: list[Piece] = []
    load = [0] * servers
    for parameter in parameters:
        owners = list(range(servers)) if parameter.size > SPLIT_ABOVE else [load.index(min(load))]
        count = len(owners)
        if largest is not None:
            count = max(count, -(-parameter.size // largest))
            count += -count % len(owners)
        for index in range(count):
            first, end = (parameter.size * part // count for part in (index, index + 1))
            server = owners[index % len(owners)]
            load[server] += end - first
            pieces.append(Piece(len(pieces), parameter.tensor, parameter.layer, first, end, server))
    return pieces
