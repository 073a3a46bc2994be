# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: a worker's replica, and the gradients it has computed that are in no sum yet. One file for each worker.

A checkpoint is taken between two sums: what was under way is begun again from `carried`, so a resumed training does
what an uninterrupted one would have done.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topologies.errors import UsageError
from traffic.training.rule import State
from traffic.training.share import Share

FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """What a worker goes on from."""

    state: State
    carried: Share
    """The pending part of the sum."""
    taken: int = 0
    """Samples drawn from the stream."""
    time: float = 0.0
    """Of the virtual clock."""
    speed: float = 0.0
    """Samples per second, as last measured."""
    speeds: tuple[float, ...] = ()
    """Of every worker, as the latest sum told."""
    local: State | None = None
    """A replica of its own, of an algorithm that has them."""
    sums: int = 0
    """How many sums are over."""
    rate: float = 0.0
    """Samples per second of the best micro-batch of the worker's latest phase."""
    flight: float = 0.0
    """Seconds that it expects a sum to take."""


def save(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint, whole or not at all."""
    arrays = {"carried_sums": checkpoint.carried.sums, "carried_counts": checkpoint.carried.counts}
    for name, state in (("state", checkpoint.state), ("local", checkpoint.local)):
        if state is not None:
            arrays[f"{name}_weights"] = state.weights
            arrays[f"{name}_counts"] = np.array([state.updates, state.samples])
            if state.velocity is not None:
                arrays[f"{name}_velocity"] = state.velocity
    figures = np.array(
        [FORMAT, checkpoint.taken, checkpoint.time, checkpoint.speed, checkpoint.sums, checkpoint.rate,
         checkpoint.flight]
    )  # fmt: skip
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.part")
    with partial.open("wb") as file:
        np.savez(file, figures=figures, speeds=np.array(checkpoint.speeds), **arrays)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def load(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises UsageError for a file that is none."""
    try:
        with np.load(path) as file:
            found = {name: file[name] for name in file.files}
        version, taken, time, speed, sums, rate, flight = found["figures"].tolist()
        if version != FORMAT:
            raise UsageError(f"is a checkpoint of format {version:g}; this version reads {FORMAT}", file=path)
        state = _state(found, "state")
        if state is None:
            raise KeyError("state_weights")
        return Checkpoint(
            state,
            Share(found["carried_sums"], found["carried_counts"]),
            round(taken),
            time,
            speed,
            tuple(found["speeds"].tolist()),
            _state(found, "local"),
            round(sums),
            rate,
            flight,
        )
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror or error}", file=path) from None
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise UsageError("is no checkpoint", file=path) from None


def _state(found: dict[str, NDArray[Any]], name: str) -> State | None:
    if f"{name}_weights" not in found:
        return None
    updates, samples = found[f"{name}_counts"].tolist()
    return State(found[f"{name}_weights"], found.get(f"{name}_velocity"), round(updates), samples)
