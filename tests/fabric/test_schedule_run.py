# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A synthesised schedule on a real fabric: sums are right on every host, and the paths that it pins carry them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import topologies
from controller.reconcile import Controller, install
from gradlane import observe
from topologies.errors import UsageError
from topologies.mininet_fabric import MininetFabric
from traffic.collectives.tacos.cli import schedule_app
from traffic.collectives.tacos.files import save
from traffic.collectives.tacos.naming import from_fabric
from traffic.collectives.tacos.network import mesh
from traffic.collectives.tacos.running import run
from traffic.collectives.tacos.schedule import Collective, demand
from traffic.collectives.tacos.synthesis import synthesise

pytestmark = [pytest.mark.fabric, pytest.mark.timeout(300)]

VALUES = 36_000


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MininetFabric]:
    folder = tmp_path_factory.mktemp("schedules")
    path = folder / "fabric.json"
    with MininetFabric(topologies.load("leaf_spine"), instance=None, state_path=path, logs=folder) as started:
        install(path, "dlcp").check()
        yield started


def test_a_schedule_sums_on_every_host_and_says_how_long_it_took(net: MininetFabric, tmp_path: Path) -> None:
    network = from_fabric(net.running.fabric)
    schedule = synthesise(network, demand(network, Collective.ALL_REDUCE, 4.0 * VALUES))
    save(schedule, tmp_path / "schedule.json")
    arguments = ["run", tmp_path / "schedule.json", "--state", net.state_path, "--values", VALUES, "--rounds", 1]
    before = observe.snapshot(Controller.find(net.state_path))
    result = CliRunner().invoke(schedule_app, [str(part) for part in [*arguments, "--ring", "--json"]])
    assert result.exit_code == 0, result.output
    own, ring = json.loads(result.output)
    assert own["predicted_ms"] > 0 and own["measured_ms"] > 0 and len(own["all_ms"]) == 1
    assert ring["collective"] == "ring" and ring["predicted_ms"] is None
    interval = observe.Interval(net.running.fabric, before, observe.snapshot(Controller.find(net.state_path)))
    assert set(interval.paths("h5")["leaf1"]) == {"spine1", "spine2"}


@pytest.mark.parametrize("collective", [Collective.ALL_GATHER, Collective.ALL_TO_ALL, Collective.REDUCE])
def test_other_collectives_run_too_and_end_with_what_they_promise(net: MininetFabric, collective: Collective) -> None:
    network = from_fabric(net.running.fabric)
    measured = run(net.running, synthesise(network, demand(network, collective, 4.0 * VALUES)), VALUES, rounds=1)
    assert measured.predicted is not None and measured.median > 0


def test_a_schedule_of_another_fabric_is_refused(net: MininetFabric) -> None:
    other = mesh(2)
    with pytest.raises(UsageError, match="for 2 hosts"):
        run(net.running, synthesise(other, demand(other, Collective.ALL_REDUCE, 1e6)), VALUES)


def test_a_wrong_schedule_is_refused_before_a_rank_starts(net: MininetFabric) -> None:
    network = from_fabric(net.running.fabric)
    schedule = synthesise(network, demand(network, Collective.ALL_GATHER, 1e6))
    with pytest.raises(UsageError, match="the schedule is a wrong schedule: send 0 .* does not last as long"):
        run(net.running, replace(schedule, end=schedule.end + 1), VALUES)
