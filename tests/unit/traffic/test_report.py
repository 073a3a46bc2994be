# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The run's report: the same figures in summary.json, in the tables and in the plot."""

import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import matplotlib
import pytest
from matplotlib import pyplot
from PIL import Image
from rich.console import Console

from traffic.live import Round
from traffic.replay.summary import Share, Summary
from traffic.replay.tables import bar, percent, replay_report
from traffic.report import Delay, RunReport, Training, _draw_paths, progress, show, write

matplotlib.use("Agg")

SUMMARY = Summary(
    total=Share(8000, 6200),
    trimmed=3,
    altered=0,
    duplicates=0,
    foreign=0,
    host_drops=0,
    by_importance=tuple(Share(1000, delivered) for delivered in (0, 200, 1000, 1000, 1000, 1000, 1000, 1000)),
    most_important_quarter=Share(2000, 2000),
    by_layer={0: Share(6000, 4500), 1: Share(2000, 1700)},
    by_class={6: Share(6000, 4500), 5: Share(2000, 1700)},
    ordinary=Share(0, 0),
    reordered=0.25,
    reordering_extent=31,
    offered_bps=1.2e8,
    late_us=90.0,
)
REPORT = RunReport(
    topology="leaf_spine",
    policy="dlcp",
    target="softswitch",
    startup_s=4.25,
    overload=0.3,
    delivery=SUMMARY,
    congested="leaf2 → h5",
    queue_delay_us={6: Delay(1900, 3000, 4500), 5: Delay(2000, 240000, 1700)},
    paths={
        "round_robin": {"leaf1": {"spine1": 0.51, "spine2": 0.49}},
        "flow_hash": {"leaf1": {"spine1": 0.75, "spine2": 0.25}},
    },
    drops={"importance": 1790, "full": 0},
)


def shown(part: object) -> str:
    text = io.StringIO()
    Console(file=text, width=120).print(part)
    return text.getvalue()


def test_summary_has_the_promised_keys(tmp_path: Path) -> None:
    write(REPORT, tmp_path / "run")
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["delivered"]["importance"] == [0, 0.2, 1, 1, 1, 1, 1, 1]
    assert summary["delivered"]["class"] == {"6": 0.75, "5": 0.85}
    assert summary["delivered"]["most_important_quarter"] == 1
    assert summary["queue_delay_us"]["6"]["p50"] == 1900
    assert summary["queue_delay_us"]["5"]["p99"] == 240000
    assert summary["paths"]["flow_hash"]["leaf1"]["spine1"] == 0.75
    assert summary["drops"] == {"importance": 1790, "full": 0, "unaccounted": 7}
    assert summary["startup_s"] == 4.25


def test_a_live_training_is_part_of_the_summary(tmp_path: Path) -> None:
    rounds = [Round(0, 0.4, 2.3, 0.1, 0.0), Round(1, 0.9, 0.8, 0.75, 0.125)]
    bands = [[100] * 8, [40, 20, 0, 0, 0, 0, 0, 0]]
    ranks = [{"values": 1000, "lost_values": 60, "bands": bands}, {"values": 1000, "lost_values": 40, "bands": bands}]
    report = replace(REPORT, training=Training.of("mnist", 0.2, rounds, ranks))
    write(report, tmp_path)
    training = json.loads((tmp_path / "summary.json").read_text())["training"]
    assert (training["workers"], training["rounds"], training["accuracy"], training["lost"]) == (2, 2, 0.75, 0.05)
    assert training["lost_by_importance"] == [0.4, 0.2, 0, 0, 0, 0, 0, 0]
    assert training["curve"][1]["lost"] == 0.125
    text = io.StringIO()
    show(report, Console(file=text, width=200))
    assert (
        "2 rounds in 1 s, loss 2.30 to 0.80, accuracy 75.00 %, 5.00 % of the gradients' values lost" in text.getvalue()
    )
    assert "round   2  loss 0.800  accuracy  75.0 %  lost 12.5 %" in progress(rounds[1])


def test_plot_is_drawn_with_something_on_it(tmp_path: Path) -> None:
    write(REPORT, tmp_path)
    with Image.open(tmp_path / "summary.png") as image:
        assert image.width > 1000
        assert len(image.getcolors(1 << 24)) > 20


@pytest.mark.parametrize("count", [4, 8, 24])
def test_names_of_paths_do_not_cover_each_other(count: int) -> None:
    shares = {f"switch{number}": {f"core{number}": 0.5, f"core{number}b": 0.5} for number in range(count // 2)}
    figure = pyplot.figure(figsize=(10, 6.4), layout="constrained")
    axes = figure.subplots(2, 2)[1][1]
    _draw_paths(axes, replace(REPORT, paths={"round_robin": shares}))
    figure.canvas.draw()
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    pyplot.close(figure)
    assert len(boxes) == count
    assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))


def test_plot_is_drawn_for_a_run_without_choice_of_path_or_class(tmp_path: Path) -> None:
    bare = replace(REPORT, paths={}, queue_delay_us={}, delivery=replace(SUMMARY, by_class={}))
    write(bare, tmp_path)
    assert (tmp_path / "summary.png").stat().st_size > 0
    assert bare.delay_ratio is None
    assert bare.uneven("round_robin") is None


def test_delays_of_classes_that_nobody_sent_do_not_count() -> None:
    trimmed = {**REPORT.queue_delay_us, 7: Delay(10, 20, 100)}
    assert replace(REPORT, queue_delay_us=trimmed).delay_ratio == REPORT.delay_ratio == 80


def test_findings_say_what_holds_and_what_does_not() -> None:
    text = io.StringIO()
    show(REPORT, Console(file=text, width=120))
    assert "✓ most important quarter delivered: 100 %" in text.getvalue()
    assert "✓ p99 queueing delay of the lowest class is 80 times" in text.getvalue()
    assert "✓ round_robin: within 2.0% of an even split" in text.getvalue()
    assert "flow_hash: 50% off" in text.getvalue()
    assert "importance" in text.getvalue()
    assert "busy" not in text.getvalue()
    late = io.StringIO()
    show(replace(REPORT, delivery=replace(SUMMARY, late_us=90_000.0)), Console(file=late, width=120))
    assert "a burst left 90 ms late" in late.getvalue()
    worse = replace(REPORT, delivery=replace(SUMMARY, most_important_quarter=Share(2000, 1900)))
    text = io.StringIO()
    show(worse, Console(file=text, width=120))
    assert "✗ most important quarter delivered: 95.00 %" in text.getvalue()


@pytest.mark.parametrize(
    ("share", "text"), [(None, "-"), (1.0, "100 %"), (0.99999, "99.99 %"), (0.5, "50.00 %"), (0.0, "0.00 %")]
)
def test_a_share_is_never_rounded_up_to_all(share: float | None, text: str) -> None:
    assert percent(share) == text


def test_bars_are_as_long_as_their_share() -> None:
    assert [len(bar(share)) for share in (None, 0, 0.5, 1)] == [0, 0, 12, 24]


def test_replay_report_shows_what_there_is() -> None:
    text = shown(replay_report(SUMMARY, {"leaf1": {"spine1": 1.0}}))
    for part in ("8,000 packets", "trimmed 3", "Delivered by layer", "Delivered by class", "spine1", "by 31 at most"):
        assert part in text
    ordinary = replace(SUMMARY, by_layer={}, by_class={}, ordinary=Share(10, 9))
    assert "Delivered by" not in shown(replay_report(ordinary, None))
