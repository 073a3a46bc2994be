# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The state file of a running fabric: how the controller finds the switches, and how `make stop` finds everything.

It is JSON, written whole or not at all, before anything is created and again as processes come to life; the fabric
removes it when it ends. Whatever it does not list by pid and start time is still found by the run's mark: every
process of a run carries it in its environment, and every interface in its interface group.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topologies.drafts import whole
from topologies.errors import FailureError, UsageError
from topologies.model import Fabric
from topologies.processes import ProcessId

DEFAULT_PATH = Path("build/fabric.json")
PATH_VARIABLE = "GRADLANE_STATE"
_FORMAT = 1
_RUN_FAMILY = 0x67  # 'g': tells an interface group of ours from everybody else's


@dataclass(frozen=True)
class SwitchState:
    """How to reach one switch: gRPC address, Thrift port if it has one, its process (None: not started yet)."""

    name: str
    device_id: int
    grpc_address: str
    thrift_port: int | None
    process: ProcessId | None
    log: str


@dataclass(frozen=True)
class HostState:
    """Where one host lives: any program joins its namespaces by `processes.inside(pid)`."""

    name: str
    process: ProcessId


@dataclass(frozen=True)
class RunningFabric:
    """A fabric that runs, as its state file tells."""

    run: int
    fabric: Fabric
    target: str
    isolated: bool
    owner: ProcessId
    started_at: float = field(default_factory=time.time)
    switches: Mapping[str, SwitchState] = field(default_factory=dict)
    hosts: Mapping[str, HostState] = field(default_factory=dict)
    others: tuple[ProcessId, ...] = ()

    @property
    def addresses(self) -> dict[str, str]:
        """The gRPC address of every switch."""
        return {name: switch.grpc_address for name, switch in self.switches.items()}

    @property
    def processes(self) -> list[ProcessId]:
        """Every process of the run but its owner, each once; switches first."""
        listed = [switch.process for switch in self.switches.values() if switch.process is not None]
        return list(dict.fromkeys([*listed, *(host.process for host in self.hosts.values()), *self.others]))


def new_run() -> int:
    """Draw a number that marks one run: fit to be an interface group, and never 0."""
    return _RUN_FAMILY << 24 | secrets.randbelow(1 << 24)


def is_run(number: int) -> bool:
    """Tell whether a number can be the mark of a run."""
    return number >> 24 == _RUN_FAMILY


def path_in_use(path: str | Path | None = None) -> Path:
    """Return the state file to look at: the one given, else $GRADLANE_STATE, else build/fabric.json."""
    return Path(path or os.environ.get(PATH_VARIABLE) or DEFAULT_PATH)


def save(state: RunningFabric, path: Path) -> None:
    """Write the state file; a reader sees the former one or this one, never a part."""
    values = {
        "format": _FORMAT,
        "run": state.run,
        "target": state.target,
        "isolated": state.isolated,
        "started_at": state.started_at,
        "owner": vars(state.owner),
        "fabric": state.fabric.as_dict(),
        "switches": {
            name: {**vars(switch), "process": None if switch.process is None else vars(switch.process)}
            for name, switch in state.switches.items()
        },
        "hosts": {name: {"name": name, "process": vars(host.process)} for name, host in state.hosts.items()},
        "others": [vars(process) for process in state.others],
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as draft:
            draft.write_text(json.dumps(values) + "\n", encoding="utf-8")
    except OSError as error:
        raise FailureError(f"cannot write the state file {path}: {error.strerror}") from None


def load(path: str | Path | None = None) -> RunningFabric:
    """Read the state file of the running fabric.

    Raises FailureError if no fabric runs, UsageError if the file is not a state file.
    """
    file = path_in_use(path)
    state = find(file)
    if state is None:
        raise FailureError(f"no fabric is running ({file} does not exist); start one with `make run`")
    return state


def find(path: str | Path | None = None) -> RunningFabric | None:
    """Read the state file, or return None if there is none. Raises UsageError if it is not a state file."""
    file = path_in_use(path)
    try:
        values = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise FailureError(f"cannot read the state file {file}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError("not the state file of a fabric; remove it", file=file) from None
    try:
        if values["format"] != _FORMAT:
            raise UsageError(f"format {values['format']} is not {_FORMAT}: another version wrote it", file=file)
        return _from_dict(values)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise UsageError("not the state file of a fabric; remove it", file=file) from None


def _from_dict(values: Mapping[str, Any]) -> RunningFabric:
    if not is_run(values["run"]):
        raise ValueError("not the mark of a run")
    return RunningFabric(
        run=values["run"],
        fabric=Fabric.from_dict(values["fabric"]),
        target=values["target"],
        isolated=values["isolated"],
        owner=ProcessId(**values["owner"]),
        started_at=values["started_at"],
        switches={
            name: SwitchState(
                **{**switch, "process": None if switch["process"] is None else ProcessId(**switch["process"])}
            )
            for name, switch in values["switches"].items()
        },
        hosts={name: HostState(name, ProcessId(**host["process"])) for name, host in values["hosts"].items()},
        others=tuple(ProcessId(**process) for process in values["others"]),
    )
