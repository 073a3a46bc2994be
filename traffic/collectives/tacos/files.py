# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Schedules as files: JSON for people and other programs, a compressed NumPy archive (.npz) for large ones."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from topologies import drafts
from topologies.errors import UsageError
from traffic.collectives.tacos.network import Index, Ports, from_arrays
from traffic.collectives.tacos.schedule import Collective, Demand, Schedule, refuse_senseless, ticks

FORMAT, VERSION = "gradlane-schedule", 1
COLUMNS = ("chunk", "link", "start", "end", "reduces")
PATH = "path"
"""A column that need not be there."""


def save(schedule: Schedule, file: Path) -> None:
    """Write a schedule, as .npz if the file is called so, else as JSON. Raises UsageError where that fails."""
    about = _about(schedule)
    names = COLUMNS if schedule.path is None else (*COLUMNS, PATH)
    columns = {name: getattr(schedule, name) for name in names}
    if file.suffix == ".npz":
        with whole(file) as draft, draft.open("wb") as archive:
            np.savez_compressed(archive, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **columns)
        return
    rows = zip(*(columns[name].tolist() for name in names), strict=True)
    lines = ",\n  ".join(json.dumps(row) for row in rows)
    head = json.dumps({**about, "columns": names})
    write(file, f'{head[:-1]}, "sends": [\n  {lines}\n]}}\n')


def write(file: Path, text: str) -> None:
    """Write a text. Raises UsageError where that fails."""
    with whole(file) as draft:
        draft.write_text(text)


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Hold a draft of a file, as topologies.drafts does. Raises UsageError where it cannot be written."""
    try:
        with drafts.whole(file) as draft:
            yield draft
    except OSError as error:
        raise UsageError(f"cannot write: {error.strerror or error}", file=file) from None


def load(file: Path) -> Schedule:
    """Read a schedule that `save` wrote. Raises UsageError that names the file."""
    try:
        if file.suffix == ".npz":
            with np.load(file) as archive:
                about = json.loads(archive["about"].tobytes())
                names = [*COLUMNS, *({PATH} & set(archive.files))]
                return _schedule(about, {name: archive[name] for name in names})
        about = json.loads(file.read_text())
        rows = about["sends"]
        names = [*COLUMNS, *([PATH] if PATH in about.get("columns", ()) else [])]
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
        return _schedule(about, dict(zip(names, columns, strict=True)))
    except (OSError, BadZipFile) as error:
        raise UsageError(f"cannot read: {error}", file=file) from None
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError, RecursionError, UsageError) as error:
        raise UsageError(f"is no schedule: {error}", file=file) from None


def _about(schedule: Schedule) -> dict[str, Any]:
    network, demand = schedule.network, schedule.demand
    columns = (network.source, network.destination, network.latency, network.bandwidth)
    return {
        "format": FORMAT,
        "version": VERSION,
        "engine": schedule.engine,
        "collective": demand.collective.value,
        "group": list(demand.group),
        "root": demand.root,
        "size": demand.size,
        "chunks": demand.chunks,
        "network": {
            "name": network.name,
            "npus": network.npus,
            "shape": network.shape,
            "links": [list(row) for row in zip(*(column.tolist() for column in columns), strict=True)],
            "ports": {name: part.tolist() for name, part in vars(network.ports).items()} if network.ports else None,
            "ways": network.ways,
            "paths": None if network.paths is None else network.paths.tolist(),
        },
    }


def _schedule(about: dict[str, Any], columns: dict[str, Any]) -> Schedule:
    if about.get("format") != FORMAT or about.get("version") != VERSION:
        raise ValueError(f"wants {FORMAT} version {VERSION}")
    if len({len(column) for column in columns.values()}) > 1:
        raise ValueError("its columns are of unequal length")
    described = about["network"]
    links = described["links"]
    if not links:
        raise ValueError("its network has no links")
    source, destination, latency, bandwidth = zip(*links, strict=True)
    shape = tuple(map(int, described["shape"])) if described["shape"] else None
    if shape and (min(shape) < 1 or math.prod(shape) != int(described["npus"])):
        raise ValueError(f"its shape {shape} is not one of {described['npus']} NPUs")
    network = from_arrays(described["name"], int(described["npus"]), source, destination, latency, bandwidth, shape)
    if not np.array_equal(network.source, source):
        raise ValueError("its links are not in order of destination and source")
    ports = None
    if described["ports"]:
        ports = Ports(**{name: _numbers(part) for name, part in described["ports"].items()})
        if not ports.serves(network.links):
            raise ValueError("its links occupy ports that do not exist")
    ways = tuple(map(str, described["ways"])) if described["ways"] else None
    paths = None if described["paths"] is None else _numbers(described["paths"])
    if any(told is not None and len(told) != network.links for told in (ways, paths)):
        raise ValueError("its ways and paths are not those of its links")
    network = replace(network, ports=ports, ways=ways, paths=paths)
    demand = Demand(
        Collective(about["collective"]),
        tuple(map(int, about["group"])),
        float(about["size"]),
        int(about["chunks"]),
        int(about["root"]),
    )
    refuse_senseless(network, demand)
    ticks(network, demand.chunk_bytes)
    link = _numbers(columns["link"])
    if len(link) and link.max() >= network.links:
        raise ValueError(f"a send goes over link {link.max()} of {network.links}")
    return Schedule(
        network,
        demand,
        about["engine"],
        _numbers(columns["chunk"]),
        link,
        np.array(columns["start"], np.int64),
        np.array(columns["end"], np.int64),
        np.array(columns["reduces"], np.bool_),
        _numbers(columns[PATH]) if PATH in columns else None,
    )


def _numbers(values: Any) -> Index:
    """Return numbers of chunks, links, ports or paths. Raises ValueError beyond 32 bits, which else would wrap."""
    wide = np.array(values, np.int64).ravel()
    if len(wide) and not 0 <= wide.min() <= wide.max() < 1 << 32:
        raise ValueError("a number is below 0 or beyond 32 bits")
    return wide.astype(np.uint32)
