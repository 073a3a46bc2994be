# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch with ABS-SGD, two ranks as threads of one process over loopback."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from tests.frameworks.jobs import needs, network
from traffic.collectives.job import Job, Op
from traffic.model import WORKLOADS
from traffic.transport.tolerance import Tolerance

needs("torch", "PyTorch")

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize(("op", "tolerance"), [(Op.SUM, 0.0), (Op.MEAN, 0.3)])
def test_ranks_of_unequal_speed_learn_and_end_with_the_same_values(op: Op, tolerance: float) -> None:
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
            model, optimizer, loader, updates=60, job=job, rank=rank, seconds_per_sample=slow
        )

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
