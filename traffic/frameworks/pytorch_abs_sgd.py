# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch with ABS-SGD: workers of unequal speed train one model, and none waits for another's batch.

A worker adds up the gradients of its loader's batches at frozen weights until the sum in flight has come; then the
optimiser steps by the mean over all workers' samples (docs/abs_sgd.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from topologies.errors import UsageError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Op
from traffic.frameworks.joining import JobLike, broadcast_arrays, join
from traffic.training.algorithms import AbsSGD
from traffic.training.real import Progress, RealTraining
from traffic.training.rule import Rule, State
from traffic.training.share import Floats, Share, Total

FIRST_TENSOR = 16
"""Of those that carry rank 0's start; the training's own are below."""


class _Loader:
    """A module as a function of flat values: its parameters, then its floating-point buffers.

    Buffers (a batch norm's running statistics) ride along: each micro-batch adds what they are after it, times its
    samples, so that the replicas' become the mean over all samples.
    """

    def __init__(self, model: Any, loader: Iterable[Any], loss: Callable[[Any, Any], Any]) -> None:
        self._model, self._loader, self._loss = model, loader, loss
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        if not self.parameters:
            raise UsageError("the model has no parameter that wants a gradient")
        self.learnt = sum(parameter.numel() for parameter in self.parameters)
        self.values = self.learnt + sum(buffer.numel() for buffer in self.buffers)
        self.taken = 0
        """Samples that this worker's loader has given."""
        self.epochs = 0
        """How often this worker's loader was read to its end."""
        self._batches: Iterator[Any] = iter(())
        self._loaded: Floats | None = None

    def initial(self) -> Floats:
        """Return the values that the model has now."""
        with torch.no_grad():
            parts = [tensor.reshape(-1).to(torch.float32) for tensor in (*self.parameters, *self.buffers)]
            flat: Floats = torch.cat(parts).cpu().numpy().copy()
        return flat

    def load(self, values: Floats) -> None:
        """Give the model these values."""
        if values is self._loaded:
            return
        place = 0
        with torch.no_grad():
            for tensor in (*self.parameters, *self.buffers):
                part = torch.from_numpy(values[place : place + tensor.numel()])
                tensor.copy_(part.reshape(tensor.shape))
                place += tensor.numel()
        self._loaded = values

    def _next(self) -> Any:
        for _ in range(2):
            for batch in self._batches:
                return batch
            self._batches = iter(self._loader)
            self.epochs += 1
        raise UsageError("the loader has no batches")

    def share(self, weights: Floats, samples: int) -> Share:
        """Compute the gradients of the loader's next batch, whatever its size."""
        self.load(weights)
        inputs, labels = self._next()
        samples = len(labels)
        self.taken += samples
        loss = self._loss(self._model(inputs), labels)
        gradients = torch.autograd.grad(loss, self.parameters, allow_unused=True)
        parts = [
            torch.zeros(parameter.numel()) if gradient is None else gradient.reshape(-1).to(torch.float32)
            for parameter, gradient in zip(self.parameters, gradients, strict=True)
        ]
        parts += [buffer.reshape(-1).to(torch.float32) for buffer in self.buffers]
        with torch.no_grad():
            found: Floats = (torch.cat([part.cpu() for part in parts]) * samples).numpy()
        if self.buffers:  # which the forward pass has changed
            self._loaded = None
        return Share.of(found, samples)


@dataclass(frozen=True)
class _Optimised(Rule):
    """The update rule that a torch optimiser is. Its state is the optimiser's, so a step is taken once."""

    loader: _Loader = field(kw_only=True)
    optimizer: Any = field(kw_only=True)

    def step(self, state: State, total: Total) -> State:
        """Step the optimiser by the mean gradient. Values of which nothing arrived stay as they are."""
        counted = replace(state, updates=state.updates + 1, samples=state.samples + total.samples)
        if total.samples == 0:
            return counted
        loader = self.loader
        loader.load(state.weights)
        mean, there = total.mean()
        place = 0
        for parameter in loader.parameters:
            part = torch.from_numpy(mean[place : place + parameter.numel()])
            parameter.grad = part.reshape(parameter.shape).to(parameter.device, parameter.dtype)
            place += parameter.numel()
        self.optimizer.step()
        values = loader.initial()
        values[place:] = mean[place:]
        if there is not None:
            values = np.where(there, values, state.weights)
        loader.load(values)
        return replace(counted, weights=values)


@dataclass(frozen=True)
class _Sums:
    """Makes sums of the means that a job may be set to give."""

    communicator: Communicator
    size: int

    def all_reduce(self, values: Floats, *, tensor: int, layer: int = 0, round: int, weight: int = 1) -> Future[Any]:
        """Begin the sum of a tensor."""
        return self.communicator.all_reduce(values * self.size, tensor=tensor, layer=layer, round=round, weight=weight)


@dataclass(frozen=True)
class Trained:
    """What a training did."""

    progress: Progress
    """Of this worker: where its time and samples went."""
    updates: int
    samples: int
    """Of all workers, in the updates."""
    rank: int
    size: int


def abs_sgd(
    model: Any,
    optimizer: Any,
    loader: Iterable[Any],
    *,
    updates: int,
    job: JobLike = None,
    rank: int | None = None,
    loss: Callable[[Any, Any], Any] = torch.nn.functional.cross_entropy,
    batch: int = 0,
    grace: float = float("inf"),
    seconds_per_sample: float = 0.0,
) -> Trained:
    """Train a model with the other workers of a job, for so many updates; all end with the same values.

    `loader` yields this worker's micro-batches (inputs, labels), and is read again and again; `loss(outputs, labels)`
    is a mean over them. With `batch` a sum waits until there are so many samples for each worker; with `grace` a worker
    that stalls is not waited for (traffic/training/algorithms/abs_sgd.py). Starts from rank 0's values. The job's
    operation is a sum or a mean. Raises UsageError, and CollectiveError if a worker is lost.
    """
    source = _Loader(model, loader, loss)
    with join(job, rank) as communicator:
        if communicator.job.op is Op.WEIGHTED_MEAN:
            raise UsageError("ABS-SGD counts samples packet by packet: its job's operation is sum or mean")
        first = broadcast_arrays(communicator, [source.initial()], FIRST_TENSOR)[0].astype(np.float32)
        source.load(first)
        reducer = _Sums(communicator, communicator.size if communicator.job.op is Op.MEAN else 1)
        rule = _Optimised(0.0, loader=source, optimizer=optimizer)
        algorithm = AbsSGD(micro=1, batch=batch, grace=grace)
        with RealTraining(
            source, algorithm, rule, communicator.rank, communicator.size, reducer,
            seconds_per_sample=seconds_per_sample, state=State(first),
        ) as training:  # fmt: skip
            progress = training.run(updates)
            state = training.worker.state
        source.load(state.weights)
        communicator.barrier()
        return Trained(progress, state.updates, round(state.samples), communicator.rank, communicator.size)
