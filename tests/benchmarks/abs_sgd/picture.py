# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Draws the curves of the study."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.benchmarks.abs_sgd.methods import BASELINES, TARGETS, Setting
from tests.benchmarks.abs_sgd.study import ALL, FIXED, HEADLINE, Row, Speedup
from traffic.report import GRID, INK, QUIET, SURFACE
from traffic.training.cluster import CLUSTERS

COLORS = {
    "synchronous": "#8a8984", "lb_bsp": "#52514e", "delayed": "#e8a33d", "delayed_balanced": "#b3541e",
    "local_delayed": "#9b6bc9", "abs_sgd": "#2a78d6", "abs_sgd_fitted": "#1c9aa0", "abs_sgd_compensated": "#0b3d91",
    "abs_sgd_local": "#c2185b",
}  # fmt: skip


def draw(rows: list[Row], speedups: list[Speedup], path: Path) -> None:
    """Plot accuracy over time for each cluster in both comparisons, and the speedups."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    style = {
        "figure.facecolor": SURFACE, "axes.facecolor": SURFACE, "axes.edgecolor": GRID, "axes.labelcolor": QUIET,
        "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left", "axes.titlesize": 10,
        "xtick.color": QUIET, "ytick.color": QUIET, "text.color": INK, "font.size": 8, "legend.frameon": False,
        "axes.axisbelow": True,
    }  # fmt: skip
    with pyplot.rc_context(style):
        figure, grid = pyplot.subplots(3, len(CLUSTERS), figsize=(15, 11), layout="constrained")
        for line, comparison in enumerate((FIXED, ALL)):
            for axes, cluster in zip(grid[line], CLUSTERS, strict=True):
                _curves(axes, [row for row in rows if _shown(row, comparison, cluster)], cluster, comparison)
        for axes, cluster in zip(grid[2], CLUSTERS, strict=True):
            _ratios(axes, [s for s in speedups if s.setting.cluster == cluster], cluster)
        for place, line, columns in (("upper", grid[0], 9), ("lower", grid[2], 6)):
            legends = [axes.get_legend_handles_labels() for axes in line]
            figure.legend(
                *max(legends, key=lambda legend: len(legend[1])), loc=f"outside {place} center", ncols=columns
            )
        figure.savefig(path, dpi=120)
        pyplot.close(figure)


def _shown(row: Row, comparison: str, cluster: str) -> bool:
    setting = row.setting
    return setting == Setting("mlp", 4, cluster, HEADLINE) and row.comparison == comparison


def _curves(axes: Any, rows: list[Row], cluster: str, comparison: str) -> None:
    for row in rows:
        times, accuracy = row.curve
        line = "--" if row.family in BASELINES else "-"
        axes.plot(times, accuracy, line, color=COLORS[row.family], label=row.family, linewidth=1.3)
    axes.axhline(TARGETS["mlp"], color=QUIET, linewidth=0.8)
    reached = [row.mean for row in rows if row.mean < float("inf")]
    axes.set(title=f"{cluster}, {comparison}", xlabel="virtual seconds", ylim=(0.6, 0.92))
    axes.set_xlim(0, 1.2 * sorted(reached)[-2] if len(reached) > 1 else None)
    axes.set_ylabel("accuracy held out, mean of 5 seeds")


def _ratios(axes: Any, speedups: list[Speedup], cluster: str) -> None:
    for comparison, color in ((FIXED, COLORS["abs_sgd"]), (ALL, COLORS["abs_sgd_compensated"])):
        for model, workers, mark, aside in (("mlp", 4, "o-", 1.0), ("mlp", 16, "s", 0.87), ("cnn", 4, "^", 1.15)):
            points = sorted(
                (s.setting.ratio * aside, s.value)
                for s in speedups
                if s.setting == Setting(model, workers, cluster, s.setting.ratio) and s.comparison == comparison
            )
            if points:
                label = f"{comparison}, {model}, {workers} workers"
                axes.plot(*zip(*points, strict=True), mark, color=color, label=label, markersize=5)
    axes.axhline(1, color=QUIET, linewidth=0.8)
    axes.set_xscale("log", base=2)
    axes.set_ylim(0, 1.08 * max([1, *(s.value for s in speedups)]))
    axes.set(title=f"{cluster}: speedup", xlabel="T_sync / T_compute")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.grid(axis="y", color=GRID)
