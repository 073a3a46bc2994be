# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One rank of a measured run: `python -m traffic.collectives.tacos.rank JOB RANK VALUES ROUNDS`.

Does the job's collective with tensors of whole numbers, which any order of additions sums exactly, and prints a line of
JSON: the seconds of each round since all ranks began, how many values of all rounds were wrong, how many packets were
sent again, and how many were received in vain, by reason. Ranks are on one machine, whose clock is theirs: rank 0 names
the instant at which all begin, so that nobody waits for one that is late.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import numpy.typing as npt

from topologies.errors import GradlaneError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Job
from traffic.collectives.plan import Plan

NOTICE = 0.25
"""Seconds from when rank 0 names the instant until it comes: time for all to hear of it, and to be done with that."""
CLOCK = 1
"""Number of the tensor that names it."""
MOST = 1000
"""Largest value: sums of 16,777 ranks' are exact in float32."""


def contribution(rank: int, round_number: int, count: int) -> npt.NDArray[np.float32]:
    """Return what a rank adds in a round."""
    drawn = np.random.default_rng((rank, round_number)).integers(-MOST, MOST, count)
    return drawn.astype(np.float32)


def begin_together(communicator: Communicator, round_number: int) -> float:
    """Wait until all ranks are ready and the instant comes that rank 0 names; returns it, of the monotonic clock."""
    communicator.barrier()
    parts = divmod(time.monotonic() + NOTICE, 1)  # whole seconds and the rest: each fits a float32
    named = communicator.broadcast(np.array(parts), tensor=CLOCK, round=round_number).result().values
    begin = float(named.sum(dtype=np.float64))
    time.sleep(max(begin - time.monotonic(), 0.0))
    return begin


def outcome(plan: Plan, per_packet: int, rank: int, round_number: int, count: int) -> npt.NDArray[np.float32]:
    """Return what a rank is to have in the end: of each chunk that it takes the sum of what is given, else zeros."""
    wanted = np.zeros(count, np.float32)
    bounds = plan.cut(count, per_packet, 0).tolist()
    for giver in range(plan.workers):
        given = contribution(giver, round_number, count)
        for chunk, (first, end) in enumerate(bounds):
            if plan.gives(giver, chunk) and plan.takes(rank, chunk):
                wanted[first:end] += given[first:end]
    return wanted


def main() -> None:
    """Run the rounds and print what they took."""
    file, rank, count, rounds = Path(sys.argv[1]), *map(int, sys.argv[2:5])
    seconds, wrong = [], 0
    try:
        with Communicator(Job.load(file), rank) as communicator:
            for number in range(rounds):
                values = contribution(rank, number, count)
                wanted = outcome(communicator.job.plan, communicator.job.per_packet, rank, number, count)
                begin = begin_together(communicator, number)
                found = communicator.run(values, tensor=0, round=number).result()
                seconds.append(time.monotonic() - begin)
                wrong += int((found.values != wanted).sum())
            communicator.barrier()
            counts = communicator.statistics
    except GradlaneError as error:
        sys.exit(str(error))
    again = counts.sent_packets - counts.packets
    print(json.dumps({"seconds": seconds, "wrong": wrong, "again": again, "ignored": counts.ignored}), flush=True)


if __name__ == "__main__":
    main()
