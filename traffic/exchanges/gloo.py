# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Gloo's all-reduce over TCP, as torch.distributed has it: the baseline without parameter servers. Needs PyTorch."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np

from topologies.errors import FailureError
from traffic.exchanges.exchange import Gradient, Mean

PATIENCE = 60.0
"""Seconds that an all-reduce may take."""


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

    def all_reduce(self, values: Gradient, *, tensor: int, layer: int, round: int, weight: int = 1) -> Future[Mean]:
        """Begin a tensor's all-reduce; its mean replaces the gradient."""
        whole: Future[Mean] = Future()
        work = self._group.allreduce([self._torch.from_numpy(values)], self._options)

        def done(reduced: Any) -> None:
            try:
                reduced.value()
            except RuntimeError as error:
                whole.set_exception(FailureError(f"Gloo's all-reduce failed: {str(error).splitlines()[0]}"))
            else:
                np.divide(values, np.float32(self._workers), out=values)
                whole.set_result(Mean(values))

        work.get_future().add_done_callback(done)
        return whole

    def losses(self) -> dict[str, Any]:
        """TCP loses nothing for good."""
        return {}

    def close(self) -> None:
        """Leave the group."""
        del self._group, self._store
