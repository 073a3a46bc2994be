# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A picture of a schedule: what every link carries when, and how many links are busy."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from topologies.errors import UsageError
from traffic.collectives.tacos.files import whole
from traffic.collectives.tacos.schedule import TICK, Schedule

SUFFIXES = (".png", ".svg")
LINKS_DRAWN = 400
INSTANTS = 400


def utilisation(schedule: Schedule, instants: int = INSTANTS) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the share of all links that is busy, averaged over each of `instants` equal parts of the time."""
    last = int(schedule.end.max(initial=1))
    edges = np.linspace(0, last, instants + 1)
    busy = np.zeros(instants + 1)
    for sign, times in ((1.0, schedule.start), (-1.0, schedule.end)):
        # The integral of a step function at every edge: for each step, how long before the edge it was.
        ordered = np.sort(times).astype(np.float64)
        count = np.searchsorted(ordered, edges)
        total = np.concatenate(([0.0], np.cumsum(ordered)))
        busy += sign * (count * edges - total[count])
    share: np.ndarray[tuple[int], np.dtype[np.float64]] = np.diff(busy) / np.diff(edges) / schedule.network.links
    return share


def draw(schedule: Schedule, file: Path) -> None:
    """Write the link-time chart (of the first links, if there are many) and the utilisation as a .png or .svg.

    Raises UsageError for another suffix, and where it cannot be written.
    """
    if file.suffix not in SUFFIXES:
        raise UsageError(f"a picture ends in {' or '.join(SUFFIXES)}", file=file)
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(2, 1, height_ratios=[3, 1])
    chart = figure.add_subplot(grid[0])
    curve = figure.add_subplot(grid[1], sharex=chart)
    shown = np.flatnonzero(schedule.link < LINKS_DRAWN)
    begin, end = schedule.start[shown] * TICK * 1e6, schedule.end[shown] * TICK * 1e6
    row = schedule.link[shown].astype(np.float64)
    corners = [(begin, row - 0.4), (end, row - 0.4), (end, row + 0.4), (begin, row + 0.4)]
    boxes = np.stack([np.stack(corner, axis=1) for corner in corners], axis=1)
    chart.add_collection(
        PolyCollection(boxes, array=schedule.chunk[shown].astype(np.float64), cmap="viridis", edgecolors="none")
    )
    chart.set(
        ylim=(-1, min(schedule.network.links, LINKS_DRAWN)),
        ylabel="link",
        title=f"{schedule.demand.collective.value} on {schedule.network.name}: {schedule.engine}, "
        f"{schedule.seconds * 1e6:,.1f} us (colour: chunk)",
    )
    share = utilisation(schedule)
    curve.stairs(share, np.linspace(0, schedule.seconds * 1e6, len(share) + 1), fill=True)
    curve.set(xlabel="time (us)", ylabel="links busy", ylim=(0, 1))
    with whole(file) as draft:
        figure.savefig(draft, dpi=110, format=file.suffix[1:])
