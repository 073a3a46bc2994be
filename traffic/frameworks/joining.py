# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How a training script joins its job: told by its caller, or by the environment that a launcher sets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from topologies.errors import UsageError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Job

JOB_VARIABLE = "GRADLANE_JOB"
"""Path of the job file."""
RANK_VARIABLE = "RANK"
"""As torchrun sets it."""
ROSTER_VARIABLE = "GRADLANE_ROSTER"
"""ADDRESS:PORT of a training's roster (traffic/training/roster.py)."""
ADDRESS_VARIABLE = "GRADLANE_ADDRESS"
"""Of this worker, where its host has several."""

JobLike = Job | str | os.PathLike[str] | None


def job_of(job: JobLike) -> Job:
    """Return the job that was given, or that of the file that was given, or of $GRADLANE_JOB. Raises UsageError."""
    if isinstance(job, Job):
        return job
    path = job or os.environ.get(JOB_VARIABLE)
    if not path:
        raise UsageError(f"there is no job: give job=, or the path of a job file in {JOB_VARIABLE}")
    return Job.load(Path(path))


def rank_of(rank: int | None) -> int:
    """Return the rank that was given, or $RANK. Raises UsageError."""
    if rank is not None:
        return rank
    told = os.environ.get(RANK_VARIABLE)
    if told is None:
        raise UsageError(f"there is no rank: give rank=, or set {RANK_VARIABLE}")
    if not told.isdigit():
        raise UsageError(f"{RANK_VARIABLE} is {told!r}, which is no rank")
    return int(told)


def roster_of(roster: str | None) -> tuple[str, int] | None:
    """Return address and port of the roster given, or of $GRADLANE_ROSTER; None: no roster. Raises UsageError."""
    told = roster or os.environ.get(ROSTER_VARIABLE)
    if not told:
        return None
    address, _, port = told.rpartition(":")
    if not address or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise UsageError(f"a roster is ADDRESS:PORT, not {told!r}")
    return address, int(port)


def check_size(job: Job, size: int) -> None:
    """Raise UsageError where a process group's size is not the job's."""
    if size != len(job.workers):
        raise UsageError(f"the job has {len(job.workers)} workers, but the process group has {size}")


def join(job: JobLike = None, rank: int | None = None) -> Communicator:
    """Return a communicator of the job, connected. Raises UsageError, CollectiveError where the others do not come."""
    return Communicator(job_of(job), rank_of(rank))


def layers_of(names: Sequence[str], separator: str) -> list[int]:
    """Return the layer of each parameter: those that share a name up to the last separator are of one layer.

    Layers count from 0 in the order of their first parameter: in the usual order of definition, 0 is needed first.
    """
    owners = [name.rpartition(separator)[0] for name in names]
    numbers = {owner: number for number, owner in enumerate(dict.fromkeys(owners))}
    return [numbers[owner] for owner in owners]


def as_floats(array: NDArray[np.generic]) -> NDArray[np.float32]:
    """Return an array's bytes as float32 values, flat and padded: what a broadcast carries without a change."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    padded = np.zeros(max(-(-data.size // 4), 1) * 4, np.uint8)
    padded[: data.size] = data
    return padded.view(np.float32)


def from_floats(values: NDArray[np.float32], like: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return the array whose bytes `as_floats` made, in the shape and type of `like`."""
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)[: like.nbytes]
    return data.view(like.dtype).reshape(like.shape)


def broadcast_arrays(
    communicator: Communicator, arrays: Sequence[NDArray[np.generic]], first: int = 0, round: int = 0
) -> list[NDArray[np.generic]]:
    """Return rank 0's arrays, of any types, on every rank; those given say what to expect.

    They bear tensor numbers from `first` on, each of them once in a round.
    """
    futures = [
        communicator.broadcast(as_floats(array), tensor=first + n, round=round) for n, array in enumerate(arrays)
    ]
    return [from_floats(future.result().values, array) for future, array in zip(futures, arrays, strict=True)]
