# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Rates and durations as people write them."""

import pytest

from topologies.units import format_rate, parse_duration, parse_rate


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("100M", 10**8),
        ("1.5G", 15 * 10**8),
        ("200 Mbit/s", 2 * 10**8),
        ("9600", 9600),
        (64000, 64000),
        ("10kbps", 10000),
    ],
)
def test_a_rate_is_read_in_bits_per_second(text: object, rate: int) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    "value", ["", "M", "-5M", "100MB", "1e9", 0, -1, True, 1.5, None, [1], 2 * 10**15, "9" * 400 + "G"]
)
def test_what_is_no_rate_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="rate|faster than any link"):
        parse_rate(value)


def test_a_rate_is_written_so_that_it_reads_back() -> None:
    for rate in (1, 999, 9600, 10**5, 10**8, 15 * 10**8, 10**12):
        assert parse_rate(format_rate(rate)) == rate
    assert format_rate(None) == "unlimited"


def test_a_duration_needs_its_unit() -> None:
    assert [parse_duration(text) for text in ("500ns", "5us", "1.5 ms", "2s")] == [500, 5000, 1_500_000, 2 * 10**9]
    for value in ("5", 5, "", "5 minutes", None):
        with pytest.raises(ValueError, match="not a duration"):
            parse_duration(value)
    for value in ("3601s", "9" * 400 + "s"):
        with pytest.raises(ValueError, match="longer than an hour"):
            parse_duration(value)
