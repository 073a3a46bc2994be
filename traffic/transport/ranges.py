# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Maps of packets as ranges of values."""

import numpy as np
from numpy.typing import NDArray


def value_ranges(packets: NDArray[np.bool_], per_packet: int, values: int) -> NDArray[np.int64]:
    """Return the values of the packets that are set as ranges, in order, neighbours joined.

    Shape (ranges, 2): the first value, and one past the last. The last packet may be short: no range exceeds `values`.
    """
    if not packets.any():
        return np.zeros((0, 2), np.int64)
    edges = np.flatnonzero(np.diff(np.concatenate([[False], packets, [False]]).astype(np.int8)))
    ranges = edges.reshape(-1, 2).astype(np.int64) * per_packet
    return np.minimum(ranges, values)


def mask_of(ranges: NDArray[np.int64], values: int) -> NDArray[np.bool_]:
    """Return which of the values lie in the ranges, shape (values,)."""
    steps = np.zeros(values + 1, np.int64)
    np.add.at(steps, ranges[:, 0], 1)
    np.add.at(steps, ranges[:, 1], -1)
    return np.cumsum(steps)[:-1] > 0
