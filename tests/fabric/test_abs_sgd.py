# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`make run JOB=abs_sgd`: workers of unequal speed over the fabric."""

from __future__ import annotations

import io
import json
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import topologies
from controller import policy as policies
from controller.reconcile import install
from gradlane import uneven
from gradlane.run import run_uneven
from gradlane.uneven import SPEEDS
from gradlane.uneven_job import UnevenJob, Way
from topologies.errors import FailureError
from topologies.mininet_fabric import MininetFabric
from traffic.live import share
from traffic.training.process import Told
from traffic.training.quota import Quota

pytestmark = pytest.mark.fabric


@pytest.mark.timeout(600)
def test_abs_sgd_workers_wait_less_than_synchronous_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(uneven, "train", partial(uneven.train, target=2.0, seconds=3.0))
    synchronous, ours = run_uneven(
        "leaf_spine", "dlcp", "softswitch", Console(file=told, width=120),
        output=tmp_path, instance=None, state_path=tmp_path / "fabric.json",
    )  # fmt: skip
    fast = SPEEDS.index(max(SPEEDS))
    theirs, mine = synchronous.waiting(fast), ours.waiting(fast)
    assert theirs is not None and mine is not None
    assert theirs > 0.4
    assert mine < theirs / 2
    assert ours.spent[0].updates > synchronous.spent[0].updates / synchronous.spent[0].seconds * ours.spent[0].seconds
    assert ours.samples_per_s > synchronous.samples_per_s
    assert "Waiting" in told.getvalue()
    assert len(json.loads((tmp_path / "abs_sgd.json").read_text())) == 2


WORKERS, SERVER = ("h1", "h2", "h3", "h4"), "h7"


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MininetFabric]:
    state = tmp_path_factory.mktemp("fabric") / "fabric.json"
    with MininetFabric(topologies.load("leaf_spine"), "softswitch", instance=None, state_path=state) as net:
        install(net.state_path, policies.load("dlcp"))
        yield net


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    share("mnist", folder)
    return folder


def job(net: MininetFabric, data: Path, **more: Any) -> UnevenJob:
    way = Way("ABS-SGD", "abs_sgd", 32, 0.2, compensation=0.75)
    settings: dict[str, Any] = {"target": 2.0, "seconds": 60.0, **more}
    slowness = settings.pop("slowness", [1e-3, 1e-3, 2e-3, 4e-3])
    return UnevenJob(net.running, WORKERS, SERVER, way, slowness, data=data, **settings)


def until(lines: Iterator[dict[str, Any]], wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    return next(line for line in lines if wanted(line))


def trained(lines: Iterator[dict[str, Any]], *workers: str) -> None:
    """Wait until just these workers have updated their weights together."""
    until(lines, lambda line: line.get("event") == "generation" and sorted(line["workers"]) == list(workers))
    until(lines, lambda line: "told" in line)


@pytest.mark.timeout(300)
def test_over_the_fabric_training_goes_on_without_the_dead_and_with_the_late(net: MininetFabric, data: Path) -> None:
    with job(net, data, expected=2, seconds=250.0) as training:
        lines = training.lines(net.check)
        trained(lines, "h1", "h2")
        training.seconds = 1.0  # of those who come late: the first of a generation ends the training
        training.start(2)
        training.start(3)
        trained(lines, *WORKERS)
        for number, left in ((1, ("h1", "h3", "h4")), (0, ("h3", "h4"))):
            os.kill(training.ends[number].pid, signal.SIGKILL)
            assert until(lines, lambda line: line.get("event") == "lost")["worker"] == WORKERS[number]
            trained(lines, *left)
        done = [line["done"] for line in lines if "done" in line]
    assert sorted(each["number"] for each in done) == [2, 3]
    assert len({each["updates"] for each in done}) == 1


@pytest.mark.timeout(300)
def test_over_the_fabric_a_death_stops_training_where_told_to(net: MininetFabric, data: Path) -> None:
    with job(net, data, stop_on_death=True) as training:
        lines = training.lines(net.check)
        trained(lines, *WORKERS)
        os.kill(training.ends[2].pid, signal.SIGKILL)
        with pytest.raises(FailureError, match=r"the server in h7 failed: the worker in h3 \(10\.[\d.]+\) has died"):
            list(lines)


@pytest.mark.timeout(300)
def test_over_the_fabric_a_training_goes_on_from_its_checkpoints(
    net: MininetFabric, data: Path, tmp_path: Path
) -> None:
    def train(seconds: float) -> Told:
        with job(net, data, seconds=seconds, checkpoints=tmp_path) as training:
            return training.run(net.check).told[0]

    seconds = 5.0
    first = train(seconds)
    while not list(tmp_path.glob("worker?.checkpoint")):  # a slow machine needs longer to its first checkpoint
        seconds *= 2
        first = train(seconds)
    again = train(1.0)
    assert len(list(tmp_path.glob("worker?.checkpoint"))) == len(WORKERS)
    assert again.updates > 50 > first.updates
    assert again.accuracy > first.accuracy


@pytest.mark.timeout(300)
def test_over_the_fabric_a_worker_with_a_small_quota_computes_less(net: MininetFabric, data: Path) -> None:
    try:
        Quota("tried", 0.5).__exit__()
    except FailureError as error:
        pytest.skip(str(error))
    with job(net, data, seconds=3.0, slowness=[0.0] * len(WORKERS), quotas=[0.4, 0.4, 0.4, 0.2]) as training:
        spent = training.run(net.check).spent
    assert spent[3].samples < min(each.samples for each in spent[:3])
