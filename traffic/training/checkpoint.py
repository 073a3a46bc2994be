# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Checkpoints: a worker's replica, the gradients it has computed that are in no sum yet, and what its sender owes.

One file for each worker: MAGIC with the format, a hash of what follows, and numpy's .npz. A checkpoint is taken between
two sums: what was under way is begun again from `carried`, so a resumed training does what an uninterrupted one would
have done.
"""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topologies.errors import UsageError
from traffic.training.rule import State
from traffic.training.share import Floats, Share

MAGIC, FORMAT = b"gradlane checkpoint ", 2


@dataclass(frozen=True)
class Checkpoint:
    """What a worker goes on from."""

    state: State
    carried: Share
    """The pending part of the sum."""
    uncomputed: Floats | None = None
    """Weights at which `carried` is still to be computed: of the virtual clock, which computes when a sum needs it."""
    steps: tuple[int, ...] = ()
    """Samples of its micro-batches, between which the worker steps by itself."""
    step: float = 0.0
    """The step size of that, for a sum of gradients."""
    owed: Share | None = None
    """What sums before have lost of this worker's, and error feedback sends with the next."""
    local: State | None = None
    """A replica of its own, of an algorithm that has them."""
    speeds: tuple[float, ...] = ()
    """Of every worker, as the latest sum told."""
    kept: bytes = b""
    """What the rule remembers besides, such as a torch optimiser's state."""
    source: bytes = b""
    """What the source of gradients remembers besides its place, such as a loader's random numbers."""
    taken: int = 0
    """Samples drawn from the stream."""
    time: float = 0.0
    """Of the virtual clock."""
    busy: float = 0.0
    """Until when the worker is stuck in a micro-batch that was given up, by the virtual clock."""
    there: bool = True
    """Whether the worker trains: one may have died, or be still to come."""
    speed: float = 0.0
    """Samples per second, as last measured."""
    sums: int = 0
    """How many sums are over."""
    rate: float = 0.0
    """Samples per second of the best micro-batch of the worker's latest phase."""
    flight: float = 0.0
    """Seconds that it expects a sum to take."""

    def check(self, values: int) -> None:
        """Raise UsageError if it is of a model of another size."""
        if self.state.weights.size != values:
            raise UsageError(f"the checkpoint has {self.state.weights.size} weights, the model {values}")


FIGURES = ("step", "taken", "time", "busy", "there", "speed", "sums", "rate", "flight")


def save(checkpoint: Checkpoint, path: Path) -> None:
    """Write a checkpoint, whole or not at all. Raises UsageError where it cannot be written."""
    arrays: dict[str, NDArray[Any]] = {
        "figures": np.array([getattr(checkpoint, name) for name in FIGURES], np.float64),
        "speeds": np.array(checkpoint.speeds, np.float64),
        "steps": np.array(checkpoint.steps, np.int64),
    }
    for name in ("kept", "source"):
        arrays[name] = np.frombuffer(getattr(checkpoint, name), np.uint8)
    for name in ("carried", "owed"):
        if (share := getattr(checkpoint, name)) is not None:
            arrays |= {f"{name}_sums": share.sums, f"{name}_counts": share.counts}
    if checkpoint.uncomputed is not None:
        arrays["uncomputed"] = checkpoint.uncomputed
    for name in ("state", "local"):
        if (state := getattr(checkpoint, name)) is not None:
            arrays |= {f"{name}_weights": state.weights, f"{name}_counts": np.array([state.updates, state.samples])}
            if state.velocity is not None:
                arrays[f"{name}_velocity"] = state.velocity
    written = io.BytesIO()
    np.savez(written, **arrays)
    body, partial = written.getbuffer(), path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():  # a device would be replaced by a file
            raise UsageError("cannot be written: it is no file", file=path)
        with partial.open("wb") as file:
            file.write(MAGIC + b"%d\n" % FORMAT + hashlib.sha256(body).digest())
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror or error}", file=path) from None


def load(path: Path) -> Checkpoint:
    """Read a checkpoint. Raises UsageError for a file that is none, is damaged, or of another format."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror or error}", file=path) from None
    head, _, rest = content.partition(b"\n")
    if not head.startswith(MAGIC):
        raise UsageError("is no checkpoint", file=path)
    if (version := head.removeprefix(MAGIC)) != b"%d" % FORMAT:
        raise UsageError(
            f"is a checkpoint of format {version[:16].decode(errors='replace')}; this version reads {FORMAT}", file=path
        )
    length = hashlib.sha256().digest_size
    if hashlib.sha256(rest[length:]).digest() != rest[:length]:
        raise UsageError("is a damaged checkpoint: what it holds is not what was written", file=path)
    with np.load(io.BytesIO(rest[length:]), allow_pickle=False) as file:
        found = {name: file[name] for name in file.files}
    read = dict(zip(FIGURES, found["figures"].tolist(), strict=True))
    state, carried = _state(found, "state"), _share(found, "carried")
    assert state is not None and carried is not None
    return Checkpoint(
        state,
        carried,
        found.get("uncomputed"),
        tuple(found["steps"].tolist()),
        read.pop("step"),
        _share(found, "owed"),
        _state(found, "local"),
        tuple(found["speeds"].tolist()),
        found["kept"].tobytes(),
        found["source"].tobytes(),
        round(read.pop("taken")),
        sums=round(read.pop("sums")),
        there=bool(read.pop("there")),
        **read,
    )


def _share(found: dict[str, NDArray[Any]], name: str) -> Share | None:
    return Share(found[f"{name}_sums"], found[f"{name}_counts"]) if f"{name}_sums" in found else None


def _state(found: dict[str, NDArray[Any]], name: str) -> State | None:
    if f"{name}_weights" not in found:
        return None
    updates, samples = found[f"{name}_counts"].tolist()
    return State(found[f"{name}_weights"], found.get(f"{name}_velocity"), round(updates), samples)
