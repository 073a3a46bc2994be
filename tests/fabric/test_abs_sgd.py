# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`make run JOB=abs_sgd`: workers of unequal speed over the fabric."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from gradlane.run import run_uneven
from gradlane.uneven import SPEEDS

pytestmark = pytest.mark.fabric


@pytest.mark.timeout(600)
def test_abs_sgd_workers_wait_less_than_synchronous_ones(tmp_path: Path) -> None:
    told = io.StringIO()
    synchronous, ours = run_uneven(
        "leaf_spine", "dlcp", "softswitch", Console(file=told, width=120),
        output=tmp_path, instance=None, state_path=tmp_path / "fabric.json",
    )  # fmt: skip
    fast = SPEEDS.index(max(SPEEDS))
    assert synchronous.waiting(fast) > 0.4
    assert ours.waiting(fast) < synchronous.waiting(fast) / 2
    assert ours.spent[0].updates > synchronous.spent[0].updates / synchronous.spent[0].seconds * ours.spent[0].seconds
    assert "Waiting" in told.getvalue()
    assert len(json.loads((tmp_path / "abs_sgd.json").read_text())) == 2
