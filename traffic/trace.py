# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Recorded training: the gradients of every worker, layer and round of a real job, in one checked file.

A trace is a .npz archive: `about` holds JSON (format version, workload, tensors in the order in which
back-propagation finds them, round numbers, samples), `values` holds float32 of shape (rounds, workers, values), the
tensors' values one after the other in that order. The archive's checksums cover every byte.
"""

import io
import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from topologies.drafts import whole
from topologies.errors import FailureError, UsageError
from traffic.model import MLP, WORKLOADS, Parameter
from traffic.packer import Packets, TensorId, concatenate, pack, spread
from traffic.wire import IPV4_VALUES

FORMAT = "gradlane-trace"
FORMAT_VERSION = 1
MAGIC = b"PK"
"""How every .npz archive begins."""

DAMAGE = (ValueError, LookupError, TypeError, EOFError, ArithmeticError, RuntimeError, MemoryError, struct.error,
          zipfile.BadZipFile, zlib.error)  # fmt: skip
"""What numpy and zipfile raise on a damaged archive, depending on the byte."""


@dataclass(frozen=True)
class Trace:
    """Gradients of a training job."""

    workload: str
    samples: int
    """Samples behind each worker's gradient of one round."""
    rounds: tuple[int, ...]
    """Numbers of the recorded rounds, of which there may be gaps."""
    parameters: tuple[Parameter, ...]
    """The tensors in the order in which they are sent: last layer first."""
    values: NDArray[np.float32]
    """Shape (rounds, workers, values)."""

    @property
    def workers(self) -> int:
        """Workers that trained."""
        return self.values.shape[1]

    @property
    def layers(self) -> int:
        """Layers of the model."""
        return 1 + max(parameter.layer for parameter in self.parameters)

    def tensors(self, index: int, worker: int) -> Iterator[tuple[Parameter, NDArray[np.float32]]]:
        """Yield the tensors of the `index`-th recorded round of a worker, each flat."""
        start = 0
        for parameter in self.parameters:
            yield parameter, self.values[index, worker, start : start + parameter.size]
            start += parameter.size

    def packets(self, worker: int, job: int = 1, per_packet: int = IPV4_VALUES) -> Packets:
        """Return a worker's packets of all rounds in the order of sending, sequence numbers from 0.

        The header's `round` is the index among the recorded rounds, so that a repeated trace can count on.
        """
        parts: list[Packets] = []
        sequence = 0
        for index in range(len(self.rounds)):
            for parameter, flat in self.tensors(index, worker):
                ids = TensorId(job, worker, parameter.tensor, parameter.layer, index, self.samples)
                parts.append(spread(pack(flat, ids, per_packet=per_packet, sequence=sequence)))
                sequence += len(parts[-1])
        return concatenate(parts)


def record(
    workload: str, *, workers: int, rounds: int, every: int = 1, samples: int = 64, seed: int = 0
) -> tuple[Trace, float]:
    """Train with synchronous SGD over `workers` shards of real data and keep every `every`-th round.

    Each worker draws `samples` of its own shard a round; the model steps by the mean of the workers' gradients.
    Returns the trace and the accuracy that training reached on the tenth of the data that it did not see.
    """
    if workload not in WORKLOADS:
        raise UsageError(f"no workload is named {workload!r}; there are {', '.join(WORKLOADS)}")
    job = WORKLOADS[workload]
    images, labels = job.load()
    random = np.random.default_rng(seed)
    order = random.permutation(len(labels))
    held_out, seen = np.split(order, [len(order) // 10])
    shards = np.array_split(seen, workers)
    model = MLP(job.widths, seed)
    sent: list[Parameter] = []
    kept: list[NDArray[np.float32]] = []
    for number in range(rounds * every):
        gradients = []
        for shard in shards:
            batch = random.choice(shard, samples)
            found = list(model.gradients(images[batch], labels[batch]))
            sent = [parameter for parameter, _ in found]
            gradients.append(np.concatenate([gradient.reshape(-1) for _, gradient in found]))
        together = np.stack(gradients)
        if (number + 1) % every == 0:
            kept.append(together)
        model.descend(_by_parameter(together.mean(axis=0), sent), job.learning_rate)
    numbers = tuple(range(every - 1, rounds * every, every))
    trace = Trace(workload, samples, numbers, tuple(sent), np.stack(kept))
    return trace, model.accuracy(images[held_out], labels[held_out])


def _by_parameter(flat: NDArray[np.float32], sent: list[Parameter]) -> list[NDArray[np.float32]]:
    pieces = np.split(flat, np.cumsum([parameter.size for parameter in sent])[:-1])
    shaped = {p.tensor: piece.reshape(p.shape) for p, piece in zip(sent, pieces, strict=True)}
    return [shaped[tensor] for tensor in range(len(sent))]


def save(trace: Trace, path: Path) -> None:
    """Write a trace whole or not at all. Raises FailureError where it cannot be written."""
    about = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "workload": trace.workload,
        "samples": trace.samples,
        "rounds": trace.rounds,
        "parameters": [asdict(parameter) for parameter in trace.parameters],
    }
    written = io.BytesIO()  # an archive goes back and forth in its file, which may be a device
    np.savez_compressed(written, about=np.array(json.dumps(about)), values=trace.values)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as draft:
            draft.write_bytes(written.getbuffer())
    except OSError as error:
        raise FailureError(f"cannot write the trace {path}: {error.strerror or error}") from None


def load(path: Path) -> Trace:
    """Read a trace. Raises UsageError, in one line, for a file that is missing, damaged or of another version."""
    try:
        with path.open("rb") as file:
            if file.read(len(MAGIC)) != MAGIC:
                raise UsageError("not a Gradlane trace", file=path)
            file.seek(0)
            with np.load(file, allow_pickle=False) as archive:
                about = json.loads(str(archive["about"]))
                values = archive["values"]
    except FileNotFoundError:
        raise UsageError("no such trace; `gradctl trace record` makes one", file=path) from None
    except OSError as error:
        raise UsageError(f"cannot read the trace: {error.strerror or error}", file=path) from None
    except DAMAGE as error:
        raise UsageError(f"damaged trace ({_short(error)})", file=path) from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise UsageError("not a Gradlane trace", file=path)
    if about.get("version") != FORMAT_VERSION:
        raise UsageError(f"trace of format version {about.get('version')}; this is {FORMAT_VERSION}", file=path)
    try:
        trace = _trace(about, values)
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"damaged trace ({_short(error)})", file=path) from None
    return trace


def _trace(about: dict[str, Any], values: NDArray[Any]) -> Trace:
    parameters = tuple(
        Parameter(int(p["tensor"]), int(p["layer"]), str(p["name"]), tuple(map(int, p["shape"])))
        for p in about["parameters"]
    )
    rounds = tuple(map(int, about["rounds"]))
    if values.dtype != np.float32 or values.ndim != 3 or not values.size:
        raise ValueError("its values are no float32 of rounds, workers and values")
    if values.shape[0] != len(rounds) or values.shape[2] != sum(parameter.size for parameter in parameters):
        raise ValueError("its values and its tensors disagree")
    return Trace(str(about["workload"]), int(about["samples"]), rounds, parameters, values)


def _short(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:80]
