# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A replay's result as tables for people."""

from collections.abc import Iterable

from rich.console import Group
from rich.table import Table

from traffic.replay.observe import PathShares
from traffic.replay.summary import Share, Summary
from traffic.wire import BANDS

BAR_WIDTH = 24


def percent(share: float | None) -> str:
    """Write a share, 0..1, so that 99.9 % is told from 100 %."""
    if share is None:
        return "-"
    return "100 %" if share == 1 else f"{min(share, 0.9999) * 100:.2f} %"


def bar(share: float | None) -> str:
    """Draw a share, 0..1, as a bar of eighths."""
    eighths = round((share or 0) * BAR_WIDTH * 8)
    whole, part = divmod(eighths, 8)
    return "█" * whole + (" ▏▎▍▌▋▊▉"[part] if part else "")


def shares(title: str, name: str, rows: Iterable[tuple[str, Share]]) -> Table:
    """Return a table of delivered shares."""
    table = Table(title=title, title_justify="left")
    table.add_column(name, justify="right")
    for column in ("sent", "delivered", "share"):
        table.add_column(column, justify="right")
    table.add_column("", width=BAR_WIDTH, no_wrap=True)
    for label, share in rows:
        table.add_row(label, f"{share.sent:,}", f"{share.delivered:,}", percent(share.share), bar(share.share))
    return table


def importance_table(summary: Summary) -> Table:
    """Return the delivered shares by importance band, the most important first."""
    labels = {0: " (least)", BANDS - 1: " (most)"}
    rows = [(f"band {band}{labels.get(band, '')}", share) for band, share in enumerate(summary.by_importance)]
    return shares("Delivered by importance", "eighth", rows[::-1])


def class_table(summary: Summary) -> Table:
    """Return the delivered shares by class, the one that is served first first."""
    return shares("Delivered by class", "class", [(str(class_), share) for class_, share in summary.by_class.items()])


def layer_table(summary: Summary) -> Table:
    """Return the delivered shares by layer, the front one first."""
    return shares("Delivered by layer", "layer", [(str(layer), share) for layer, share in summary.by_layer.items()])


def path_table(paths: PathShares, title: str = "Share per path") -> Table:
    """Return the share of packets that each path got."""
    table = Table(title=title, title_justify="left")
    table.add_column("switch")
    table.add_column("next hop")
    table.add_column("share", justify="right")
    table.add_column("", width=BAR_WIDTH, no_wrap=True)
    for switch, hops in paths.items():
        for hop, share in hops.items():
            table.add_row(switch, hop, percent(share), bar(share))
    return table


def replay_report(summary: Summary, paths: PathShares | None) -> Group:
    """Return all that `gradctl replay` shows."""
    total = summary.total
    lines = [
        f"{total.sent:,} packets sent at {summary.offered_bps / 1e6:.1f} Mbit/s, {total.delivered:,} arrived bit-exact"
        f" ({percent(total.share)})",
        f"trimmed {summary.trimmed:,}, altered {summary.altered:,}, duplicates {summary.duplicates:,}, "
        f"not recognised {summary.foreign:,}, lost in the receiving host {summary.host_drops:,}",
        f"order: {percent(summary.reordered)} of packets were overtaken, by {summary.reordering_extent} at most",
    ]
    tables: list[Table] = []
    if summary.by_layer:
        tables += [layer_table(summary), importance_table(summary)]
    if summary.by_class:
        tables.append(class_table(summary))
    if paths:
        tables.append(path_table(paths))
    return Group(*lines, *tables)
