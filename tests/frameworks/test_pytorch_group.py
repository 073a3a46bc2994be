# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402  # what needs torch is imported once it is known to be there
"""A process group whose communicator fails, in one process: nothing is taken for done that is not."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from tests.frameworks.jobs import needs
from traffic.collectives.errors import CollectiveError
from traffic.collectives.job import Job

needs("torch", "PyTorch")

import torch

from traffic.frameworks.pytorch_group import GradlaneGroup


class Failing:
    """The communicator of a job that has lost a rank."""

    rank, size, job = 0, 2, Job(number=1, workers=("127.0.0.1", "127.0.0.2"), collective="ring")

    def all_reduce(self, *_: Any, **__: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_exception(CollectiveError("rank 1 (127.0.0.2) is lost"))
        return future

    broadcast = all_reduce


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_waiting_for_what_failed_raises_what_made_it_fail(dtype: Any) -> None:
    group = GradlaneGroup(Failing())
    tensor = torch.ones(3, dtype=dtype)
    for work in (group.allreduce([tensor]), group.allgather([[tensor.clone(), tensor.clone()]], [tensor])):
        with pytest.raises(CollectiveError, match="rank 1"):
            work.wait()
        with pytest.raises(RuntimeError, match="rank 1"):
            work.get_future().wait()
    assert torch.equal(tensor, torch.ones(3, dtype=dtype))
