# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A rank's face of a job: tensors in, futures of their sums out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from topologies.errors import UsageError
from traffic.collectives.channel import SocketChannel
from traffic.collectives.errors import CollectiveError
from traffic.collectives.job import Job
from traffic.collectives.member import Member, Reduced
from traffic.collectives.names import BARRIER, ROUNDS, TENSORS, Name
from traffic.collectives.plan import ALL_REDUCE
from traffic.collectives.statistics import Statistics
from traffic.transport.errors import Cancelled

__all__ = ["Communicator", "Reduced"]


class Communicator:
    """A rank of a job, connected; a context manager.

    Raises CollectiveError where the others do not come. Everything may be called from any thread; callbacks of futures
    run in the transport's thread and must not block. `opening` is called before the others are waited for: whoever
    keeps what it gets can `abandon` that wait.
    """

    def __init__(self, job: Job, rank: int, opening: Callable[[Communicator], None] = lambda _: None) -> None:
        if not 0 <= rank < len(job.workers):
            raise UsageError(f"the job has ranks 0..{len(job.workers) - 1}, not {rank}")
        job.plan  # noqa: B018  # here, where a wrong schedule is an error of this thread
        self.job, self.rank, self.size = job, rank, len(job.workers)
        self._barriers = 0
        self._channel = SocketChannel(job, rank)
        self._member = Member(job, rank, self._channel)
        try:
            self._channel.run(self._member)
            opening(self)
            self._member.all_met.result()
        except CollectiveError:
            self.close()
            raise
        except BaseException:
            self._channel.close()
            raise

    def __enter__(self) -> Communicator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            reason = f"{self.job.who(self.rank)} gave up: {str(error) or type(error).__name__}"
            self._post(lambda: self._member.fail(reason))
        self.close()

    @property
    def statistics(self) -> Statistics:
        """What this rank has sent until now, what of it was lost, and what it received in vain."""
        try:
            return self._channel.call(self._counted)
        except Cancelled:  # closed: nothing changes any more
            return self._counted()

    def _counted(self) -> Statistics:
        return replace(self._member.statistics.copy(), ignored=self._channel.ignored())

    def owed(self, tensor: int, size: int, *, failed: int | None = None) -> NDArray[np.float32] | None:
        """Return what error feedback would send with this rank's next values of a tensor, shape (size,); None: nothing.

        Waits until it is known what the values sent before have lost: to be asked between two sums, or once the job has
        failed. `failed` is then the round of a sum that no rank has: what went into it is owed as before.
        """

        owed = partial(self._member.owed, tensor, size, None if failed is None else failed % ROUNDS)
        try:
            wait(self._channel.call(lambda: list(self._member.unreported)), timeout=self.job.timeout)
            return self._channel.call(owed)
        except Cancelled:  # closed: nothing changes any more
            return owed()

    # ---- collectives

    def all_reduce(
        self, values: ArrayLike, *, tensor: int, layer: int = 0, round: int, weight: int = 1
    ) -> Future[Reduced]:
        """Sum a tensor over all ranks, as the job says. It is sent at once; do not change it until the future is done.

        Every rank gives a tensor of this number and size for this round, in any order. `layer` 0 is needed first,
        `weight` are the samples behind the values. The future holds the same bits on every rank, or a CollectiveError.
        Raises UsageError where the job's schedule is of another collective.
        """
        if (other := self.job.plan.collective) != ALL_REDUCE:
            raise UsageError(f"the job's schedule is of {other}, not of all_reduce")
        name = self._name(tensor, layer, round)
        if not 0 <= weight * self.size < 1 << 32:
            raise ValueError(f"the weights of all {self.size} ranks are below 2^32 together, but one is {weight}")
        return self._begin(partial(self._member.all_reduce, name, _flat(values), weight))

    def all_reduce_each(
        self,
        tensors: Sequence[ArrayLike],
        *,
        layers: Sequence[int],
        round: int,
        weight: int = 1,
        numbers: Sequence[int] | None = None,
    ) -> list[Future[Reduced]]:
        """Sum several tensors, numbered from 0 unless `numbers` says otherwise."""
        return [
            self.all_reduce(values, tensor=number, layer=layer, round=round, weight=weight)
            for values, layer, number in zip(tensors, layers, numbers or range(len(tensors)), strict=True)
        ]

    def broadcast(self, values: ArrayLike, *, tensor: int, round: int = 0, root: int = 0) -> Future[Reduced]:
        """Give every rank the root's values, whole and in float32; the others' say only the shape."""
        if not 0 <= root < self.size:
            raise ValueError(f"there are ranks 0..{self.size - 1}, not {root}")
        name = self._name(tensor, 0, round, broadcast=True)
        return self._begin(lambda future: self._member.broadcast(name, _flat(values), root, future))

    def run(self, values: ArrayLike, *, tensor: int, layer: int = 0, round: int = 0) -> Future[Reduced]:
        """Do what the job's schedule says, of whatever collective, with a tensor that holds all of its chunks.

        Chunks lie in it as `Plan.cut` has them with turn 0, from the beginning on in the order of their numbers. Of
        what this rank gives only chunks count that are its own at the start; in the result, chunks that it is not to
        have in the end are zero. Values that are not summed go whole and in float32.
        """
        name = self._name(tensor, layer, round, broadcast=not self.job.plan.sums)
        return self._begin(partial(self._member.run, name, _flat(values)))

    def barrier(self) -> None:
        """Wait until every rank has come here. Raises CollectiveError."""
        self._barriers += 1
        name, nothing = Name(BARRIER, 0, self._barriers % ROUNDS), np.zeros(1, np.float32)
        self._begin(partial(self._member.all_reduce, name, nothing, 0)).result()

    def _name(self, tensor: int, layer: int, round_number: int, *, broadcast: bool = False) -> Name:
        if not 0 <= tensor < TENSORS or not 0 <= layer < 1 << 16 or round_number < 0:
            raise ValueError(f"tensors are 0..{TENSORS - 1}, layers 0..65535, rounds from 0 on")
        return Name(tensor, layer, round_number % ROUNDS, broadcast)

    def _begin(self, begin: Any) -> Future[Reduced]:
        future: Future[Reduced] = Future()
        future.set_running_or_notify_cancel()
        if not self._post(lambda: begin(future)):
            future.set_exception(self._member.error or Cancelled("the communicator is closed"))
        return future

    def _post(self, function: Any) -> bool:
        try:
            self._channel.post(function)
        except Cancelled:
            return False
        return True

    # ---- the end

    def abandon(self, reason: str) -> None:
        """Fail what this rank waits for and tell nobody: the others know, or are beyond hearing."""
        self._post(lambda: self._member.fail(reason, tell=False))

    def close(self) -> None:
        """Leave the job, once all that this rank owes the others is sent, or the job's patience is over."""
        self._channel.leave(self._member)
        self._channel.close()


def _flat(values: ArrayLike) -> NDArray[np.float32]:
    array = np.ascontiguousarray(values, np.float32).reshape(np.shape(values))
    if not array.size:
        raise ValueError("a tensor without values cannot be summed")
    return array
