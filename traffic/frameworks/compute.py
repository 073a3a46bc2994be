# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Declared compute time: a layer takes at least as long as said; so a small machine can stand for a large model."""

from __future__ import annotations

import time
from dataclasses import dataclass

FORWARD_SHARE = 1 / 3
"""Of a round's computing: the backward pass has two products for the forward pass's one."""


@dataclass(frozen=True)
class ComputeTime:
    """Least seconds of each layer's forward and backward pass; layers beyond the tuples take what they take.

    What a layer really computes counts, and the rest is slept: the processor is free for the others meanwhile.
    """

    forward: tuple[float, ...] = ()
    backward: tuple[float, ...] = ()

    @staticmethod
    def even(layers: int, seconds: float) -> ComputeTime:
        """Return a round of so many seconds, over layers that are alike."""
        forward = seconds * FORWARD_SHARE / layers
        return ComputeTime((forward,) * layers, (seconds / layers - forward,) * layers)

    def forward_seconds(self, layer: int) -> float:
        """Return the least seconds of a layer's forward pass."""
        return _at(self.forward, layer)

    def backward_seconds(self, layer: int) -> float:
        """Return the least seconds of a layer's backward pass."""
        return _at(self.backward, layer)


def sleep_until(moment: float) -> None:
    """Sleep until a moment of the monotonic clock, if that is still to come."""
    left = moment - time.monotonic()
    if left > 0:
        time.sleep(left)


def _at(seconds: tuple[float, ...], layer: int) -> float:
    return seconds[layer] if layer < len(seconds) else 0.0
