# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from gradlane.demo import plan as plans
from gradlane.demo import report
from gradlane.demo.__main__ import summarise
from gradlane.demo.statistics import Segment, Training

BACKGROUND = {"goodput_bps": 9e7, "delivered": 0.98, "completion_p50_s": 0.05, "completion_p99_s": 0.1}


def training(method: str, seconds: float, **loss: Any) -> Training:
    accuracies = [(2, 0.7), (4, 0.91), (6, 0.93)]
    cpu = {"worker": 0.1, "server": 0.1, "switches": 0.7}
    return Training(method, "heavy", 1, [Segment(np.full(6, seconds), accuracies, 1e6, loss, BACKGROUND, cpu, True)])


def summary_of(*trainings: Training) -> dict[str, Any]:
    plan = replace(plans.SHORT, methods=tuple(training.method for training in trainings), sampled=())
    return summarise(plan, trainings, {training.method: 0.5 for training in trainings}, [], ["fair"])


OURS = training("gradlane", 0.6, by_layer=[[100, 40]], by_importance=[[10, 10], [10, 10], *[[10, 0]] * 6])


def test_the_summary_has_the_promised_keys() -> None:
    summary = summary_of(training("gloo", 2.0), training("p3", 1.2), OURS)
    row = summary["rows"][0]
    assert {"method", "model", "congestion", "round_s", "tta_s", "accuracy", "loss", "bytes", "background"} <= set(row)
    assert {"p50", "p95", "p99"} <= set(row["round_s"])
    assert {"mean", "std"} <= set(row["accuracy"])
    assert set(summary["ratios"]["tta"]["heavy"]) == {"gloo", "p3"}
    assert summary["ratios"]["best"] == 2.0
    assert summary["congestion"]["heavy"] == {"baseline": "p3", "factor": 1.2 / 0.5}
    assert round(summary["removed"]["heavy"], 3) == round((1.2 - 0.6) / (1.2 - 0.5), 3)


def test_findings_say_what_was_missed_and_what_is_too_thin() -> None:
    text = "\n".join(summary_of(training("p3", 0.9), OURS)["findings"])
    assert "best of the baselines over ours: 1.50 (goal 1.84: missed by 18%)" in text
    assert "too thin to quote: p99 (from 6 rounds; 300 are needed)" in text
    assert "switches at 70% of a processor" in text


def test_the_page_stands_alone_and_holds_every_method(tmp_path: Path) -> None:
    trainings = [training("p3", 1.2), OURS]
    summary = summary_of(*trainings)
    report.write(summary, trainings, tmp_path)
    assert json.loads((tmp_path / "summary.json").read_text())["ratios"]["best"] == 2.0
    page = (tmp_path / "report.html").read_text()
    assert page.count("<svg") == 1
    links = []

    class Links(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            links.extend(
                value for name, value in attrs if name in ("src", "href") and not (value or "").startswith("#")
            )

    Links().feed(page[: page.index("<svg")] + page[page.index("</svg>") :])
    assert links == []
    for training_ in trainings:
        assert plans.METHODS[training_.method].title in page


def test_the_table_prints_a_row_for_each_method() -> None:
    out = io.StringIO()
    report.show(summary_of(training("p3", 1.2), OURS), Console(file=out, width=250))
    assert plans.METHODS["p3"].title in out.getvalue()
    assert "25.0%" in out.getvalue()
