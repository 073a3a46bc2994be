# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""MXNet: a key-value store over Gradlane, and a Gluon trainer that keeps all its keys on their way at once."""

from __future__ import annotations

import atexit
from collections import defaultdict
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import mxnet as mx
import numpy as np

from topologies.errors import UsageError
from traffic.frameworks.joining import JobLike, broadcast_arrays, join, layers_of


@mx.kvstore.KVStoreBase.register
class Dist_Gradlane(mx.kvstore.KVStoreBase):  # Gluon makes a store by its class's name, if "dist" is in it
    """A store that holds nothing: what is pushed comes back as the job's aggregate. `kvstore="dist_gradlane"`.

    `job` is a Job or the path of its file, $GRADLANE_JOB unless given; `rank` is $RANK unless given. Keys are taken up
    in the same order on every rank. A priority of -n makes layer n: 0 is needed first, as Gluon's trainer has it.
    """

    def __init__(self, job: JobLike = None, rank: int | None = None) -> None:
        self.communicator = join(job, rank)
        self.weight = 1
        """Samples behind this rank's next gradients: set it before a step where the job's mean is weighted."""
        self._numbers: dict[Any, int] = {}
        self._rounds: defaultdict[int, int] = defaultdict(int)
        self._turns: defaultdict[int, int] = defaultdict(int)
        """Of broadcasts, by number."""
        self._pending: dict[int, Future[Any]] = {}
        atexit.register(self.close)

    def close(self) -> None:
        """Leave the job."""
        atexit.unregister(self.close)
        self.communicator.close()

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        """Write rank 0's value to every rank's `out`."""
        number = self._number(key)
        turn, self._turns[number] = self._turns[number], self._turns[number] + 1
        (data,) = broadcast_arrays(self.communicator, [_listed(value)[0].asnumpy()], first=number, round=turn)
        _write(out, data)

    def push(self, key: Any, value: Any, priority: int = 0) -> None:
        """Send a gradient; of several devices' the sum. Returns once it is on its way."""
        number, values = self._number(key), _listed(value)
        if number in self._pending:
            raise UsageError(f"key {key!r} is pushed again before it was pulled")
        total = np.sum([part.asnumpy() for part in values], axis=0)
        self._pending[number] = self.communicator.all_reduce(
            total, tensor=number, layer=max(-priority, 0), round=self._rounds[number], weight=self.weight
        )
        self._rounds[number] += 1

    def pull(self, key: Any, out: Any, priority: int = 0) -> None:
        """Wait for the aggregate of what was pushed, and write it to `out`."""
        number = self._number(key)
        if number not in self._pending:
            raise UsageError(f"key {key!r} is pulled, but nothing was pushed")
        _write(out, self._pending.pop(number).result().values)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        """Write the aggregate of all ranks' values to `out`, or to `value`."""
        self.push(key, value, priority)
        self.pull(key, value if out is None else out, priority)

    @staticmethod
    def is_capable(capability: str) -> bool:
        """Whether the store can do more: it holds no optimiser."""
        return False

    @property
    def type(self) -> str:
        """The store's name."""
        return "dist_gradlane"

    @property
    def rank(self) -> int:
        """This worker's number, from 0."""
        return self.communicator.rank

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return self.communicator.size

    def _number(self, key: Any) -> int:
        if isinstance(key, list | tuple):
            raise UsageError("the store takes one key at a time, not a list of them")
        return self._numbers.setdefault(key, len(self._numbers))


class Trainer(mx.gluon.Trainer):
    """Gluon's trainer, with every gradient on its way before the first is waited for; last layer first.

    Arguments are Gluon's; `kvstore` is a `Dist_Gradlane`, made from the environment unless given. `layers` numbers
    parameters by name, 0 needed first; unless given, in the order of definition. The result of a round is what the
    job's `op` says, the mean unless told otherwise: so `step` takes the samples of this worker's batch alone.
    """

    def __init__(
        self, params: Any, *arguments: Any, kvstore: Any = None, layers: Mapping[str, int] | None = None, **options: Any
    ) -> None:
        names = list(params.keys()) if hasattr(params, "keys") else [parameter.name for parameter in params]
        self._layers = layers or dict(zip(names, layers_of(names, "_"), strict=True))
        self.store = kvstore if kvstore is not None else Dist_Gradlane()
        super().__init__(params, *arguments, kvstore=self.store, update_on_kvstore=False, **options)

    def _allreduce_grads(self) -> None:
        ready = [(number, part) for number, part in enumerate(self._params) if part.grad_req != "null"]
        for number, parameter in sorted(ready, key=lambda item: -self._layers[item[1].name]):
            self.store.push(number, parameter.list_grad(), priority=-self._layers[parameter.name])
        for number, parameter in sorted(ready, key=lambda item: self._layers[item[1].name]):
            self.store.pull(number, parameter.list_grad())


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, list | tuple) else [values]


def _write(out: Any, values: Any) -> None:
    for place in _listed(out):
        place[:] = mx.nd.array(values, dtype=place.dtype)
