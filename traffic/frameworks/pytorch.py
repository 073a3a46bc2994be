# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's DistributedDataParallel: a communication hook that sends each parameter's gradient by itself.

A bucket is done when all its parameters are, and `backward` returns when all buckets are: a barrier. What the layers
win at the fabric's queues they win in gated mode only (pytorch_gate.py).
"""

import atexit
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any

import torch
import torch.distributed as dist

from topologies.errors import UsageError
from traffic.collectives.communicator import Communicator
from traffic.frameworks.joining import JobLike, check_size, job_of, join, layers_of
from traffic.frameworks.pytorch_group import GradlaneGroup, outcome


class Attachment:
    """What carries a model's gradients, until it is closed; at the latest when the process ends. A context manager."""

    def __init__(self, communicator: Communicator, model: Any, layers: Mapping[str, int] | None, owned: bool) -> None:
        self.communicator = communicator
        self.weight = 1
        """Samples behind this rank's next gradients: set it before `backward` where the job's mean is weighted."""
        self._owned = owned
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self._layers = layers_of_parameters(named, layers)
        self._numbers = {id(parameter): number for number, parameter in enumerate(named.values())}
        self._rounds = [0] * len(named)
        atexit.register(self.close)

    def __enter__(self) -> "Attachment":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._owned:
            self.communicator.__exit__(kind, error, trace)  # tells the others why
        self.close()

    def close(self) -> None:
        """Leave the job, unless the process group is in it. The model cannot train any more."""
        atexit.unregister(self.close)
        if self._owned:
            self.communicator.close()

    def reduce(self, bucket: Any) -> Any:
        """Send a bucket's gradients and return a torch future of its buffer, which then holds the aggregates."""
        gradients, buffer = bucket.gradients(), bucket.buffer()
        result = torch.futures.Future()
        given = [pair for pair in zip(bucket.parameters(), gradients, strict=True) if pair[1].numel()]
        if not given:
            result.set_result((buffer, None))
        left, lock = [len(given)], threading.Lock()

        def arrived(gradient: Any, future: Future[Any]) -> None:
            error = future.exception()
            if error is None:
                gradient.copy_(torch.from_numpy(future.result().values))
            with lock:
                if left[0] <= 0:  # it has failed already
                    return
                left[0] = left[0] - 1 if error is None else -1
            if error is not None or left[0] == 0:
                result.set_result((buffer, error))

        for parameter, gradient in given:
            number = self._numbers[id(parameter)]
            future = self.communicator.all_reduce(
                values_of(gradient),
                tensor=number,
                layer=self._layers[number],
                round=self._rounds[number],
                weight=self.weight,
            )
            self._rounds[number] += 1
            future.add_done_callback(partial(arrived, gradient))
        return result.then(outcome)


def attach(
    model: Any, *, job: JobLike = None, rank: int | None = None, layers: Mapping[str, int] | None = None
) -> Attachment:
    """Have a DistributedDataParallel model's gradients travel by Gradlane, each layer's for itself.

    `job` is a Job or the path of its file, $GRADLANE_JOB unless given; not needed where the model's process group is
    gradlane's own. `layers` numbers parameters by name, 0 needed first; unless given, in the order of definition.
    The result of a round is what the job's `op` says: the mean, unless told otherwise. Raises UsageError, and
    CollectiveError where the other ranks do not come.
    """
    if not isinstance(model, torch.nn.parallel.DistributedDataParallel):
        raise UsageError(
            "attach takes a DistributedDataParallel model; gradlane.gate takes any, without a process group"
        )
    group = model.process_group
    if isinstance(group, GradlaneGroup):
        if job is not None and job_of(job) != group.communicator.job:
            raise UsageError("the model's process group is in another job: give that one, or none")
        communicator, owned = group.communicator, False
    else:
        known = job_of(job)
        check_size(known, group.size())
        communicator, owned = join(known, dist.get_rank(group) if rank is None else rank), True
    attachment = Attachment(communicator, model.module, layers, owned)
    model.register_comm_hook(attachment, _hook)
    return attachment


def layers_of_parameters(named: Mapping[str, Any], layers: Mapping[str, int] | None) -> list[int]:
    """Return the layer of each parameter, by the user's numbers or in the order of definition. Raises UsageError."""
    if layers is None:
        return layers_of(list(named), ".")
    if missing := [name for name in named if name not in layers]:
        raise UsageError(f"layers= has no number for {missing[0]}")
    return [layers[name] for name in named]


def values_of(gradient: Any) -> Any:
    """Return a gradient as a float32 array: the tensor's own memory where it is of that type, and in the host's.

    A sparse one is filled up with zeros. Raises UsageError for complex values.
    """
    if gradient.is_complex():
        raise UsageError("gradients of complex values cannot be summed: train real and imaginary parts")
    if gradient.layout is not torch.strided:
        gradient = gradient.to_dense()
    return gradient.detach().to("cpu", torch.float32).contiguous().numpy()


def _hook(state: Attachment, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    return state.reduce(bucket)
