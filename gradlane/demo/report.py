# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the demo shows: tables on the terminal, summary.json, and one HTML page with the same figures and the curves."""

from __future__ import annotations

import html
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from gradlane.demo.plan import BASELINES, METHODS, OURS
from gradlane.demo.statistics import ROUNDS_FOR_P99, Training

BEST_GOAL, P99_GOAL, REMOVED_GOAL, RING_GOAL = 1.84, 2.5, 0.80, 1.11
COLOURS = ("#8a8a83", "#c0392b", "#eda100", "#7d5ba6", "#2e9e6b", "#5aa9e6", "#7fb069", "#3b6fb6", "#2a78d6", "#e07a5f")


def cells(row: Mapping[str, Any]) -> list[str]:
    """Return a row of the table as text."""
    times, importance = row["round_s"], row["loss"].get("by_importance")
    lost = sum(pair[1] for pair in importance) / sum(pair[0] for pair in importance) if importance else 0.0
    background = row["background"]
    return [
        _where(row),
        METHODS[row["method"]].title + (" *" if row["composed"] else ""),
        *(f"{times[key] * 1e3:.0f}" for key in ("mean", "p50", "p95", "p99")),
        *(_seconds(row["tta_s"][target]) for target in row["tta_s"]),
        "/".join(_count(row["rounds_to"][target]) for target in row["rounds_to"]),
        f"{row['accuracy']['mean']:.1%} ± {row['accuracy']['std']:.1%}",
        f"{lost:.1%}",
        f"{row['bytes'] / 1e6:.2f}",
        f"{background['goodput_bps'] / 1e6:.1f}" if background else "",
        f"{background['complete']:.0%}" if background else "",
        "/".join(_milliseconds(background[f"completion_p{share}_s"]) for share in (50, 99)) if background else "",
    ]


def heads(row: Mapping[str, Any]) -> list[str]:
    """Return the table's headings."""
    targets = [f"{float(target):.0%} after, s" for target in row["tta_s"]]
    return [
        "case, level", "method", "round, ms", "p50", "p95", "p99", *targets, "rounds", "final accuracy", "lost",
        "MB sent a round", "background, Mbit/s", "complete", "completion p50/p99, ms",
    ]  # fmt: skip


def show(summary: Mapping[str, Any], console: Console) -> None:
    """Print the tables and the findings."""
    table = Table(title="Training under congestion", title_justify="left")
    for head in heads(summary["rows"][0]):
        table.add_column(head, justify="left" if head in ("case, level", "method") else "right")
    for row in summary["rows"]:
        table.add_row(*cells(row))
    console.print(table)
    for line in summary["findings"]:
        console.print(line, markup=False)


def findings(summary: Mapping[str, Any]) -> list[str]:
    """Say which goals are met and by how much the others are missed, which checks failed, and what is too thin."""
    lines: list[str] = []
    for case, figures in summary["cases"].items():
        for level, found in figures["levels"].items():
            lines += _findings(f"{case}, {level}", level, figures["ratios"], found)
    lines += [f"unfair: {text}" for text in summary["unfair"]]
    lines += [f"check: {text}" for text in summary["checks"]]
    lines += [f"without a network, {row}" for row in map(_swept, summary.get("tolerance", []))]
    if any(row["composed"] for row in summary["rows"]):
        lines.append("* few rounds: time to accuracy is composed of its mean round and an exact method's rounds")
    thin = [row for row in summary["rows"] if row["rounds"] < ROUNDS_FOR_P99]
    if thin:
        fewest = min(row["rounds"] for row in thin)
        lines.append(f"too thin to quote: p99 (from {fewest} rounds; {ROUNDS_FOR_P99} are needed)")
    if len(summary["seeds"]) < 3:
        lines.append(f"too thin to quote: times to accuracy and their spread ({len(summary['seeds'])} seed)")
    return lines


def _findings(where: str, level: str, ratios: Mapping[str, Any], found: Mapping[str, Any]) -> list[str]:
    lines = []
    goals = level == "heavy"
    if congestion := found.get("congestion"):
        title, fastest = (METHODS[congestion[key]].title for key in ("baseline", "fastest"))
        lines.append(
            f"{where}: congestion: {title}, on which TCP is tuned, takes {congestion['factor']:.2f} times its "
            f"uncongested round (wanted about {congestion['wanted']}); the fastest baseline is {fastest}"
        )
    reached = [ratio for name, ratio in ratios["tta"].get(level, {}).items() if name in BASELINES and ratio is not None]
    if reached:
        lines.append(_goal(min(reached), BEST_GOAL, f"{where}: time to accuracy, best baseline over ours", goals))
    elif level in ratios["tta"]:
        lines.append(f"{where}: not every method reached a target within its rounds, so no time to accuracy compares")
    if "removed" in found:
        lines.append(_goal(found["removed"], REMOVED_GOAL, f"{where}: share of congestion's time removed", goals))
    tails = [ratio for name, ratio in ratios["p99"].get(level, {}).items() if name in BASELINES]
    if tails:
        lines.append(_goal(min(tails), P99_GOAL, f"{where}: p99 of rounds, best baseline over ours", goals))
    if "ring" in found:
        text = f"{where}: ring, Gloo's rounds over our ring's, draw by draw"
        lines.append(_goal(found["ring"]["gain"], RING_GOAL, text, goals) + _spread(found["ring"]))
    for step in found["ablation"]:
        titles = METHODS[step["over"]].title, METHODS[step["step"]].title
        lines.append(f"{where}: '{titles[0]}' over '{titles[1]}': {step['gain']:.2f}{_spread(step)}")
    if "tcp_priority" in found:
        gain = found["tcp_priority"]
        lines.append(f"{where}: TCP without over with priority and pieces: {gain['gain']:.2f}{_spread(gain)}")
    busiest = ", ".join(f"{part['part']} {part['share']:.0%} ({part['method']})" for part in found["busiest"])
    lines.append(f"{where}: at most so much of a processor, and what is of several of all processors: {busiest}")
    if "compressed" in found:
        over = ", ".join(f"{key} {ratio:.2f}" for key, ratio in found["compressed"].items())
        lines.append(f"{where}: 16x compressed, top-k over TCP over ours: {over}")
    return lines


def _spread(gain: Mapping[str, Any]) -> str:
    least, most = gain["spread"]
    return f" ({least:.2f} to {most:.2f} over draws)"


def _swept(row: Mapping[str, Any]) -> str:
    means = f", {row['left_out']:.0%} of the means left out" if row["left_out"] else ""
    feedback = ", error feedback" if row["error_feedback"] else ""
    rounds = "/".join(_count(count) for count in row["rounds_to"].values())
    return f"{row['share']:.0%} lost, {row['lost']}{means}{feedback}: {rounds} rounds, {row['accuracy']:.1%}"


def write(summary: Mapping[str, Any], trainings: Sequence[Training], folder: Path) -> None:
    """Write summary.json and report.html into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_finite(summary), indent=2, allow_nan=False)
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    (folder / "report.html").write_text(page(summary, trainings), encoding="utf-8")


def page(summary: Mapping[str, Any], trainings: Sequence[Training]) -> str:
    """Return one self-contained HTML page."""
    rows = summary["rows"]
    head = "".join(f"<th>{html.escape(text)}</th>" for text in heads(rows[0]))
    body = "".join(
        f'<tr class="{"ours" if row["method"] == OURS else ""}">'
        + "".join(f"<td>{html.escape(text)}</td>" for text in cells(row))
        + "</tr>"
        for row in rows
    )
    said = "".join(f"<li>{html.escape(text)}</li>" for text in summary["findings"])
    told = "".join(f"<li>{html.escape(text)}</li>" for text in summary["conditions"])
    drawn = dict.fromkeys((training.model, training.compute, training.level) for training in trainings)
    plots = "".join(f"<figure>{curves(trainings, *which)}</figure>" for which in drawn)
    losses = "".join(_loss_table(row) for row in rows if row["loss"])
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Gradlane: training under congestion</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #0b0b0b; background: #fcfcfb; margin: 2rem auto; max-width: 84rem;
  padding: 0 1rem }}
h1 {{ font-size: 1.5rem }} h2 {{ font-size: 1.1rem; margin-top: 2rem }}
table {{ border-collapse: collapse; font-size: 13px }} th, td {{ padding: .3rem .6rem; text-align: right;
  border-bottom: 1px solid #e1e0d9; white-space: nowrap }} th {{ color: #52514e; font-weight: 600; white-space: normal;
  vertical-align: bottom }} td:nth-child(-n+2), th:nth-child(-n+2) {{ text-align: left }}
tr.ours {{ background: #eaf2fc }}
figure {{ margin: 0 }} svg {{ max-width: 100%; height: auto }} div.wide {{ overflow-x: auto }}
</style>
<h1>Gradlane: training under congestion</h1>
<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>
<h2>What this shows</h2><ul>{said}</ul>
{plots}
<h2>Loss by layer and by importance</h2>{losses or "<p>No method of this run loses anything.</p>"}
<h2>Fair play</h2><ul>{told}</ul>
</html>
"""


def curves(trainings: Sequence[Training], model: str, compute: float, level: str) -> str:
    """Return the plots of one case at one level as SVG: accuracy over time, and how rounds are distributed."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    mine = [t for t in trainings if (t.model, t.compute, t.level) == (model, compute, level)]
    where = f"{model} at {compute:g}, {level}" if compute else f"{model}, {level}"
    names = list(dict.fromkeys(training.method for training in mine))
    with pyplot.rc_context({
        "figure.facecolor": "#fcfcfb", "axes.facecolor": "#fcfcfb", "axes.edgecolor": "#e1e0d9",
        "axes.labelcolor": "#52514e", "axes.spines.top": False, "axes.spines.right": False, "font.size": 9,
        "axes.titlelocation": "left", "axes.titleweight": "bold", "xtick.color": "#52514e", "ytick.color": "#52514e",
        "legend.frameon": False, "svg.hashsalt": "gradlane",
    }):  # fmt: skip
        figure, (accuracy, rounds) = pyplot.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
        for name, colour in zip(names, _colours(names), strict=True):
            width = 2 if name == OURS else 1.2
            for place, training in enumerate(one for one in mine if one.method == name):
                curve = [(0.0, math.nan), *training.curve]
                label = METHODS[name].title if not place else None
                accuracy.plot(
                    *zip(*curve, strict=True), color=colour, label=label, linewidth=2 if name == OURS else 1.2
                )
            times = sorted(seconds * 1e3 for training in mine if training.method == name for seconds in training.rounds)
            shares = [100 * (place + 1) / len(times) for place in range(len(times))]
            rounds.step(times, shares, where="post", color=colour, linewidth=width)
        reached = [value for training in mine for _, value in training.curve]
        accuracy.set(title=f"Accuracy over time, {where}", xlabel="seconds of training", ylabel="test accuracy")
        if reached:
            accuracy.set_ylim(max(min(reached), 0.6), min(max(reached) + 0.02, 1.0))
        rounds.set(title=f"Rounds, {where}", xlabel="ms, log scale", ylabel="% no longer than this", xscale="log")
        rounds.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        rounds.xaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "235" else "")
        for axes in (accuracy, rounds):
            axes.grid(color="#e1e0d9", linewidth=0.6)
        accuracy.legend(loc="lower right")
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None})
        pyplot.close(figure)
    text = drawn.getvalue()
    return text[text.index("<svg") :]


def _colours(names: Sequence[str]) -> list[str]:
    others = iter(COLOURS)
    return ["#2a78d6" if name == OURS else next(colour for colour in others if colour != "#2a78d6") for name in names]


def _loss_table(row: Mapping[str, Any]) -> str:
    parts = []
    for key, title in (("by_layer", "layer"), ("by_importance", "eighth by importance, least first")):
        shares = [f"{pair[1] / pair[0]:.1%}" if pair[0] else "" for pair in row["loss"].get(key, [])]
        parts.append(f"<tr><td>{title}</td>" + "".join(f"<td>{share}</td>" for share in shares) + "</tr>")
    name = html.escape(f"{METHODS[row['method']].title}, {_where(row)}")
    return f"<p>{name}</p><table>{''.join(parts)}</table>"


def _goal(value: float, goal: float, text: str, stands: bool = True) -> str:
    """Say how a value compares with its goal, where one stands: the goals are the heavy level's."""
    met = "met" if value >= goal else f"missed by {1 - value / goal:.0%}"
    return f"{text}: {value:.2f}" + (f" (goal {goal:g}: {met})" if stands else "")


def _where(row: Mapping[str, Any]) -> str:
    declared = f" at {row['compute']:g}" if row["compute"] else ""
    return f"{row['model']}{declared}, {row['congestion']}"


def _seconds(value: float | None) -> str:
    return "not reached" if value is None else f"{value:.1f}"


def _count(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def _milliseconds(seconds: float | None) -> str:
    return f"{seconds * 1e3:.0f}" if seconds is not None and math.isfinite(seconds) else "-"


def _finite(value: Any) -> Any:
    """Return plain values with None for what is no finite number."""
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
