# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Block top-k: of a piece only the blocks of largest mean |g| travel, each as long as a packet's values.

On the wire: how many blocks, their numbers, their values; all as 32-bit words, the last block padded with zeros.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from traffic.packer import PROTECTED_BELOW, mean_magnitudes
from traffic.wire import IPV4_VALUES

Values = NDArray[np.float32]


def choose(values: Values, share: float) -> NDArray[np.bool_]:
    """Return which blocks are the `share` of largest mean |g|, shape (blocks,); of at most 8 all.

    A rank among so few says nothing, and a last layer is small and cannot be done without: where an eighth of it
    travels, a training comes to 79 % that comes to 88 with all of it (docs/demo.md).
    """
    magnitudes = mean_magnitudes(values, IPV4_VALUES)
    kept = round(share * len(magnitudes)) if len(magnitudes) > PROTECTED_BELOW else len(magnitudes)
    chosen = np.zeros(len(magnitudes), np.bool_)
    chosen[np.argsort(-magnitudes, kind="stable")[:kept]] = True
    return chosen


def encode(values: Values, chosen: NDArray[np.bool_]) -> Values:
    """Return the chosen blocks of flat values as words."""
    padded = np.zeros(len(chosen) * IPV4_VALUES, np.float32)
    padded[: values.size] = values
    numbers = np.flatnonzero(chosen).astype(np.uint32)
    head = np.concatenate([np.array([len(numbers)], np.uint32), numbers]).view(np.float32)
    return np.concatenate([head, padded.reshape(-1, IPV4_VALUES)[chosen].reshape(-1)])


def decode(words: Values, size: int) -> tuple[Values, NDArray[np.bool_]]:
    """Return `size` values, zero where no block came, and which blocks came. Raises ValueError for other words."""
    blocks = -(-size // IPV4_VALUES)
    count = int(words[:1].view(np.uint32)[0]) if words.size else -1
    if not 0 <= count <= blocks or words.size != 1 + count * (1 + IPV4_VALUES):
        raise ValueError(f"{words.size} words are no blocks of {size} values")
    numbers = words[1 : 1 + count].view(np.uint32)
    if count and int(numbers.max()) >= blocks:
        raise ValueError(f"block {numbers.max()} is beyond {size} values")
    padded = np.zeros((blocks, IPV4_VALUES), np.float32)
    padded[numbers] = words[1 + count :].reshape(count, IPV4_VALUES)
    there = np.zeros(blocks, np.bool_)
    there[numbers] = True
    return padded.reshape(-1)[:size], there
