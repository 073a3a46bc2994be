# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A fabric whose switches are fakes: found by a state file like any other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import topologies
from controller.p4rt.pipeline import Pipeline
from controller.reconcile import Controller
from tests.unit.controller.fake_switch import FakeSwitch
from topologies import state as fabric_state
from topologies.processes import ProcessId
from topologies.state import RunningFabric, SwitchState


@dataclass
class FakeFabric:
    """Fake switches by name, and the state file that tells of them."""

    switches: dict[str, FakeSwitch]
    state_file: Path
    running: RunningFabric

    def controller(self, pipeline: Pipeline | None = None, deadline: float = 60.0) -> Controller:
        return Controller.find(self.state_file, pipeline=pipeline, deadline=deadline)

    @property
    def writes(self) -> int:
        return sum(switch.writes for switch in self.switches.values())


@pytest.fixture(scope="session")
def pipeline() -> Pipeline:
    return Pipeline.load()


@pytest.fixture
def fake_fabric(tmp_path: Path) -> Iterator[Callable[[str], FakeFabric]]:
    with ExitStack() as stack:

        def start(name: str) -> FakeFabric:
            fabric = topologies.load(name)
            switches = {switch.name: stack.enter_context(FakeSwitch(switch.device_id)) for switch in fabric.switches}
            running = RunningFabric(
                run=fabric_state.new_run(),
                fabric=fabric,
                target="bmv2",
                isolated=False,
                owner=ProcessId(1, 0),
                switches={
                    switch.name: SwitchState(
                        switch.name, switch.device_id, switches[switch.name].address, None, None, ""
                    )
                    for switch in fabric.switches
                },
            )
            state_file = tmp_path / "fabric.json"
            fabric_state.save(running, state_file)
            return FakeFabric(switches, state_file, running)

        yield start
