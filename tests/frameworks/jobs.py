# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Jobs of several processes over loopback, as a user starts them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.frameworks.workers import reference

ROOT = Path(__file__).resolve().parents[2]
WORKERS = Path(__file__).parent / "workers"
LONGEST = 600


def network() -> str:
    """Return loopback addresses that no other test uses now."""
    return f"127.{1 + os.getpid() // 250 % 250}.{os.getpid() % 250}"


@dataclass(frozen=True)
class Ended:
    """What became of a job."""

    code: int
    out: str
    errors: str
    folder: Path

    def arrays(self, rank: int) -> dict[str, NDArray[np.float32]]:
        """Return what a rank has saved."""
        with np.load(self.folder / f"rank{rank}.npz") as saved:
            return dict(saved)


def run(script: Path, *arguments: str, folder: Path, options: tuple[str, ...] = (), patience: float = 60) -> Ended:
    """Launch a script as a job, with the folder as its first argument, and wait for its end.

    The patience is that of a machine which has better things to do than to test.
    """
    launch = [sys.executable, "-m", "traffic.frameworks.launch", "--network", network(), "--patience", str(patience)]
    launch += options
    return ended([*launch, str(script), str(folder), *arguments], folder)


def ended(command: list[str], folder: Path, **variables: str) -> Ended:
    """Run a command and return what became of it."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LONGEST)
    return Ended(done.returncode, done.stdout, done.stderr, folder)


def worked(script: str, *arguments: str, folder: Path, options: tuple[str, ...] = ()) -> Ended:
    """Run a job of tests/frameworks/workers that is to succeed."""
    job = run(WORKERS / script, *arguments, folder=folder, options=options)
    assert job.code == 0, job.out + job.errors
    return job


def assert_replicas_agree(job: Ended, ranks: int = 2) -> dict[str, NDArray[np.float32]]:
    """Assert that all ranks saved the same bits, of something; returns them."""
    first = job.arrays(0)
    assert first
    for rank in range(1, ranks):
        other = job.arrays(rank)
        assert first.keys() == other.keys()
        for name, values in first.items():
            np.testing.assert_array_equal(values, other[name], err_msg=f"{name} of rank {rank}")
    return first


def assert_classifier_was_trained(job: Ended, ranks: int, rounds: int) -> None:
    """Assert that all ranks began with rank 0's values and did what the mean of their gradients does."""
    saved = assert_replicas_agree(job, ranks)
    assert lost_values(job) == [0] * ranks
    weights, bias = reference.trained(saved["weights_before"], saved["bias_before"], ranks, rounds)
    np.testing.assert_allclose(saved["weights"], weights, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(saved["bias"], bias, rtol=1e-4, atol=1e-5)


def assert_values_were_lost(job: Ended, ranks: int = 2) -> None:
    """Assert that the network lost something, and that all ranks have the same values nevertheless."""
    assert_replicas_agree(job, ranks)
    assert sum(lost_values(job)) > 0, job.out


def lost_values(job: Ended) -> list[int]:
    """Return how many values of each rank were lost, as the workers print it."""
    return [int(lost) for lost in re.findall(r"lost (\d+) of", job.out)]


def assert_a_killed_rank_is_told(script: str, *arguments: str, folder: Path, error: str) -> None:
    """Assert that when the script kills rank 1, the job fails, and rank 0 has an error that names rank 1."""
    job = run(WORKERS / script, *arguments, folder=folder, patience=10)
    assert job.code != 0
    said = job.out + job.errors
    assert re.search(rf"{error}.*rank 1 \(127[.\d]+\) (is lost|has left|did not come)", said), said


def needs(module: str, name: str) -> None:
    """Skip the calling module's tests where a framework is not installed; looks without importing it."""
    if find_spec(module) is None:
        pytest.skip(f"{name} is not installed: make test-frameworks installs it", allow_module_level=True)
