# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A model of a transport that loses packets, blind to what they hold, and what a sender owes from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traffic.training.share import Share


@dataclass(frozen=True)
class Loss:
    """Every packet is lost by itself with one probability on its way to the sum; the way back loses none."""

    share: float
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.share < 1:
            raise ValueError(f"a loss is a share from 0 to less than 1, not {self.share}")

    def arrived(self, round_number: int, workers: int, chunks: int) -> NDArray[np.bool_]:
        """Draw which packets of a round arrive, shape (workers, chunks)."""
        random = np.random.default_rng((self.seed, round_number))
        return random.random((workers, chunks)) >= self.share


def deliver(
    shares: Sequence[Share], arrived: NDArray[np.bool_], owed: Sequence[Share] | None = None
) -> tuple[Share, list[Share]]:
    """Add up what arrived of the workers' shares; returns the sum and what each worker owes.

    With error feedback `owed` is what the round before lost of each: it is sent along, sums and counts alike, so a
    chunk that was lost is late and not gone, and importance may decide about drops. Without it nothing is owed.
    """
    sent = list(shares) if owed is None else [share + late for share, late in zip(shares, owed, strict=True)]
    came = [share.where(mask) for share, mask in zip(sent, arrived, strict=True)]
    total = came[0]
    for share in came[1:]:
        total = total + share
    if owed is None:
        return total, []
    return total, [share.where(~mask) for share, mask in zip(sent, arrived, strict=True)]
