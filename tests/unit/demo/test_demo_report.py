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
from gradlane.demo.bed import TcpTuning
from gradlane.demo.parts import Measured, file_of, load
from gradlane.demo.plan import Part
from gradlane.demo.statistics import Segment, Training
from gradlane.demo.summary import summarise

BACKGROUND = {
    "goodput_bps": 9e7, "delivered": 0.98, "complete": 0.9, "completion_p50_s": 0.05, "completion_p99_s": float("inf")
}  # fmt: skip


def training(method: str, seconds: float, **loss: Any) -> Training:
    accuracies = [(2, 0.7), (4, 0.91), (6, 0.93)]
    cpu = {"worker": 0.1, "server": 0.1, "switches": 0.7}
    return Training(method, "heavy", 1, [Segment(np.full(6, seconds), accuracies, 1e6, loss, BACKGROUND, cpu, True)])


def summary_of(*trainings: Training) -> dict[str, Any]:
    names = tuple(training.method for training in trainings)
    part = Part("heavy", "mlp", 1, names)
    measured = Measured(part, trainings, dict.fromkeys(names, 0.5), TcpTuning())
    summary = summarise(replace(plans.SHORT, parts=(part,), sampled=()), [measured], ["fair"])
    return {**summary, "findings": report.findings(summary)}


OURS = training("gradlane", 0.6, by_layer=[[100, 40]], by_importance=[[10, 10], [10, 10], *[[10, 0]] * 6])


def test_the_summary_has_the_promised_keys() -> None:
    summary = summary_of(training("gloo", 2.0), training("p3", 1.2), OURS)
    row = summary["rows"][0]
    assert {"method", "model", "congestion", "round_s", "tta_s", "accuracy", "loss", "bytes", "background"} <= set(row)
    assert {"p50", "p95", "p99"} <= set(row["round_s"])
    assert {"mean", "std"} <= set(row["accuracy"])
    assert set(summary["ratios"]["tta"]["heavy"]) == {"gloo", "p3"}
    assert summary["ratios"]["best"] == 2.0
    heavy = summary["cases"]["mlp"]["levels"]["heavy"]
    assert heavy["congestion"] == {"baseline": "p3", "factor": 1.2 / 0.5, "wanted": 2.2, "fastest": "p3"}
    assert round(heavy["removed"], 3) == round((1.2 - 0.6) / (1.2 - 0.5), 3)


def test_findings_say_what_was_missed_and_what_is_too_thin() -> None:
    text = "\n".join(summary_of(training("p3", 0.9), OURS)["findings"])
    assert "time to accuracy, best baseline over ours: 1.50 (goal 1.84: missed by 18%)" in text
    assert "too thin to quote: p99 (from 6 rounds; 300 are needed)" in text
    assert "switches at 70% of all processors" in text


def test_the_ablation_compares_each_step_with_the_one_before_draw_by_draw() -> None:
    steps = {"transport": 1.2, "spray": 1.0, "priority": 1.0, "drop": 0.8, "gradlane": 0.6}
    summary = summary_of(*(training(name, seconds) for name, seconds in steps.items()))
    found = summary["cases"]["mlp"]["levels"]["heavy"]["ablation"]
    assert [(step["over"], step["step"], round(step["gain"], 3)) for step in found] == [
        ("transport", "spray", 1.2),
        ("spray", "priority", 1.0),
        ("priority", "drop", 1.25),
        ("drop", "gradlane", 1.333),
    ]


def test_a_case_with_declared_computing_stands_beside_the_first(tmp_path: Path) -> None:
    declared = [replace(training(name, 1.0), model="deep", compute=0.5) for name in ("ps", "p3", "gradlane")]
    part = Part("heavy", "deep", 1, ("ps", "p3", "gradlane"), 0.5)
    Measured(part, declared, dict.fromkeys(part.methods, 0.5), TcpTuning()).save(tmp_path)
    stored = load(file_of(tmp_path, part))
    assert stored.part == part
    assert [one.rounds.tolist() for one in stored.trainings] == [one.rounds.tolist() for one in declared]
    mlp = Part("heavy", "mlp", 1, ("p3", "gradlane"))
    measured = Measured(mlp, [training("p3", 1.2), OURS], dict.fromkeys(mlp.methods, 0.5), TcpTuning())
    summary = summarise(replace(plans.FULL, parts=(mlp, part)), [measured, stored], [])
    assert list(summary["cases"]) == ["mlp", "deep-0.5"]
    assert summary["ratios"]["best"] == 2.0
    assert summary["cases"]["deep-0.5"]["levels"]["heavy"]["tcp_priority"]["gain"] == 1.0


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
