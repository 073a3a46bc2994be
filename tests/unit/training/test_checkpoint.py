# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A training that was interrupted goes on as if it had not been, its pending gradients included."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.training.problems import ALGORITHMS, quadratic
from topologies.errors import UsageError
from traffic.training import checkpoint
from traffic.training.algorithms import AbsSGD, DelayedBalanced
from traffic.training.checkpoint import Checkpoint
from traffic.training.cluster import Cluster, Machine, Speed, changing
from traffic.training.effects import Algorithm
from traffic.training.lossy import Loss
from traffic.training.rule import Rule, Scaling, State
from traffic.training.share import Share
from traffic.training.virtual import VirtualTraining

LOSSES: dict[str, dict[str, object]] = {
    "no loss": {},
    "loss": {"loss": Loss(0.1)},
    "error feedback": {"loss": Loss(0.3), "feedback": True},
}


def training(algorithm: Algorithm, cluster: Cluster | None = None, **more: object) -> VirtualTraining:
    rule = Rule(0.05, momentum=0.5, decay=0.01, scaling=Scaling.SQUARE_ROOT, reference=16)
    arguments: dict[str, object] = {"seed": 4, "overhead": 1, "patience": 0.4, **more}
    return VirtualTraining(
        quadratic(), algorithm, rule, cluster or changing(3, 8.0), lambda number: 0.7 + 0.1 * (number % 3),
        **arguments,  # type: ignore[arg-type]
    )  # fmt: skip


def through_files(run: VirtualTraining, folder: Path) -> list[Checkpoint]:
    """Return a training's checkpoints as they come back from a disk."""
    for rank, found in enumerate(run.checkpoints()):
        checkpoint.save(found, folder / f"rank{rank}")
    return [checkpoint.load(folder / f"rank{rank}") for rank in range(len(run.runners))]


def goes_on_as_if_nothing_had_been(
    folder: Path, algorithm: Algorithm, cluster: Cluster | None = None, moment: int = 9, **more: object
) -> None:
    """Check that a training which is resumed is, bit for bit, one that never was interrupted."""
    whole, first, second = (training(algorithm, cluster, **more) for _ in range(3))
    for _ in range(20):
        whole.advance()
    for _ in range(moment):
        first.advance()
    second.resume(through_files(first, folder))
    for _ in range(20 - moment):
        first.advance()  # who wrote checkpoints goes on unchanged too
        second.advance()
    whole.end()
    for run in (first, second):
        run.end()
        assert run.time == whole.time
        assert run.state.samples == whole.state.samples
        assert run.state.updates == whole.state.updates
        np.testing.assert_array_equal(run.state.weights, whole.state.weights)
        if whole.state.velocity is not None:
            np.testing.assert_array_equal(run.state.velocity, whole.state.velocity)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: f"{algorithm.name}")
def test_a_resumed_training_is_the_uninterrupted_one(algorithm: Algorithm, loss: str, tmp_path: Path) -> None:
    goes_on_as_if_nothing_had_been(tmp_path, algorithm, **LOSSES[loss])


@pytest.mark.parametrize("moment", [1, 2, 6, 12])
@pytest.mark.parametrize("algorithm", [AbsSGD(micro=4, grace=0.5), DelayedBalanced(8)], ids=lambda each: each.name)
def test_so_it_is_while_workers_die_come_late_and_stall(algorithm: Algorithm, moment: int, tmp_path: Path) -> None:
    stalling = Speed(np.array([3.0, 4.0, 1000.0]), np.array([8.0, 0.08, 8.0]))
    machines = (Machine(stalling), Machine(Speed.constant(8.0), dies=3.3), Machine(Speed.constant(8.0), joins=4.2),
                Machine(Speed.constant(4.0)))  # fmt: skip
    goes_on_as_if_nothing_had_been(tmp_path, algorithm, Cluster("eventful", machines), moment, **LOSSES["loss"])


def test_the_pending_sum_is_part_of_it(tmp_path: Path) -> None:
    run = training(AbsSGD(micro=4), **LOSSES["error feedback"])
    for _ in range(5):
        run.advance()
    found = through_files(run, tmp_path)
    assert all(each.carried.samples > 0 for each in found)
    assert any(each.owed is not None and each.owed.sums.any() for each in found)
    assert not list(tmp_path.glob("*.part"))


def one(values: int = 800) -> Checkpoint:
    random = np.random.default_rng(2)
    weights, sums = (random.standard_normal(values).astype(np.float32) for _ in range(2))
    return Checkpoint(State(weights, sums, 7, 99.0), Share.of(sums, 5), kept=b"kept", source=b"", speeds=(1.0, 2.0))


def test_what_is_no_checkpoint_is_said_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "worker"
    with pytest.raises(UsageError, match="worker: cannot be read: No such file"):
        checkpoint.load(file)
    for content in (b"", b"PK\x03\x04 no archive", b"gradlane", b"\n" * 200):
        file.write_bytes(content)
        with pytest.raises(UsageError, match="worker: is no checkpoint"):
            checkpoint.load(file)
    file.write_bytes(b"gradlane checkpoint 1\n" + bytes(99))
    with pytest.raises(UsageError, match="worker: is a checkpoint of format 1; this version reads 2"):
        checkpoint.load(file)
    file.unlink()
    file.mkdir()
    with pytest.raises(UsageError, match="worker: cannot be read: Is a directory"):
        checkpoint.load(file)


def test_what_is_no_file_is_never_replaced_by_a_checkpoint(tmp_path: Path) -> None:
    os.mkfifo(pipe := tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe: cannot be written: it is no file"):
        checkpoint.save(one(), pipe)
    assert pipe.is_fifo() and list(tmp_path.iterdir()) == [pipe]


def test_a_damaged_checkpoint_is_said_in_one_line(tmp_path: Path) -> None:
    file, random = tmp_path / "worker", np.random.default_rng(5)
    checkpoint.save(one(), file)
    assert checkpoint.load(file).kept == b"kept"
    content = file.read_bytes()
    for cut in random.integers(0, len(content), 40):
        file.write_bytes(content[:cut])
        with pytest.raises(UsageError, match=r"worker: is (no|a damaged) checkpoint"):
            checkpoint.load(file)
    for place in (*range(60), *random.integers(0, len(content), 100)):
        changed = bytearray(content)
        changed[place] ^= 1 << int(random.integers(8))
        file.write_bytes(bytes(changed))
        with pytest.raises(UsageError, match=r"worker: is (no checkpoint|a (damaged )?checkpoint.*)"):
            checkpoint.load(file)


def test_a_checkpoint_killed_in_mid_write_leaves_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "worker"
    checkpoint.save(one(), file)
    dying = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from traffic.training import checkpoint\n"
        "whole = checkpoint.load(file := Path(sys.argv[1]))\n"
        "os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "checkpoint.save(whole, file)\n"
    )
    assert subprocess.run([sys.executable, "-c", dying, str(file)]).returncode == -signal.SIGKILL
    assert (tmp_path / "worker.part").exists()
    assert checkpoint.load(file).state.updates == 7
    checkpoint.save(replace(one(), taken=3), file)
    assert checkpoint.load(file).taken == 3
    assert list(tmp_path.iterdir()) == [file]


def test_where_no_checkpoint_can_be_written_one_line_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="file/worker: cannot be written: "):
        checkpoint.save(one(), tmp_path / "file" / "worker")


def test_checkpoints_of_another_training_are_refused() -> None:
    run = training(AbsSGD(micro=4))
    found = run.checkpoints()
    with pytest.raises(UsageError, match="there are 2 checkpoints of 3 workers"):
        run.resume(found[:2])
    with pytest.raises(UsageError, match="the checkpoint has 801 weights, the model 800"):
        run.resume([found[0], found[1], one(801)])
    run.advance()
    run.advance()
    with pytest.raises(UsageError, match="one checkpoint is of sum 2, another of sum 0"):
        training(AbsSGD(micro=4)).resume([*run.checkpoints()[:2], found[2]])
