# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Rates and durations as people write them (`100M`, `5us`), and as the fabric counts them (bit/s, ns)."""

from __future__ import annotations

import re

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(?:bit/s|bit|bps)?")
_RATE_SCALE = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
MAX_RATE = 10**15
MAX_DURATION = 3600 * 10**9
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|ms|s)")
_DURATION_SCALE = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


def parse_rate(value: object) -> int:
    """Read a rate in bit/s: a whole number, or text such as `100M`, `1.5G`, `200 Mbit/s` (decimal prefixes).

    Raises ValueError with a message for people.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        rate: float = value
    elif isinstance(value, str) and (match := _RATE.fullmatch(value.strip())):
        rate = float(match[1]) * _RATE_SCALE[match[2]]
    else:
        raise ValueError(f"{value!r} is not a rate; write bits per second, such as 100M or 1.5G")
    if rate < 1:
        raise ValueError("a rate must be above zero; leave it out for an unlimited link")
    if rate > MAX_RATE:
        raise ValueError(f"{value!r} is above {format_rate(MAX_RATE)}bit/s, faster than any link")
    return round(rate)


def format_rate(rate_bps: int | None) -> str:
    """Write a rate shortest: 100000000 as `100M`; None, an unlimited link, as `unlimited`."""
    if rate_bps is None:
        return "unlimited"
    for letter in "TGM":
        if rate_bps >= _RATE_SCALE[letter]:
            return f"{rate_bps / _RATE_SCALE[letter]:g}{letter}"
    return f"{rate_bps / 1000:g}k" if rate_bps >= 1000 else str(rate_bps)


def parse_duration(value: object) -> int:
    """Read a duration in nanoseconds from text with a unit: `500ns`, `5us`, `1.5ms`, `1s`.

    Raises ValueError with a message for people.
    """
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        duration = float(match[1]) * _DURATION_SCALE[match[2]]
        if duration > MAX_DURATION:
            raise ValueError(f"{value!r} is longer than an hour")
        return round(duration)
    raise ValueError(f"{value!r} is not a duration; write a number and a unit, such as 5us or 1ms")
