# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A process group for torch.distributed: `init_process_group("gradlane")`, once this module is imported.

What goes through it may be counts, metrics, or parameters as well as gradients, so it is exact: the job's tolerance
holds for what `attach` sends, which is known to be gradients. Sums of floats go by the job's collective; everything
else is gathered whole and reduced at each rank in the same order, so that all have the same bits.
"""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import reduce
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import Work

from topologies.errors import UsageError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Op
from traffic.collectives.names import EXACT, TENSORS
from traffic.frameworks.joining import as_floats, check_size, from_floats, job_of

NAME = "gradlane"
NUMBERS = range(EXACT, TENSORS)
"""The tensor numbers that the group's operations bear in turn: those that are never lossy."""
LAYER = 31
"""Nothing is known of when it is needed: the fabric's least class of gradients."""
SUMMED = (torch.float32, torch.float16, torch.bfloat16)
"""Types whose sums in float32 are as good as their own."""


class GradlaneGroup(dist.ProcessGroup):
    """All workers of a job, on CPU tensors: all_reduce, broadcast, all_gather, barrier, and what is made of them."""

    def __init__(self, communicator: Communicator) -> None:
        super().__init__(communicator.rank, communicator.size)
        self.communicator = communicator
        self._count = 0

    def getBackendName(self) -> str:  # torch's name
        """Return the name that init_process_group knows."""
        return NAME

    def shutdown(self) -> None:
        """Leave the job: destroy_process_group calls it."""
        self.communicator.close()
        _joined.clear()

    # ---- torch's collectives

    def allreduce(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce each tensor over all ranks in place."""
        operation = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        return self._work([self._reduce(tensor, operation) for tensor in tensors], tensors)

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> Any:
        """Reduce each tensor over all ranks in place."""
        return self.allreduce(tensors, opts)

    def broadcast(self, tensors: Any, opts: Any) -> Any:
        """Give every rank the root's tensors in place."""
        return self._work([self._broadcast(tensor, opts.rootRank, tensor.copy_) for tensor in tensors], tensors)

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> Any:
        """Give every rank all ranks' tensors: `outputs` holds a list of them for each input."""
        gathered = [self._gather(given, lists) for lists, given in zip(outputs, inputs, strict=True)]
        return self._work([future for futures in gathered for future in futures], outputs)

    def all_gather_single(self, output: Any, given: Any, opts: Any = None) -> Any:
        """Give every rank all ranks' tensors, one after another in `output`."""
        parts = [part.view(given.shape) for part in output.view(-1).split(given.numel())]
        return self._work(self._gather(given, parts), output)

    def barrier(self, opts: Any = None) -> Any:
        """Return once every rank has come here."""
        self.communicator.barrier()
        return self._work([], None)

    # ---- how

    def _next(self) -> tuple[int, int]:
        """Return the tensor and round of the next operation; torch has all ranks call in the same order."""
        number, self._count = self._count, self._count + 1
        return NUMBERS[number % len(NUMBERS)], number // len(NUMBERS)

    def _reduce(self, tensor: Any, operation: Any) -> Future[None]:
        if tensor.dtype not in SUMMED or operation not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG) or not tensor.numel():
            return self._reduce_here(tensor, operation)
        number, turn = self._next()
        values = tensor.detach().to(torch.float32).contiguous().numpy()
        future = self.communicator.all_reduce(values, tensor=number, layer=LAYER, round=turn)
        scale = _scale(self.communicator, operation)
        return _after([future], lambda: tensor.copy_(torch.from_numpy(future.result().values) * scale))

    def _reduce_here(self, tensor: Any, operation: Any) -> Future[None]:
        function, size = _function(operation), self.communicator.size
        copies = [torch.empty_like(tensor) for _ in range(size)]

        def finish() -> None:
            total = reduce(function, copies)
            tensor.copy_(total / size if operation == dist.ReduceOp.AVG else total)

        return _after(self._gather(tensor, copies), finish)

    def _broadcast(self, tensor: Any, root: int, place: Callable[[Any], Any]) -> Future[None]:
        if not tensor.numel():
            return _after([], lambda: None)
        number, turn = self._next()
        like = tensor.detach().contiguous().view(torch.uint8).numpy()
        future = self.communicator.broadcast(as_floats(like), tensor=number, round=turn, root=root)

        def put() -> None:
            data = torch.from_numpy(from_floats(future.result().values, like).copy())
            place(data.view(tensor.dtype).view(tensor.shape))

        return _after([future], put)

    def _gather(self, given: Any, places: Sequence[Any]) -> list[Future[None]]:
        return [self._broadcast(given, root, place.copy_) for root, place in enumerate(places)]

    def _work(self, futures: Sequence[Future[None]], result: Any) -> Any:
        promise = torch.futures.Future()
        done = _after(futures, lambda: None)

        def tell(_: Future[None]) -> None:
            promise.set_result((result, done.exception()))

        done.add_done_callback(tell)
        return Underway(promise)


class Underway(Work):
    """An operation under way; `wait` raises what made it fail, which torch's own work of a future does not.

    `promise` is a torch future of (result, error).
    """

    def __init__(self, promise: Any) -> None:
        super().__init__()
        self._promise, self._result = promise, promise.then(outcome)

    def wait(self, timeout: Any = None) -> bool:
        """Wait for the operation. Raises CollectiveError."""
        _, error = self._promise.wait()
        if error is not None:
            raise error
        return True

    def is_completed(self) -> bool:
        """Whether it has ended."""
        done: bool = self._promise.done()
        return done

    def get_future(self) -> Any:
        """Return a torch future of the result."""
        return self._result


def outcome(future: Any) -> Any:
    """Return the result of a torch future of (result, error), or raise the error: as `then` hands it on.

    An exception that is set on a future is for Python alone; torch's own code sees a value that is no tensor.
    """
    result, error = future.value()
    if error is not None:
        raise error
    return result


def _after(futures: Sequence[Future[Any]], finish: Callable[[], Any]) -> Future[None]:
    """Return a future that is done once all others are and `finish` was called; it fails as soon as one fails."""
    result: Future[None] = Future()
    left, lock = [len(futures)], threading.Lock()

    def close(error: BaseException | None) -> None:
        try:
            if error is None:
                finish()
        except Exception as failure:
            error = failure
        if error is None:
            result.set_result(None)
        else:
            result.set_exception(error)

    def one(future: Future[Any]) -> None:
        error = future.exception()
        with lock:
            if left[0] <= 0:
                return
            left[0] = left[0] - 1 if error is None else 0
            last = left[0] == 0
        if last:
            close(error)

    for future in futures:
        future.add_done_callback(one)
    if not futures:
        close(None)
    return result


def _scale(communicator: Communicator, operation: Any) -> float:
    """Return what makes the wanted operation of what the job's gives."""
    if operation == dist.ReduceOp.SUM:
        return 1.0 if communicator.job.op is Op.SUM else float(communicator.size)
    return 1.0 / communicator.size if communicator.job.op is Op.SUM else 1.0


def _function(operation: Any) -> Callable[[Any, Any], Any]:
    functions: list[tuple[Any, Callable[[Any, Any], Any]]] = [
        (dist.ReduceOp.SUM, torch.add),
        (dist.ReduceOp.AVG, torch.add),
        (dist.ReduceOp.PRODUCT, torch.mul),
        (dist.ReduceOp.MIN, torch.minimum),
        (dist.ReduceOp.MAX, torch.maximum),
        (dist.ReduceOp.BAND, torch.bitwise_and),
        (dist.ReduceOp.BOR, torch.bitwise_or),
        (dist.ReduceOp.BXOR, torch.bitwise_xor),
    ]
    for known, function in functions:
        if operation == known:
            return function
    raise UsageError(f"the gradlane backend cannot reduce by {operation}")


_joined: list[GradlaneGroup] = []


def _create(store: Any, rank: int, size: int, timeout: Any) -> GradlaneGroup:
    """Make the process group for torch. Raises UsageError."""
    if _joined:
        raise UsageError("the gradlane backend has one process group, of all the job's workers")
    job = job_of(None)
    check_size(job, size)
    _joined.append(GradlaneGroup(Communicator(job, rank)))
    return _joined[0]


if NAME not in dist.Backend.backend_list:
    dist.Backend.register_backend(NAME, _create, devices=["cpu"])
