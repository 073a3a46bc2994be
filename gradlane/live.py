# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A live training over a running fabric: workers and a parameter server in its hosts, their progress as it comes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

from topologies import processes
from topologies.errors import FailureError
from topologies.state import RunningFabric
from traffic.collectives.job import Job, Op
from traffic.hosts import End, site_of
from traffic.live import LiveSettings, Round, share
from traffic.report import Training
from traffic.transport.tolerance import Tolerance
from traffic.wire import DataType

JOB = 1
WORKLOAD, LEARNING_RATE = "mnist", 0.2
TOLERANCE = 0.2
START_SECONDS = 60.0
"""How long an end may take to say that it is ready."""
SILENCE_SECONDS = 30.0
"""How long rank 0 may take for a round."""
SHOW_SECONDS = 1.0


def job_of(running: RunningFabric, workers: tuple[str, ...], server: str) -> Job:
    """Return the job of hosts of a fabric: half-width floats, a fifth of the gradients' values may be lost."""
    fabric = running.fabric
    rate = min(site_of(running, name).line_rate for name in (*workers, server))
    return Job(
        number=JOB,
        workers=tuple(fabric.host(name).ipv4 for name in workers),
        servers=(fabric.host(server).ipv4,),
        op=Op.WEIGHTED_MEAN,
        wire=DataType.FLOAT16,
        tolerance=Tolerance(push=TOLERANCE),
        line_rate=rate if math.isfinite(rate) else 10e9,
    )


def train(
    running: RunningFabric,
    workers: tuple[str, ...],
    server: str,
    seconds: float,
    check: Callable[[], None],
    show: Callable[[Round], None],
) -> Training:
    """Train for about `seconds` and return how it went; `show` is called about once a second, and for the last round.

    `check` may raise to end it: the fabric died. Raises FailureError; ends every process that it started.
    """
    job = job_of(running, workers, server)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(processes.scratch("live", processes.environment(running.run))))
        share(WORKLOAD, folder)
        job.save(folder / "job.json")
        module, file = "traffic.collectives.server", str(folder / "job.json")
        serving = stack.enter_context(End(f"server in {server}", site_of(running, server), module, file))
        serving.expect_line(START_SECONDS, check)
        ends = []
        for rank, name in enumerate(workers):
            settings = LiveSettings(file, rank, str(folder), WORKLOAD, LEARNING_RATE, seconds)
            arguments = "traffic.live", json.dumps(asdict(settings))
            ends.append(stack.enter_context(End(f"worker in {name}", site_of(running, name), *arguments)))
        rounds: list[Round] = []
        shown, last_shown = -math.inf, None
        patience = START_SECONDS
        while "round" in (told := json.loads(ends[0].expect_line(patience, check))):
            rounds.append(Round(**told))
            patience = SILENCE_SECONDS
            if time.monotonic() - shown >= SHOW_SECONDS:
                shown, last_shown = time.monotonic(), rounds[-1]
                show(rounds[-1])
        if not rounds:
            raise FailureError("the training ended without a round")
        if last_shown is not rounds[-1]:
            show(rounds[-1])
        summaries = [told, *(json.loads(end.expect_line(START_SECONDS, check)) for end in ends[1:])]
        return Training.of(WORKLOAD, TOLERANCE, rounds, summaries)
