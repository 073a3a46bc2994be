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
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.frameworks.jobs import ROOT, needs, network
from topologies.errors import GradlaneError, UsageError
from traffic.collectives.job import Job, Op
from traffic.model import WORKLOADS
from traffic.training.checkpoint import Checkpoint
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


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"roster": "h5"}, "a roster is ADDRESS:PORT, not 'h5'"),
        ({"model": None}, "a model is a torch.nn.Module, not a NoneType"),
        ({"optimizer": 0.1}, "an optimiser is a torch.optim.Optimizer, not a float"),
        ({"updates": 0}, "updates is at least 1, not 0"),
        ({"checkpoint_updates": 0}, "checkpoint_updates is at least 1, not 0"),
        ({"compensation": 2.0}, "compensation is at most 1, all of the way, not 2.0"),
        ({"batch": -1}, "batch is at least 0, not -1"),
        ({"grace": float("nan")}, "grace is at least 0, not nan"),
        ({"seconds_per_sample": -1.0}, "seconds_per_sample is at least 0, not -1.0"),
        ({"loader": []}, "the loader has no batches$"),
        ({"loader": 3}, "a loader can be read again and again, unlike a int"),
        ({"loader": [1, 2]}, "the loader does not give pairs of inputs and labels"),
        ({"loader": "once"}, "the loader has no batches, or can be read only once"),
        ({"model": "frozen"}, "the model has no parameter that wants a gradient"),
        ({"optimizer": "other"}, "the optimiser has parameters that are not the model's"),
        ({"optimizer": "lbfgs"}, "LBFGS wants a closure, and ABS-SGD's gradients come from a sum"),
        ({"loss": "nan"}, "this worker's gradients are no longer finite after update"),
        ({"checkpoint": "other"}, "the checkpoint has 6 weights, the model 8"),
        ({"checkpoint": "bad"}, "bad: is no checkpoint"),
        ({"checkpoint": "none/worker"}, "none/worker: cannot be written: "),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_clear_line(wrong: dict[str, Any], said: str, tmp_path: Path) -> None:
    import torch

    import gradlane
    from traffic.training import checkpoint

    torch.set_num_threads(1)
    batch = torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)
    model: Any = torch.nn.Linear(3, 2)
    given: dict[str, Any] = {
        "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "loader": [batch], "updates": 3,
        "checkpoint_updates": 1,
        "job": Job(number=7, workers=(f"{network()}.1",), collective="ring", op=Op.SUM), "rank": 0, **wrong,
    }  # fmt: skip
    other = torch.nn.Linear(2, 2)
    (tmp_path / "none").write_text("")
    (tmp_path / "bad").write_text("bad")
    checkpoint.save(Checkpoint(State(np.zeros(6, np.float32)), Share.nothing(6)), tmp_path / "other")
    match next(iter(wrong.values())):
        case "once":
            given["loader"] = iter([batch])
        case "frozen":
            given["model"] = model.requires_grad_(False)
        case "other" if "optimizer" in wrong:
            given["optimizer"] = torch.optim.SGD(other.parameters(), lr=0.1)
        case "lbfgs":
            given["optimizer"] = torch.optim.LBFGS(model.parameters())
        case "nan":
            given["loss"] = lambda outputs, labels: outputs.sum() * float("nan")
    if "checkpoint" in wrong:
        given["checkpoint"] = tmp_path / wrong["checkpoint"]
    with pytest.raises(GradlaneError, match=said):
        gradlane.abs_sgd(given.pop("model"), given.pop("optimizer"), given.pop("loader"), **given)


def test_a_resumed_worker_reads_on_where_it_was_with_the_same_random_numbers() -> None:
    import torch

    from traffic.frameworks.pytorch_abs_sgd import _Loader

    torch.set_num_threads(1)
    torch.manual_seed(5)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(), torch.nn.Linear(8, 3)
    )
    data = torch.utils.data.TensorDataset(torch.randn(36, 6), torch.arange(36) % 3)

    def source(generator: Any) -> Any:
        shuffled = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, generator=generator)
        return _Loader(model, shuffled, torch.nn.functional.cross_entropy)

    for own in (False, True):
        first, second = (source(torch.Generator().manual_seed(seed) if own else None) for seed in (1, 2))
        weights = first.initial()
        for _ in range(13):  # into the second epoch
            first.share(weights, 1)
        kept, taken = first.kept(), first.taken
        ahead = [first.share(weights, 1).sums for _ in range(12)]
        torch.manual_seed(99)
        second.keep(kept)
        second.taken = taken
        for wanted in ahead:
            np.testing.assert_array_equal(second.share(weights, 1).sums, wanted)
        assert (second.epochs, second.taken) == (first.epochs, first.taken)
        assert int(second.flat.fixed[0]) == 25  # batches that the norm has seen
    short = _Loader(model, [data[:4]] * 2, torch.nn.functional.cross_entropy)
    with pytest.raises(UsageError, match="the checkpoint is 4 batches into the loader, which has 2"):
        short.keep(kept)


def test_a_training_goes_on_from_a_checkpoint_with_optimiser_and_pending_gradients(tmp_path: Path) -> None:
    import torch

    import gradlane
    from traffic.training import checkpoint

    torch.set_num_threads(1)
    job = Job(number=8, workers=(f"{network()}.1",), collective="ring", op=Op.SUM)
    loader = [(torch.randn(8, 6), torch.arange(8) % 3)] * 5

    def train(updates: int, seed: int) -> tuple[Any, Any, Any]:
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 3))
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
        trained = gradlane.abs_sgd(
            model, optimizer, loader, updates=updates, job=job, rank=0, checkpoint=tmp_path / "worker",
            checkpoint_updates=4,
        )  # fmt: skip
        return model, optimizer, trained

    first, _, trained = train(13, 1)
    kept = checkpoint.load(tmp_path / "worker")
    assert (trained.updates, kept.state.updates) == (14, 12)
    assert kept.carried.samples > 0
    second, optimizer, again = train(20, 2)
    assert again.updates == 21
    assert again.samples == kept.state.samples + kept.carried.samples + again.progress.samples
    assert first[0].weight.equal(second[0].weight)  # frozen, and of another start
    other = torch.optim.SGD([{"params": [parameter]} for parameter in second.parameters()], lr=0.1)
    with pytest.raises(UsageError, match="optimiser or model is another: loaded state dict has a different number"):
        gradlane.abs_sgd(second, other, loader, updates=30, job=job, rank=0, checkpoint=tmp_path / "worker")
    assert optimizer.state[second[2].weight]["momentum_buffer"].abs().sum() > 0
    batches = (kept.state.samples + kept.carried.samples + again.progress.samples) / 8
    assert int(second[1].num_batches_tracked) == batches


def test_what_is_frozen_and_what_counts_is_rank_0s_everywhere() -> None:
    import torch

    import gradlane

    torch.set_num_threads(1)
    job = Job(
        number=9, workers=(f"{network()}.1", f"{network()}.2", f"{network()}.3"), collective="ring", op=Op.MEAN,
        patience=120, connect_timeout=180,
    )  # fmt: skip
    models = []
    for seed in range(3):
        torch.manual_seed(seed)
        model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Linear(6, 6, bias=False), torch.nn.Linear(6, 3))
        model[0].requires_grad_(False)
        model[1].weight = model[0].weight  # shared, and frozen
        models.append(model.double())
    loader = [(torch.randn(8, 6).double(), torch.arange(8) % 3)] * 4

    def train(rank: int) -> Any:
        optimizer = torch.optim.Adam(models[rank].parameters(), lr=0.01)
        return gradlane.abs_sgd(models[rank], optimizer, loader, updates=6, job=job, rank=rank)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(train, range(3)))
    for model in models[1:]:
        for name, value in models[0].state_dict().items():
            assert value.equal(model.state_dict()[name]), name
