# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What becomes of lost values: what stands in for them at the receiver, and what the sender owes from them."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from traffic.packer import PROTECTED_BELOW, mean_magnitudes
from traffic.transport.ranges import value_ranges

FEEDBACK_ABOVE = 0.1
"""Tolerance above which error feedback is on unless told otherwise."""


class Fill(Enum):
    """What replaces a lost value."""

    ZERO = "zero"
    """Nothing: the default for gradients. The fabric loses small ones, and only this goes with error feedback."""
    PREVIOUS = "previous"
    """The last round's value: the default for parameters, where zero would be absurd."""
    RESCALED = "rescaled"
    """Zero, and what arrived times all / arrived: unbiased where loss is blind to importance, else too much."""


def fill_lost(
    values: NDArray[np.float32], missing: NDArray[np.int64], fill: Fill, previous: NDArray[np.float32] | None = None
) -> None:
    """Replace the lost values of a message in place.

    `missing` holds ranges, shape (ranges, 2), as ReceiveReport has them; `previous` has the shape of `values`.
    """
    if not len(missing):
        return
    if fill is Fill.PREVIOUS:
        if previous is None or previous.shape != values.shape:
            raise ValueError("PREVIOUS needs the values of the round before, in the same shape")
        for first, end in missing:
            values[first:end] = previous[first:end]
        return
    for first, end in missing:
        values[first:end] = 0
    lost = int((missing[:, 1] - missing[:, 0]).sum())
    if fill is Fill.RESCALED and lost < values.size:
        values *= np.float32(values.size / (values.size - lost))


def least_important(values: NDArray[np.float32], per_packet: int, share: float) -> NDArray[np.int64]:
    """Return the ranges of the `share` of a flat tensor's packets with the least mean |g|, shape (ranges, 2).

    None of fewer than 8 packets: a rank among so few says nothing.
    """
    magnitudes = mean_magnitudes(values, per_packet)
    chosen = np.zeros(len(magnitudes), np.bool_)
    if len(magnitudes) >= PROTECTED_BELOW:
        chosen[np.argsort(magnitudes, kind="stable")[: int(share * len(magnitudes))]] = True
    return value_ranges(chosen, per_packet, values.size)


class ErrorFeedback:
    """Adds to a gradient what earlier rounds lost of it (EF-SGD, arXiv 1901.09847).

    The sender learns from the receiver's report which values never arrived; they are owed, and go out with the next
    round's. So nothing is lost for good, only late; but for what is not finite, which would spoil every round to come,
    and what is owed to a tensor that comes back in another size.
    """

    def __init__(self) -> None:
        self._owed: dict[Hashable, list[tuple[int, NDArray[np.float32]]]] = {}
        """What messages have lost, with the round of each."""
        self._paid: dict[Hashable, tuple[int, NDArray[np.float32]]] = {}
        """What the latest message took along of it, with its round."""

    @staticmethod
    def wanted(tolerance: float) -> bool:
        """Whether it is on by default."""
        return tolerance > FEEDBACK_ABOVE

    def add(self, tensor: Hashable, gradient: NDArray[np.float32], round: int = 0) -> NDArray[np.float32]:
        """Return what to send: the gradient, flat, with what is owed; that counts as paid until `settle` says else."""
        flat = gradient.reshape(-1)
        owed = [late for _, late in self._owed.pop(tensor, ()) if late.size == flat.size]
        self._paid.pop(tensor, None)
        if not owed:
            return flat
        late = sum(owed[1:], owed[0])
        self._paid[tensor] = round, late
        return flat + late

    def settle(self, tensor: Hashable, sent: NDArray[np.float32], missing: NDArray[np.int64], round: int = 0) -> None:
        """Take the report on what was sent: the missing ranges are owed from now on, beside what is owed already."""
        if not len(missing):
            return
        owed = np.zeros(sent.size, np.float32)
        for first, end in missing:
            owed[first:end] = sent[first:end]
        owed[~np.isfinite(owed)] = 0
        earlier = [each for each in self._owed.get(tensor, ()) if each[1].size == sent.size]
        self._owed[tensor] = [*earlier, (round, owed)]

    def fail(self, tensor: Hashable, sent: NDArray[np.float32]) -> None:
        """Owe a whole message: it did not get through."""
        self.settle(tensor, sent, np.array([[0, sent.size]]))

    def debts(self, failed: int | None = None) -> dict[Hashable, NDArray[np.float32]]:
        """Return what is owed, by tensor; with the round of a sum that `failed` for all, what was owed before it."""
        kept: dict[Hashable, list[NDArray[np.float32]]] = {}
        for tensor, owed in self._owed.items():
            kept[tensor] = [late for of, late in owed if of != failed]
        for tensor, (of, late) in self._paid.items():
            if of == failed:
                kept.setdefault(tensor, []).append(late)
        return {tensor: sum(parts[1:], parts[0]) for tensor, parts in kept.items() if parts}
