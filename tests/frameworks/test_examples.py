# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The examples train, as the documentation says to run them."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.frameworks.jobs import ROOT, run

EXAMPLES = {
    "pytorch_abs_sgd": "torch",
    "pytorch_ddp": "torch",
    "pytorch_gated": "torch",
    "tensorflow_keras": "tensorflow",
    "mxnet_gluon": "mxnet",
}
PERCENT = 85
"""Test accuracy that all of them pass by far."""

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_trains_a_real_model(name: str, tmp_path: Path) -> None:
    if find_spec(EXAMPLES[name]) is None:
        pytest.skip(f"{EXAMPLES[name]} is not installed: make test-frameworks installs it")
    script = ROOT / "traffic" / "examples" / f"{name}.py"
    assert len(script.read_text().splitlines()) < 60
    job = run(script, folder=tmp_path, options=("--tolerance", "0.1"))
    assert job.code == 0, job.out + job.errors
    reached = re.findall(r"rank (\d): accuracy ([\d.]+)%", job.out)
    assert sorted(rank for rank, _ in reached) == ["0", "1"]
    accuracies = {float(accuracy) for _, accuracy in reached}
    assert len(accuracies) == 1, "replicas differ"
    assert min(accuracies) >= PERCENT


def test_the_abs_sgd_example_trains_with_a_roster_too(tmp_path: Path) -> None:
    if find_spec("torch") is None:
        pytest.skip("torch is not installed: make test-frameworks installs it")
    script = ROOT / "traffic" / "examples" / "pytorch_abs_sgd.py"
    job = run(script, folder=tmp_path, options=("--roster", "--tolerance", "0.1"))
    assert job.code == 0, job.out + job.errors
    assert len(set(re.findall(r"accuracy ([\d.]+)%", job.out))) == 1
