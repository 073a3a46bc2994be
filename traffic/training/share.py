# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What workers add up: per-sample gradients and how many there are, chunk by chunk, so that a lost chunk is countable.

A chunk is what one packet carries: `CHUNK_VALUES` values and their count. The count travels in the packet of the
values that it counts, so a packet that is lost takes its count along, and whatever adds up packets (a parameter server,
a ring) adds up counts by the way. Each chunk of the sum is divided by the samples that arrived for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traffic.wire import IPV4_VALUES

Floats = NDArray[np.float32]

CHUNK_VALUES = IPV4_VALUES - 1
"""Values of a chunk; with their count they fill a packet."""


def chunks_of(values: int) -> int:
    """Return how many chunks so many values take; at least one, so that no values still have a count."""
    return max(1, -(-values // CHUNK_VALUES))


def spread(per_chunk: NDArray[Any], values: int) -> NDArray[Any]:
    """Repeat a figure of every chunk, shape (chunks,), for each of its values: shape (values,)."""
    return np.repeat(per_chunk, CHUNK_VALUES)[:values]


@dataclass(frozen=True, slots=True)
class Share:
    """One worker's contribution to a sum, or such a sum."""

    sums: Floats
    """Sum over samples of their gradients, flat, shape (values,)."""
    counts: Floats
    """Samples behind each chunk, shape (chunks,)."""

    @staticmethod
    def of(sums: Floats, samples: float) -> Share:
        """Make a share all of whose chunks stand for the same samples."""
        return Share(sums, np.full(chunks_of(sums.size), samples, np.float32))

    @staticmethod
    def nothing(values: int) -> Share:
        """Make the share of a worker that has computed nothing."""
        return Share.of(np.zeros(values, np.float32), 0)

    @property
    def samples(self) -> float:
        """Samples behind it; where chunks differ, their mean."""
        return float(np.add.reduce(self.counts, dtype=np.float64)) / self.counts.size

    def __add__(self, other: Share) -> Share:
        return Share(self.sums + other.sums, self.counts + other.counts)

    def where(self, arrived: NDArray[np.bool_]) -> Share:
        """Keep the chunks that arrived, shape (chunks,); the others become nothing of no samples."""
        return Share(self.sums * spread(arrived, self.sums.size), self.counts * arrived)

    def encode(self) -> Floats:
        """Return it as packets carry it, shape (chunks * (CHUNK_VALUES + 1),): values, then their count."""
        chunks = len(self.counts)
        packets = np.zeros((chunks, CHUNK_VALUES + 1), np.float32)
        whole = self.sums.size // CHUNK_VALUES
        packets[:whole, :-1] = self.sums[: whole * CHUNK_VALUES].reshape(whole, CHUNK_VALUES)
        if whole < chunks:
            rest = self.sums[whole * CHUNK_VALUES :]
            packets[whole, : rest.size] = rest
        packets[:, -1] = self.counts
        return packets.reshape(-1)

    @staticmethod
    def decode(encoded: Floats, values: int) -> Share:
        """Read what `encode` wrote, or a sum of such; counts are whole, whatever rounding did to them on the way."""
        packets = encoded.reshape(-1, CHUNK_VALUES + 1)
        return Share(packets[:, :-1].reshape(-1)[:values], np.rint(packets[:, -1]))


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of the workers' shares, the same bits on every worker."""

    share: Share
    speeds: tuple[float, ...] = ()
    """Samples per second of every worker, by rank; 0 where it has none to tell."""
    ending: bool = False
    """Whether a worker asked for the end of training."""

    @property
    def samples(self) -> float:
        """Samples that arrived, the mean over chunks."""
        return self.share.samples

    def mean(self) -> tuple[Floats, NDArray[np.bool_] | None]:
        """Return the mean gradient, shape (values,), and where there is one: None means everywhere.

        A chunk that nobody delivered has no mean; it is 0 in the first and False in the second.
        """
        counts, sums = self.share.counts, self.share.sums
        least, most = np.minimum.reduce(counts), np.maximum.reduce(counts)
        if least == most:
            if most == 0:
                return np.zeros_like(sums), np.zeros(sums.size, np.bool_)
            return sums / most, None
        each = spread(np.maximum(counts, 1), sums.size)
        return sums / each, None if least > 0 else spread(counts > 0, sums.size)
