# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch with ABS-SGD, two ranks as threads of one process over loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from tests.frameworks.jobs import ROOT, needs, network
from topologies.errors import UsageError
from traffic.collectives.job import Job, Op
from traffic.model import WORKLOADS
from traffic.training.roster import RosterSettings
from traffic.training.rule import State
from traffic.training.share import Share, Total
from traffic.transport.tolerance import Tolerance

needs("torch", "PyTorch")

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(("op", "tolerance", "compensation"), [(Op.SUM, 0.0, 0.0), (Op.MEAN, 0.3, 0.5)])
def test_ranks_of_unequal_speed_learn_and_end_with_the_same_values(
    op: Op, tolerance: float, compensation: float
) -> None:
    import torch

    import gradlane

    torch.set_num_threads(1)
    images, labels = (torch.from_numpy(array) for array in WORKLOADS["digits"].load())
    job = Job(
        number=5, workers=(f"{network()}.1", f"{network()}.2"), collective="ring", op=op,
        tolerance=Tolerance(push=tolerance), patience=120, connect_timeout=180,
    )  # fmt: skip

    def train(rank: int) -> tuple[Any, Any]:
        model = torch.nn.Sequential(
            torch.nn.Linear(64, 64), torch.nn.BatchNorm1d(64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
        )
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        loader = [(images[i : i + 16], labels[i : i + 16]) for i in range(16 * rank, 1200, 32)]
        slow = (0.0, 1e-3)[rank]
        return model, gradlane.abs_sgd(
            model, optimizer, loader, updates=60, job=job, rank=rank, compensation=compensation,
            seconds_per_sample=slow,
        )  # fmt: skip

    with ThreadPoolExecutor(2) as pool:
        (first, mine), (second, other) = pool.map(train, range(2))
    for name, value in first.state_dict().items():
        if value.is_floating_point():
            np.testing.assert_array_equal(value.numpy(), second.state_dict()[name].numpy(), err_msg=name)
    first.eval()
    with torch.no_grad():
        assert (first(images[1300:]).argmax(dim=1) == labels[1300:]).float().mean() > 0.75
    assert mine.updates == other.updates == 61
    assert mine.progress.samples > other.progress.samples
    if not tolerance:
        assert mine.samples == mine.progress.samples + other.progress.samples


def test_without_a_number_of_updates_all_end_once_one_has_read_its_loader() -> None:
    import torch

    import gradlane

    torch.set_num_threads(1)
    job = Job(
        number=6, workers=(f"{network()}.1", f"{network()}.2"), collective="ring", op=Op.SUM, patience=120,
        connect_timeout=180,
    )  # fmt: skip
    loader = [(torch.randn(8, 6), torch.arange(8) % 3)] * 20

    def train(rank: int) -> Any:
        model = torch.nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return gradlane.abs_sgd(model, optimizer, loader, job=job, rank=rank)

    with ThreadPoolExecutor(2) as pool:
        mine, other = pool.map(train, range(2))
    assert mine.updates == other.updates
    assert mine.samples == mine.progress.samples + other.progress.samples
    assert max(mine.progress.samples, other.progress.samples) >= 20 * 8


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_compensated_worker_looks_where_its_optimiser_leads_and_comes_back(kind: str) -> None:
    import torch

    from traffic.frameworks.pytorch_abs_sgd import _Flat, _Optimised

    torch.manual_seed(3)
    settings: dict[str, Any] = {"lr": 0.1, "momentum": 0.5} if kind == "SGD" else {"lr": 0.1}
    start = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 3))
    states, ahead = [], []
    for looks in (False, True):
        model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.Linear(4, 3))
        model.load_state_dict(start.state_dict())
        optimizer = getattr(torch.optim, kind)(model.parameters(), **settings)
        rule = _Optimised(0.0, flat=_Flat(model), optimizer=optimizer)
        state = State(rule.flat.read())
        for number in range(3):
            share = Share.of(np.random.default_rng(number).normal(size=rule.flat.size).astype(np.float32), 4)
            if looks:
                ahead.append(rule.ahead(state, share, 1.0))
                half = rule.ahead(state, share, 0.5)
                np.testing.assert_allclose(half, (state.weights + ahead[-1]) / 2, atol=1e-6)
            state = rule.step(state, Total(share))
        states.append((state, ahead[-1:]))
    np.testing.assert_array_equal(states[0][0].weights, states[1][0].weights)  # looking has changed nothing
    np.testing.assert_array_equal(ahead[-1], states[1][0].weights)  # and was right, as the sum was that share


def test_training_goes_on_without_a_worker_that_dies_and_with_one_that_comes_late() -> None:
    from tests.frameworks.workers import pytorch_elastic as elastic

    place, port = network(), 18950
    job = Job(
        number=50, workers=tuple(f"{place}.{number + 1}" for number in range(3)), servers=(f"{place}.101",), op=Op.SUM,
        patience=120, connect_timeout=180,
    )  # fmt: skip
    roster = f"{place}.101:{port}"
    with ExitStack() as stack:

        def run(*arguments: str, **variables: str) -> subprocess.Popen[str]:
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **variables}
            command = [sys.executable, *arguments]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            stack.callback(process.communicate)
            stack.callback(process.kill)
            return process

        settings = RosterSettings(job.as_dict(), port, patience=60, start_seconds=180)
        server = run("-m", "traffic.training.roster", json.dumps(asdict(settings)))
        assert server.stdout is not None

        def until(event: str) -> dict[str, Any]:
            assert server.stdout is not None
            lines = map(json.loads, server.stdout)
            return next(line for line in lines if line.get("event") == event)

        assert json.loads(server.stdout.readline()) == {"ready": True}
        dying = run(
            str(ROOT / "tests/frameworks/workers/pytorch_elastic.py"),
            GRADLANE_ROSTER=roster, GRADLANE_ADDRESS=f"{place}.3",
        )  # fmt: skip
        pool = stack.enter_context(ThreadPoolExecutor(3))
        trainings = [pool.submit(elastic.train, number, roster, f"{place}.{number + 1}") for number in range(2)]
        assert len(until("generation")["workers"]) == 3
        assert dying.stdout is not None
        assert dying.stdout.readline() == "training\n"
        dying.kill()
        assert until("lost")["worker"] == f"{place}.3"
        assert len(until("generation")["workers"]) == 2
        joined = threading.Event()
        trainings.append(pool.submit(elastic.train, 2, roster, f"{place}.3", joined.set))
        assert len(until("generation")["workers"]) == 3
        assert joined.wait(60)
        ends = [training.result(120) for training in trainings]
    models, optimizers, trained = zip(*ends, strict=True)
    assert {each.updates for each in trained} == {elastic.UPDATES + 1}
    assert {each.size for each in trained} == {3}
    for other in range(1, 3):
        for mine, theirs in zip(models[0].parameters(), models[other].parameters(), strict=True):
            assert mine.equal(theirs)
            momentum = [
                each.state[of]["momentum_buffer"] for each, of in ((optimizers[0], mine), (optimizers[other], theirs))
            ]
            assert momentum[0].equal(momentum[1])
    images, labels = WORKLOADS["digits"].load()
    right = models[0](torch_of(images[1300:])).argmax(dim=1) == torch_of(labels[1300:])
    assert right.float().mean() > 0.75


def torch_of(array: Any) -> Any:
    import torch

    return torch.from_numpy(array)


def test_a_roster_that_is_no_address_is_one_clear_line() -> None:
    import torch

    import gradlane

    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(UsageError, match="a roster is ADDRESS:PORT, not 'h5'"):
        gradlane.abs_sgd(model, optimizer, [], updates=1, roster="h5")
