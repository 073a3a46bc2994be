# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The const entries of delay_bucket are those of the formula above them."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3] / "p4src/shared/delay.p4"


def _bucket(delay: int, rows: list[tuple[int, int, int]], otherwise: int) -> int:
    fitting = [(mask, bucket) for value, mask, bucket in rows if delay & mask == value]
    assert len(fitting) <= 1, f"{delay} us fits two rows"
    return fitting[0][1] if fitting else otherwise


def test_delay_buckets_follow_their_formula() -> None:
    text = SOURCE.read_text()
    rows = [
        (int(value, 16), int(mask, 16), int(bucket))
        for value, mask, bucket in re.findall(r"(0x\w+) &&& (0x\w+) : set_bucket\((\d+)\);", text)
    ]
    last = int(re.findall(r"default_action = set_bucket\((\d+)\)", text)[0])
    begins = [0] + [2 ** ((b - 1) // 4) * (16 + 4 * ((b - 1) % 4)) for b in range(1, last + 1)]
    assert begins == sorted(begins)
    for bucket, begin in enumerate(begins):
        end = begins[bucket + 1] if bucket < last else 2**32
        for delay in {begin, (begin + end) // 2, end - 1}:
            assert _bucket(delay, rows, last) == bucket, f"{delay} us"
