# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What `make run` shows: tables, one plot and build/run/summary.json, all of the same figures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console, Group
from rich.table import Table

from traffic.live import Round
from traffic.replay.observe import PathShares
from traffic.replay.summary import Summary
from traffic.replay.tables import class_table, importance_table, path_table, percent

OBJECTIVE_DELIVERED = 0.999
OBJECTIVE_DELAY_RATIO = 5
OBJECTIVE_SPRAY = 0.05
UNACCOUNTED = "unaccounted"
LATE_US = 20_000
"""Senders later than this make bursts of their own: the machine is too busy for the figures to be the fabric's."""


@dataclass(frozen=True)
class Delay:
    """Queueing delay of one class on one link, in microseconds."""

    p50: float
    p99: float
    packets: int


@dataclass(frozen=True)
class Training:
    """A training that ran live over the fabric."""

    workload: str
    workers: int
    tolerance: float
    """Share of the gradients' values that may be lost."""
    rounds: tuple[Round, ...]
    lost: float
    """Share of the gradients' values that was lost."""
    lost_by_importance: tuple[float, ...]
    """Share of the packets that was lost, by band of importance, least first."""

    @staticmethod
    def of(workload: str, tolerance: float, rounds: Sequence[Round], ranks: Sequence[Mapping[str, Any]]) -> Training:
        """Return the training of which each rank told its counts (traffic/live.py)."""
        packets, lost = np.sum([rank["bands"] for rank in ranks], axis=0)
        return Training(
            workload,
            len(ranks),
            tolerance,
            tuple(rounds),
            sum(rank["lost_values"] for rank in ranks) / max(sum(rank["values"] for rank in ranks), 1),
            tuple((lost / np.maximum(packets, 1)).tolist()),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        last = self.rounds[-1]
        return {
            "workload": self.workload,
            "workers": self.workers,
            "tolerance": self.tolerance,
            "rounds": len(self.rounds),
            "seconds": last.seconds,
            "loss": last.loss,
            "accuracy": last.accuracy,
            "lost": self.lost,
            "lost_by_importance": self.lost_by_importance,
            "curve": [asdict(told) for told in self.rounds],
        }


@dataclass(frozen=True)
class RunReport:
    """One run: an incast under the policy, and the same for a shorter time with one path per flow."""

    topology: str
    policy: str
    target: str
    startup_s: float
    overload: float
    """Offered load of the last link while workers send, minus 1."""
    delivery: Summary
    congested: str
    """The link on which most was dropped."""
    queue_delay_us: Mapping[int, Delay]
    """By class, on that link."""
    paths: Mapping[str, PathShares]
    """By path mode."""
    drops: Mapping[str, int]
    """Packets by reason, as the programs of all switches counted them."""
    training: Training | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the content of summary.json."""
        return {
            "topology": self.topology,
            "policy": self.policy,
            "target": self.target,
            "startup_s": round(self.startup_s, 3),
            "overload": self.overload,
            **self.delivery.as_dict(),
            "congested": self.congested,
            "queue_delay_us": {
                str(class_): {"p50": delay.p50, "p99": delay.p99, "packets": delay.packets}
                for class_, delay in self.queue_delay_us.items()
            },
            "paths": self.paths,
            "drops": {**self.drops, UNACCOUNTED: self.unaccounted},
            "training": self.training and self.training.as_dict(),
        }

    @property
    def unaccounted(self) -> int:
        """Packets that neither arrived nor were dropped for a reason: lost before a program saw them."""
        seen = self.delivery.trimmed + self.delivery.altered + self.delivery.host_drops + sum(self.drops.values())
        return max(0, self.delivery.total.sent - self.delivery.total.delivered - seen)

    @property
    def delay_ratio(self) -> float | None:
        """p99 of the lowest class that was sent over p99 of the highest; None without two classes that waited."""
        data = sorted(self.queue_delay_us.keys() & self.delivery.by_class.keys())
        if len(data) < 2 or not self.queue_delay_us[data[-1]].p99:
            return None
        return self.queue_delay_us[data[0]].p99 / self.queue_delay_us[data[-1]].p99

    def uneven(self, mode: str) -> float | None:
        """Return how far a mode's shares are from an even split, as a share of it; None if nothing was chosen."""
        gaps = [abs(share * len(hops) - 1) for hops in self.paths.get(mode, {}).values() for share in hops.values()]
        return max(gaps, default=None)


def write(report: RunReport, folder: Path) -> None:
    """Write summary.json and summary.png into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "summary.json").write_text(json.dumps(report.as_dict(), indent=2) + "\n", encoding="utf-8")
    draw(report, folder / "summary.png")


def show(report: RunReport, console: Console) -> None:
    """Print the report."""
    total = report.delivery.total
    console.print(
        f"\n[bold]{total.sent:,} gradient packets[/bold] sent, {total.delivered:,} delivered bit-exact "
        f"({percent(total.share)}); the last link {report.overload:.0%} overloaded while workers send\n"
    )
    for part in (
        importance_table(report.delivery),
        class_table(report.delivery),
        delay_table(report),
        drop_table(report),
        *(path_table(paths, f"Share per path, {mode}") for mode, paths in report.paths.items() if paths),
        findings(report),
    ):
        console.print(part)


def delay_table(report: RunReport) -> Table:
    """Return the queueing delay of every class on the congested link, the one that is served first first."""
    table = Table(title=f"Queueing delay, {report.congested}", title_justify="left")
    for column in ("class", "p50", "p99", "packets"):
        table.add_column(column, justify="right")
    for class_, delay in sorted(report.queue_delay_us.items(), reverse=True):
        table.add_row(str(class_), milliseconds(delay.p50), milliseconds(delay.p99), f"{delay.packets:,}")
    return table


def drop_table(report: RunReport) -> Table:
    """Return the drops by reason."""
    table = Table(title="Drops by reason", title_justify="left")
    table.add_column("reason")
    table.add_column("packets", justify="right")
    for reason, packets in {**report.drops, UNACCOUNTED: report.unaccounted}.items():
        table.add_row(reason, f"{packets:,}")
    return table


def findings(report: RunReport) -> Group:
    """Return one line for each thing that the fabric promises, with what it did."""
    quarter, ratio = report.delivery.most_important_quarter.share, report.delay_ratio
    lines = []
    if quarter is not None:
        lines.append(
            _line(
                quarter >= OBJECTIVE_DELIVERED,
                f"most important quarter delivered: {percent(quarter)} (at least 99.9 %)",
            )
        )
    if ratio is not None:
        text = f"p99 queueing delay of the lowest class is {ratio:.0f} times the highest's (at least 5)"
        lines.append(_line(ratio >= OBJECTIVE_DELAY_RATIO, text))
    for mode in report.paths:
        gap = report.uneven(mode)
        if gap is not None and mode != "flow_hash":
            lines.append(_line(gap <= OBJECTIVE_SPRAY, f"{mode}: within {gap:.1%} of an even split (at most 5 %)"))
        elif gap is not None:
            lines.append(f"  {mode}: {gap:.0%} off an even split")
    if report.delivery.late_us > LATE_US:
        lines.append(
            f"[yellow]![/yellow] this machine is busy: a burst left {milliseconds(report.delivery.late_us)} late, "
            "and late bursts make queues of their own"
        )
    if (training := report.training) is not None:
        first, last = training.rounds[0], training.rounds[-1]
        lines.append(
            f"  trained live with {training.workers} workers: {len(training.rounds)} rounds in {last.seconds:.0f} s, "
            f"loss {first.loss:.2f} to {last.loss:.2f}, accuracy {percent(last.accuracy)}, "
            f"{percent(training.lost)} of the gradients' values lost"
        )
    return Group(*lines)


def progress(told: Round) -> str:
    """Return a line on a round of a live training."""
    return (
        f"  {told.seconds:5.1f} s  round {told.round + 1:3}  loss {told.loss:.3f}  "
        f"accuracy {100 * told.accuracy:5.1f} %  lost {100 * told.lost:4.1f} %"
    )


def milliseconds(microseconds: float) -> str:
    """Write a delay in ms, as precise as its histogram."""
    return f"{_short(microseconds / 1e3)} ms"


def _short(value: float) -> str:
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def _line(holds: bool, text: str) -> str:
    return f"[green]✓[/green] {text}" if holds else f"[red]✗[/red] {text}"


SURFACE, INK, QUIET, GRID = "#fcfcfb", "#0b0b0b", "#52514e", "#e1e0d9"
FIRST, SECOND = "#2a78d6", "#eda100"
SIDE_BY_SIDE = 4  # names of paths that find room beside each other


def draw(report: RunReport, path: Path) -> None:
    """Plot the report: delivery by importance and by class, queueing delay by class, share per path."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with pyplot.rc_context({
        "figure.facecolor": SURFACE, "axes.facecolor": SURFACE, "axes.edgecolor": GRID, "axes.labelcolor": QUIET,
        "axes.spines.top": False, "axes.spines.right": False, "axes.titlelocation": "left", "axes.titleweight": "bold",
        "axes.titlesize": 11, "axes.axisbelow": True, "xtick.color": QUIET, "ytick.color": QUIET, "text.color": INK,
        "font.size": 9, "legend.frameon": False,
    }):  # fmt: skip
        figure, ((importance, classes), (delay, paths)) = pyplot.subplots(2, 2, figsize=(10, 6.4), layout="constrained")
        figure.suptitle(
            f"{report.policy} on {report.topology} ({report.target}), last link {report.overload:.0%} overloaded",
            x=0.01, ha="left", fontsize=12,
        )  # fmt: skip
        _draw_importance(importance, report)
        _draw_classes(classes, report)
        _draw_delay(delay, report)
        _draw_paths(paths, report)
        figure.savefig(path, dpi=130)
        pyplot.close(figure)


def _draw_importance(axes: Any, report: RunReport) -> None:
    shares = [100 * (band.share or 0) for band in report.delivery.by_importance]
    bars = axes.bar(range(len(shares)), shares, width=0.8, color=FIRST)
    axes.bar_label(bars, [">99" if 99 < share < 100 else f"{share:.0f}" for share in shares], color=QUIET, padding=2)
    axes.set(title="Delivered by importance, %", xlabel="eighth of the packets, least to most important", ylim=(0, 112))
    axes.set_yticks([0, 50, 100])
    axes.grid(axis="y", color=GRID)


def _draw_classes(axes: Any, report: RunReport) -> None:
    classes = sorted(report.delivery.by_class, reverse=True)
    shares = [100 * (report.delivery.by_class[class_].share or 0) for class_ in classes]
    names = [f"class {class_}" for class_ in classes]
    bars = axes.bar(names, shares, width=0.6, color=FIRST)
    axes.bar_label(bars, [f"{share:.1f}" for share in shares], color=QUIET, padding=2)
    axes.set(title="Delivered by class, %", xlabel="served first to last", ylim=(0, 112))
    axes.set_yticks([0, 50, 100])
    axes.grid(axis="y", color=GRID)


def _draw_delay(axes: Any, report: RunReport) -> None:
    classes = sorted(report.queue_delay_us, reverse=True)
    for offset, name, color in ((-0.2, "p50", FIRST), (0.2, "p99", SECOND)):
        values = [getattr(report.queue_delay_us[class_], name) / 1e3 for class_ in classes]
        bars = axes.bar([place + offset for place in range(len(classes))], values, width=0.38, color=color, label=name)
        axes.bar_label(bars, [_short(value) for value in values], color=QUIET, padding=2)
    axes.set_xticks(range(len(classes)), [f"class {class_}" for class_ in classes])
    axes.set(title=f"Queueing delay, {report.congested}, ms", xlabel="served first to last")
    if any(delay.p99 > 0 for delay in report.queue_delay_us.values()):
        axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.margins(y=0.15)
    axes.grid(axis="y", color=GRID)
    axes.legend()


def _draw_paths(axes: Any, report: RunReport) -> None:
    modes = list(report.paths)
    rows = [(switch, hop) for switch, hops in next(iter(report.paths.values()), {}).items() for hop in hops]
    for number, mode in enumerate(modes):
        offset = (number - (len(modes) - 1) / 2) * 0.4
        values = [100 * report.paths[mode].get(switch, {}).get(hop, 0) for switch, hop in rows]
        color = (FIRST, SECOND)[number % 2]
        places = [place + offset for place in range(len(rows))]
        bars = axes.bar(places, values, width=0.38, color=color, label=mode)
        if len(rows) <= 3 * SIDE_BY_SIDE:
            axes.bar_label(bars, [f"{value:.0f}" for value in values], color=QUIET, padding=2)
    axes.set_xticks(range(len(rows)), [f"{switch} → {hop}" for switch, hop in rows])
    if len(rows) > SIDE_BY_SIDE:
        axes.tick_params(axis="x", labelrotation=90, labelsize=7)
    axes.set(title="Share per path, %", ylim=(0, 112))
    axes.set_yticks([0, 50, 100])
    axes.grid(axis="y", color=GRID)
    if modes:
        axes.legend()
