# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How large a micro-batch is to be so that computing ends when the sum under way does."""

from __future__ import annotations

from math import ceil

FIRST = 4
"""Samples of a worker's first micro-batch: enough to learn its speed from."""
PART = 0.125
"""Of the time that a sum takes: no micro-batch is begun so close to its expected end, and one that is late is awaited
in micro-batches as long as this."""
RISE = 0.125
"""How much of the way the time that sums are expected to take goes up at once."""


def smoothed(before: float, latest: float) -> float:
    """Return how long a sum is expected to take, given the seconds of the latest.

    Shorter is believed at once, longer little by little: whoever aims too late makes the others' next sum late too, and
    two workers would do so in turn for ever.
    """
    return latest if not before or latest < before else before + RISE * (latest - before)


def fitted(most: int, rate: float, seconds: float, left: float) -> int:
    """Return how many samples to compute next: at most `most`, in equal parts until the sum's end; 0: wait.

    `rate` are the samples per second of the worker's best micro-batch lately, `seconds` what a sum takes since this
    worker began it, `left` what is left of so long. All are 0 at the start.
    """
    if not rate or not seconds:
        return min(most, FIRST)
    part = PART * seconds
    if abs(left) < part * (1 - 1e-9):  # whoever waited until then is not to wait for a rounding error
        return 0
    room = rate * max(left, part)
    return min(most, max(1, round(room / ceil(room / most))))
