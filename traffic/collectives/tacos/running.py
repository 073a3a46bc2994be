# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Run a schedule on a fabric that is up, with real tensors over the transport, checked and measured."""

from __future__ import annotations

import json
import math
import statistics
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from topologies import processes
from topologies.errors import FailureError, UsageError
from topologies.state import RunningFabric
from traffic.collectives.job import Job, Op
from traffic.collectives.plan import from_schedule
from traffic.collectives.tacos.files import save
from traffic.collectives.tacos.naming import FRAME_BYTES, from_fabric
from traffic.collectives.tacos.play import dependencies, timed
from traffic.collectives.tacos.schedule import Collective, Schedule
from traffic.hosts import End, site_of
from traffic.transport.tolerance import Tolerance
from traffic.wire import IPV4_VALUES

MODULE = "traffic.collectives.tacos.rank"
ROUND_SECONDS = 60.0
JOB = 40


@dataclass(frozen=True)
class Measured:
    """Runs of one collective: seconds from when all ranks were ready until the last had the sum."""

    collective: str
    seconds: tuple[float, ...]
    predicted: float | None
    """By the schedule, packet headers counted; None for a fixed algorithm."""
    again: int
    """Packets of all ranks and rounds that were sent again."""
    ignored: dict[str, int]
    """Packets that ranks received in vain, by reason."""

    @property
    def median(self) -> float:
        """The median of the runs, in seconds."""
        return statistics.median(self.seconds)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON, times in milliseconds."""
        return {
            "collective": self.collective,
            "measured_ms": self.median * 1e3,
            "all_ms": [seconds * 1e3 for seconds in self.seconds],
            "predicted_ms": None if self.predicted is None else self.predicted * 1e3,
            "of_predicted": None if self.predicted is None else self.median / self.predicted,
            "packets_again": self.again,
            "packets_ignored": self.ignored,
        }


def run(
    running: RunningFabric, collective: Schedule | str, values: int, *, hosts: list[str] | None = None, rounds: int = 5
) -> Measured:
    """Do a schedule, or sum by "ring" or "halving_doubling", with `values` float32 in the longer buffer of each host.

    Every value that a host is to have in the end is checked. The hosts of a schedule are its group's, numbered as in
    the fabric; of a fixed algorithm all, or `hosts` in this order. The first round is not counted: the transport gets
    to know the way in it. Raises UsageError for a schedule of another fabric; FailureError where a rank fails or a
    value is wrong. Ends every process that it starts.
    """
    fabric = running.fabric
    predicted: float | None = None
    if isinstance(collective, Schedule):
        if collective.network.npus != len(fabric.hosts):
            raise UsageError(
                f"the schedule is for {collective.network.npus} hosts, {fabric.name} has {len(fabric.hosts)}"
            )
        members = [fabric.hosts[npu].name for npu in collective.demand.group]
        try:
            from_schedule(pinned(collective), len(members), collective.engine)
        except UsageError as error:
            raise UsageError(f"the schedule {error.message}") from None
        collective = on_the_wire(collective, values)
        predicted = collective.seconds
        if collective.demand.collective is Collective.ALL_TO_ALL:  # a tensor that holds what each has for each
            values *= len(members)
    else:
        members = hosts or [host.name for host in fabric.hosts]
    sites = [site_of(running, name) for name in members]
    if isinstance(collective, Schedule):  # which says how fast each way is
        line_rate = max(site.line_rate for site in sites)
        if math.isinf(line_rate):
            line_rate = 8 * max(collective.network.out_rate(npu) for npu in range(collective.network.npus))
    else:  # of any way between hosts: what one peer can take at best
        line_rate = 8 * float(from_fabric(fabric).bandwidth.max())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(processes.scratch("schedule", processes.environment(running.run))))
        name = str(collective)
        if isinstance(collective, Schedule):
            name = str(folder / "schedule.npz")
            save(pinned(collective), Path(name))
        job = Job(
            number=JOB,
            workers=tuple(fabric.host(member).ipv4 for member in members),
            collective=name,
            op=Op.SUM,
            tolerance=Tolerance(push=0.0),
            line_rate=line_rate,
            patience=ROUND_SECONDS,
        )
        job.save(folder / "job.json")
        arguments = [str(values), str(rounds + 1)]
        ends = [
            stack.enter_context(End(f"rank in {site.name}", site, MODULE, str(folder / "job.json"), str(i), *arguments))
            for i, site in enumerate(sites)
        ]
        told = [json.loads(end.expect_line(ROUND_SECONDS * (rounds + 1))) for end in ends]
    if wrong := [member for member, one in zip(members, told, strict=True) if one["wrong"]]:
        raise FailureError(f"{wrong[0]} has wrong values in the end")
    seconds = tuple(max(one["seconds"][i] for one in told) for i in range(1, rounds + 1))
    label = collective.engine if isinstance(collective, Schedule) else collective
    ignored: Counter[str] = Counter()
    for one in told:
        ignored.update(one["ignored"])
    return Measured(label, seconds, predicted, sum(one["again"] for one in told), dict(ignored))


def pinned(schedule: Schedule) -> Schedule:
    """Return the schedule with every send kept to the way of its link, where the fabric has several."""
    paths = schedule.network.paths
    return schedule if paths is None else replace(schedule, path=paths[schedule.link])


def on_the_wire(schedule: Schedule, values: int) -> Schedule:
    """Return the schedule with the times that these many float32 take as packets, in the same order on every link."""
    frames = math.ceil(values / IPV4_VALUES)
    sized = replace(schedule.demand, size=frames * FRAME_BYTES)
    needs = dependencies(schedule.network, schedule)
    columns = schedule.chunk, schedule.link, schedule.reduces
    return timed(schedule.network, sized, schedule.engine, *columns, needs, priority=-schedule.start)
