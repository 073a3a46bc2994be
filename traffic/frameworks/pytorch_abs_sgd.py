# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch with ABS-SGD: workers of unequal speed train one model, and none waits for another's batch.

A worker adds up the gradients of its loader's batches at frozen weights until the sum in flight has come; then the
optimiser steps by the mean over all workers' samples (docs/abs_sgd.md).
"""

from __future__ import annotations

import copy
import io
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from topologies.errors import UsageError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Op
from traffic.frameworks.joining import ADDRESS_VARIABLE, JobLike, broadcast_arrays, join, roster_of
from traffic.training.algorithms import AbsSGD
from traffic.training.membership import Caller, Membership
from traffic.training.real import Progress, RealTraining
from traffic.training.rule import Rule, State
from traffic.training.share import Floats, Share, Total

FIRST_TENSOR = 16
"""Of those that carry rank 0's start; the training's own are below."""


class _Flat:
    """A module as flat values: its parameters that want a gradient, then its floating-point buffers."""

    def __init__(self, model: Any) -> None:
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        if not self.parameters:
            raise UsageError("the model has no parameter that wants a gradient")
        self.learnt = sum(parameter.numel() for parameter in self.parameters)
        self.size = self.learnt + sum(buffer.numel() for buffer in self.buffers)

    def read(self) -> Floats:
        """Return a copy of the values."""
        with torch.no_grad():
            parts = [tensor.reshape(-1).to(torch.float32) for tensor in (*self.parameters, *self.buffers)]
            flat: Floats = torch.cat(parts).cpu().numpy().copy()
        return flat

    def write(self, values: Floats) -> None:
        """Give the module these values."""
        place = 0
        with torch.no_grad():
            for tensor in (*self.parameters, *self.buffers):
                part = torch.from_numpy(values[place : place + tensor.numel()])
                tensor.copy_(part.reshape(tensor.shape))
                place += tensor.numel()


class _Loader:
    """Where gradients come from: a copy of the model, so that computing goes on while the optimiser steps the model.

    Buffers (a batch norm's running statistics) ride along: each micro-batch adds what they are after it, times its
    samples, so that the replicas' become the mean over all samples.
    """

    def __init__(self, model: Any, loader: Iterable[Any], loss: Callable[[Any, Any], Any]) -> None:
        self._model, self._loader, self._loss = copy.deepcopy(model), loader, loss
        self._flat = _Flat(self._model)
        self.values = self._flat.size
        self.taken = 0
        """Samples that this worker's loader has given."""
        self.epochs = 0
        """How often reading this worker's loader was begun."""
        self._batches: Iterator[Any] = iter(())
        self._loaded: Floats | None = None

    def initial(self) -> Floats:
        """Return the values that the model has now."""
        return self._flat.read()

    def _next(self) -> Any:
        for _ in range(2):
            for batch in self._batches:
                return batch
            self._batches = iter(self._loader)
            self.epochs += 1
        raise UsageError("the loader has no batches")

    def share(self, weights: Floats, samples: int) -> Share:
        """Compute the gradients of the loader's next batch, whatever its size."""
        flat = self._flat
        if weights is not self._loaded:
            flat.write(weights)
        self._loaded = None if flat.buffers else weights  # the forward pass changes buffers
        inputs, labels = self._next()
        samples = len(labels)
        self.taken += samples
        loss = self._loss(self._model(inputs), labels)
        gradients = torch.autograd.grad(loss, flat.parameters, allow_unused=True)
        parts = [
            torch.zeros(parameter.numel()) if gradient is None else gradient.reshape(-1).to(torch.float32)
            for parameter, gradient in zip(flat.parameters, gradients, strict=True)
        ]
        parts += [buffer.reshape(-1).to(torch.float32) for buffer in flat.buffers]
        with torch.no_grad():
            found: Floats = (torch.cat([part.cpu() for part in parts]) * samples).numpy()
        return Share.of(found, samples)

    def count_batches(self, model: Any) -> None:
        """Give a model the buffers that are no floating-point values, such as how many batches a norm has seen."""
        for buffer, mine in zip(model.buffers(), self._model.buffers(), strict=True):
            if not buffer.is_floating_point():
                buffer.copy_(mine)


@dataclass(frozen=True)
class _Optimised(Rule):
    """The update rule that a torch optimiser is. Its state is the optimiser's, so a step is taken once."""

    flat: _Flat = field(kw_only=True)
    """Of the model that the optimiser steps."""
    optimizer: Any = field(kw_only=True)

    def _step(self, weights: Floats, total: Total) -> Floats:
        """Step the optimiser from these values by the mean gradient. What nothing arrived for stays as it is."""
        flat = self.flat
        flat.write(weights)
        mean, there = total.mean()
        place = 0
        for parameter in flat.parameters:
            part = torch.from_numpy(mean[place : place + parameter.numel()])
            parameter.grad = part.reshape(parameter.shape).to(parameter.device, parameter.dtype)
            place += parameter.numel()
        self.optimizer.step()
        values = flat.read()
        values[place:] = mean[place:]
        return values if there is None else np.where(there, values, weights)

    def step(self, state: State, total: Total) -> State:
        """Step the optimiser, for good."""
        counted = replace(state, updates=state.updates + 1, samples=state.samples + total.samples)
        if total.samples == 0:
            return counted
        values = self._step(state.weights, total)
        self.flat.write(values)
        return replace(counted, weights=values)

    def ahead(self, state: State, share: Share, trust: float) -> Floats:
        """Return the weights `trust` of the way to where a step by this share alone would lead, and take it back."""
        if share.samples == 0:
            return state.weights
        before, optimizer = self._remembered(), self.optimizer
        there = self._step(state.weights, Total(share))
        there[self.flat.learnt :] = state.weights[self.flat.learnt :]
        optimizer.state.clear()
        optimizer.state.update(before[0])
        for group, kept in zip(optimizer.param_groups, before[1], strict=True):
            group.update(kept)
        return there if trust == 1 else state.weights + np.float32(trust) * (there - state.weights)

    def _remembered(self) -> tuple[dict[Any, Any], list[dict[str, Any]]]:
        """Return copies of what the optimiser remembers of every parameter, and of its groups' settings."""
        state = {parameter: copy.deepcopy(kept) for parameter, kept in self.optimizer.state.items()}
        groups = [{name: value for name, value in group.items() if name != "params"} for group in self._groups]
        return state, copy.deepcopy(groups)

    @property
    def _groups(self) -> list[dict[str, Any]]:
        groups: list[dict[str, Any]] = self.optimizer.param_groups
        return groups

    def kept(self) -> bytes:
        """Return the optimiser's state, for a worker that comes late."""
        written = io.BytesIO()
        torch.save(self.optimizer.state_dict(), written)
        return written.getvalue()

    def keep(self, kept: bytes) -> None:
        """Take over the optimiser's state of another worker."""
        self.optimizer.load_state_dict(torch.load(io.BytesIO(kept), weights_only=True))


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
    """Of the workers that came to the end."""


def abs_sgd(
    model: Any,
    optimizer: Any,
    loader: Iterable[Any],
    *,
    updates: int | None = None,
    job: JobLike = None,
    rank: int | None = None,
    roster: str | None = None,
    address: str | None = None,
    loss: Callable[[Any, Any], Any] = torch.nn.functional.cross_entropy,
    batch: int = 0,
    compensation: float = 0.0,
    grace: float = float("inf"),
    seconds_per_sample: float = 0.0,
) -> Trained:
    """Train a model with the other workers of a job; all end with the same sum, and the same values.

    They end after so many `updates`; by default once a worker has read its loader to the end.

    `loader` yields this worker's micro-batches (inputs, labels), and is read again and again; `loss(outputs, labels)`
    is a mean over them. `batch`, `compensation` and `grace` are those of traffic/training/algorithms/abs_sgd.py: a sum
    waits until there are so many samples for each worker; gradients are taken where the optimiser would lead by this
    worker's own share in flight, so much of the way; a worker that stalls is not waited for. Starts from rank 0's
    values. The job's operation is a sum or a mean. Raises UsageError, and CollectiveError if a worker is lost.

    With `roster`, "ADDRESS:PORT" of a `python -m traffic.training.roster` (or of $GRADLANE_ROSTER), training goes on
    without workers that are lost and with those that come late, who take over weights and the optimiser's state. The
    roster has the job then, and `address` (or $GRADLANE_ADDRESS) is this worker's where its host has several. Raises
    FailureError where the roster says that training is to end, or dies.
    """
    source = _Loader(model, loader, loss)
    rule = _Optimised(0.0, flat=_Flat(model), optimizer=optimizer)
    algorithm = AbsSGD(micro=1, batch=batch, compensation=compensation, grace=grace)

    def after(training: RealTraining, total: Total) -> None:
        done = source.epochs > 1 if updates is None else training.worker.state.updates >= updates - 1
        training.wants_end = done  # with the next sum, the same one at all

    with RealTraining(
        source, algorithm, rule, seconds_per_sample=seconds_per_sample, on_update=after
    ) as training:  # fmt: skip
        training.wants_end = updates is not None and updates <= 1
        if (place := roster_of(roster)) is not None:
            own: str = address or os.environ.get(ADDRESS_VARIABLE) or ""
            server, port = place
            with Membership(Caller("", own, server, port, "gradlane", source.values)) as membership:
                membership.train(training)
                membership.done({"rank": training.worker.rank, "updates": training.worker.state.updates})
        else:
            _train(training, source, job, rank)
        state = training.worker.state
        rule.flat.write(state.weights)
        source.count_batches(model)
        worker = training.worker
        return Trained(training.progress, state.updates, round(state.samples), worker.rank, worker.size)


def _train(training: RealTraining, source: _Loader, job: JobLike, rank: int | None) -> None:
    """Train with the workers of a job, all of whom are needed."""
    with join(job, rank) as communicator:
        if communicator.job.op is Op.WEIGHTED_MEAN:
            raise UsageError("ABS-SGD counts samples packet by packet: its job's operation is sum or mean")
        first = broadcast_arrays(communicator, [source.initial()], FIRST_TENSOR)[0].astype(np.float32)
        sums = _Sums(communicator, communicator.size if communicator.job.op is Op.MEAN else 1)
        training.regroup(sums, communicator.rank, communicator.size, State(first))
        training.run()
        communicator.barrier()
