# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Gloo's all-reduce over TCP, as torch.distributed has it: the baseline without parameter servers. Needs PyTorch."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from topologies.errors import FailureError
from traffic.exchanges.exchange import PATIENCE, Gradient


@dataclass(frozen=True)
class GlooSettings:
    """Where the ranks meet."""

    port: int
    """Of the store at rank 0."""


def available() -> bool:
    """Whether PyTorch is installed."""
    return importlib.util.find_spec("torch") is not None


class GlooWorker:
    """One rank of an all-reduce for each tensor, begun when its gradient is ready."""

    def __init__(
        self, settings: GlooSettings, rank: int, address: str, workers: Sequence[str], sizes: Sequence[int]
    ) -> None:
        """Meet the other ranks. Raises FailureError if they do not come."""
        torch: Any = importlib.import_module("torch")
        distributed: Any = importlib.import_module("torch.distributed")
        torch.set_num_threads(1)
        self._torch = torch
        self._workers = len(workers)
        self._work: list[Any] = [None] * len(sizes)
        self._gradients: list[Gradient] = [np.zeros(0, np.float32)] * len(sizes)
        timeout = timedelta(seconds=PATIENCE)
        try:
            store = distributed.TCPStore(workers[0], settings.port, len(workers), rank == 0, timeout)
            group = distributed.ProcessGroupGloo
            options = group._Options()
            options._devices = [group.create_device(hostname=address)]
            options._timeout = timeout
            self._group = group(store, rank, len(workers), options)
            self._store = store
            self._options = distributed.AllreduceOptions()
            self._group.barrier().wait()
        except RuntimeError as error:
            raise FailureError(f"Gloo's ranks did not meet: {str(error).splitlines()[0]}") from error

    def send(self, _: int, tensor: int, gradient: Gradient) -> None:
        """Begin a tensor's all-reduce."""
        self._gradients[tensor] = gradient
        self._work[tensor] = self._group.allreduce([self._torch.from_numpy(gradient)], self._options)

    def wait(self, tensor: int) -> Gradient:
        """Return a tensor's mean."""
        try:
            self._work[tensor].wait()
        except RuntimeError as error:
            raise FailureError(f"Gloo's all-reduce failed: {str(error).splitlines()[0]}") from error
        mean = self._gradients[tensor]
        mean /= np.float32(self._workers)
        return mean

    def losses(self) -> dict[str, Any]:
        """TCP loses nothing for good."""
        return {}

    def close(self) -> None:
        """Leave the group."""
        self._work.clear()
        del self._group, self._store
