# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch over Gradlane, several processes on loopback."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from tests.frameworks.jobs import (
    WORKERS,
    assert_a_killed_rank_is_told,
    assert_replicas_agree,
    ended,
    lost_values,
    needs,
    network,
    worked,
)
from traffic.collectives.job import Job

needs("torch", "PyTorch")

pytestmark = pytest.mark.timeout(600)


def named(values: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {name.removeprefix(prefix): array for name, array in values.items() if name.startswith(prefix)}


@pytest.mark.parametrize("servers", ["2", "0"])
def test_an_attached_model_is_what_gloo_makes_of_it_to_rounding(servers: str, tmp_path: Path) -> None:
    options = ("--servers", servers, "--collective", "ps" if servers != "0" else "ring")
    job = worked("ddp.py", "gloo", folder=tmp_path, options=options)
    values = assert_replicas_agree(job)
    plain, attached = named(values, "plain."), named(values, "attached.")
    assert plain.keys() == attached.keys() and len(plain) == 6
    for name, expected in plain.items():
        np.testing.assert_allclose(attached[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
    assert lost_values(job) == [0, 0]
    assert "layers [0, 1, 2]" in job.out


@pytest.mark.parametrize("servers", ["1", "0"])
def test_replicas_are_the_same_bits_when_values_are_lost(servers: str, tmp_path: Path) -> None:
    collective = "ps" if servers != "0" else "ring"
    options = ("--workers", "3", "--servers", servers, "--collective", collective, "--tolerance", "0.4")
    job = worked("ddp.py", "gloo", folder=tmp_path, options=options)
    values = assert_replicas_agree(job, ranks=3)
    assert sum(lost_values(job)) > 0, job.out
    plain, attached = named(values, "plain."), named(values, "attached.")
    assert any(not np.array_equal(attached[name], expected) for name, expected in plain.items())


def test_the_process_group_is_exact_under_a_tolerance(tmp_path: Path) -> None:
    job = worked("process_group.py", folder=tmp_path, options=("--workers", "3", "--tolerance", "0.4"))
    assert len(assert_replicas_agree(job, ranks=3)) == 6


def test_torchrun_starts_workers_that_find_their_job(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    Job(number=3, workers=(f"{network()}.1", f"{network()}.2"), collective="ring", connect_timeout=180).save(file)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    job = ended([*torchrun, str(WORKERS / "process_group.py"), str(tmp_path)], tmp_path, GRADLANE_JOB=str(file))
    assert job.code == 0, job.out + job.errors
    assert len(assert_replicas_agree(job)) == 6


def test_gated_training_is_the_barriers_bit_for_bit(tmp_path: Path) -> None:
    values = assert_replicas_agree(worked("gated.py", folder=tmp_path, options=("--servers", "2")))
    plain, barrier, gated = (named(values, prefix) for prefix in ("plain.", "barrier.", "gated."))
    assert len(plain) == 6
    for name, expected in plain.items():
        np.testing.assert_array_equal(barrier[name], expected, err_msg=name)
        np.testing.assert_array_equal(gated[name], expected, err_msg=name)


@pytest.mark.parametrize("kind", ["ddp", "group", "gated"])
def test_a_killed_worker_ends_the_training_with_a_clear_error(kind: str, tmp_path: Path) -> None:
    assert_a_killed_rank_is_told("killed.py", kind, folder=tmp_path, error="CollectiveError: ")


def test_a_job_of_another_size_than_the_process_group_is_said_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    Job(number=3, workers=tuple(f"{network()}.{n}" for n in (1, 2, 3)), collective="ring").save(file)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    job = ended([*torchrun, "traffic/examples/pytorch_ddp.py"], tmp_path, GRADLANE_JOB=str(file))
    assert job.code != 0
    assert "error: the job has 3 workers, but the process group has 2" in job.errors.splitlines()
