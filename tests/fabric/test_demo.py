# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from gradlane.demo import __main__ as demo
from gradlane.demo import plan as plans
from gradlane.demo.bed import TcpTuning
from gradlane.demo.plan import Part

pytestmark = [pytest.mark.fabric, pytest.mark.timeout(300)]


def test_a_tiny_demo_compares_tcp_with_ours_and_leaves_its_report(tmp_path: Path) -> None:
    plan = replace(
        plans.SHORT,
        parts=(Part("heavy", "cnn", 1, ("p3", "gradlane")),),
        draws=2,
        rounds=2,
        trial_rounds=1,
        rate=30e6,
        sampled=(),
        tunings=(TcpTuning("cubic", 5, 256),),
    )
    out = io.StringIO()
    summary = demo.run(plan, Console(file=out, width=250), output=tmp_path, instance=None, real_time=False)
    assert json.loads((tmp_path / "summary.json").read_text())["rows"][0]["method"] == "p3"
    assert (tmp_path / "background-heavy-cnn.json").exists()
    assert "<svg" in (tmp_path / "report.html").read_text()
    theirs, ours = summary["rows"]
    assert [row["rounds"] for row in (theirs, ours)] == [2, 2]
    assert all(row["replicas_equal"] for row in (theirs, ours))
    assert theirs["loss"] == {}
    lost = ours["loss"]["by_importance"]
    least, most = (lost[band][1] / lost[band][0] for band in (0, 7))
    assert least > 2 * most
    assert ours["bytes"] < theirs["bytes"]
    for row in (theirs, ours):
        assert row["background"]["delivered"] > 0.5
    assert "too thin to quote" in out.getvalue()
