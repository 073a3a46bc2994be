# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch with ABS-SGD: workers of unequal speed train one model, and none waits for another's batch.

A worker adds up the gradients of its loader's batches at frozen weights until the sum in flight has come; then the
optimiser steps by the mean over all workers' samples (docs/abs_sgd.md).
"""

from __future__ import annotations

import copy
import inspect
import io
import os
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from topologies.errors import UsageError
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Op
from traffic.frameworks.joining import ADDRESS_VARIABLE, JobLike, join, roster_of
from traffic.training import checkpoint as checkpoints
from traffic.training.algorithms import AbsSGD
from traffic.training.algorithms.synchronous import at_least
from traffic.training.membership import Caller, Membership, newest
from traffic.training.real import Progress, RealTraining
from traffic.training.rule import Rule, State
from traffic.training.share import Floats, Share, Total


class _Flat:
    """A module as flat values: its parameters that want a gradient, then its floating-point buffers.

    `fixed` is the rest: frozen parameters, and buffers that count.
    """

    def __init__(self, model: Any) -> None:
        if not isinstance(model, torch.nn.Module):
            raise UsageError(f"a model is a torch.nn.Module, not a {type(model).__name__}")
        self.parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        self.buffers = [buffer for buffer in model.buffers() if buffer.is_floating_point()]
        self.fixed = [parameter for parameter in model.parameters() if not parameter.requires_grad]
        self.fixed += [buffer for buffer in model.buffers() if not buffer.is_floating_point()]
        if not self.parameters:
            raise UsageError("the model has no parameter that wants a gradient")
        if any(parameter.is_complex() for parameter in self.parameters):
            raise UsageError("the model has complex parameters, and ABS-SGD sums real ones")
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

    def fix(self, values: list[Any]) -> None:
        """Give what no gradient changes these values."""
        with torch.no_grad():
            for tensor, value in zip(self.fixed, values, strict=True):
                tensor.copy_(value)


class _Loader:
    """Where gradients come from: a copy of the model, so that computing goes on while the optimiser steps the model.

    Buffers (a batch norm's running statistics) ride along: each micro-batch adds what they are after it, times its
    samples, so that the replicas' become the mean over all samples.
    """

    def __init__(self, model: Any, loader: Iterable[Any], loss: Callable[[Any, Any], Any]) -> None:
        self._model, self._loader, self._loss = copy.deepcopy(model), loader, loss
        self.flat = _Flat(self._model)
        self.values = self.flat.size
        self.taken = 0
        """Samples that this worker's loader has given."""
        self.epochs = 0
        """How often reading this worker's loader was begun."""
        self._read = 0
        """Batches read since then."""
        self._chance = self._random()
        """What random numbers stood at then: the loader shuffles by them."""
        self._batches: Iterator[Any] = iter(())
        self._loaded: Floats | None = None

    def initial(self) -> Floats:
        """Return the values that the model has now."""
        return self.flat.read()

    def _begin(self) -> None:
        self._chance = self._random()
        try:
            self._batches = iter(self._loader)
        except TypeError:
            raise UsageError(f"a loader can be read again and again, unlike a {type(self._loader).__name__}") from None
        self.epochs, self._read = self.epochs + 1, 0

    def _next(self) -> tuple[Any, Any, int]:
        for _ in range(2):
            for batch in self._batches:
                self._read += 1
                try:
                    inputs, labels = batch
                    samples = len(labels)
                except (TypeError, ValueError):
                    raise UsageError("the loader does not give pairs of inputs and labels") from None
                if samples:
                    return inputs, labels, samples
            self._begin()
        raise UsageError("the loader has no batches" + (", or can be read only once" if self.taken else ""))

    def _random(self) -> dict[str, Any]:
        """Return the state of the random numbers that a loader or a model may use."""
        name, keys, *rest = np.random.get_state()  # the global one is whose state scripts use
        own = self._generator
        return {
            "torch": torch.get_rng_state(),
            "python": random.getstate(),
            "numpy": (name, torch.from_numpy(np.asarray(keys).astype(np.int64)), *rest),
            "loader": None if own is None else own.get_state(),
        }

    @property
    def _generator(self) -> Any:
        """The loader's own random numbers, if it has such."""
        own = getattr(self._loader, "generator", None)
        return own if isinstance(own, torch.Generator) else None

    def _set_random(self, state: dict[str, Any]) -> None:
        torch.set_rng_state(state["torch"])
        random.setstate(state["python"])
        name, keys, *rest = state["numpy"]
        np.random.set_state((name, keys.numpy().astype(np.uint32), *rest))
        if state["loader"] is not None and self._generator is not None:
            self._generator.set_state(state["loader"])

    def kept(self) -> bytes:
        """Return its place in the loader, random numbers, and what of the model no gradient changes."""
        state = (self.epochs, self._read, self._chance, self._random(), self.flat.fixed)
        return _written(state)

    def keep(self, kept: bytes) -> None:
        """Go on from there: the loader is read again up to the place."""
        epochs, read, chance, now, fixed = _read(kept)
        self.flat.fix(fixed)
        if epochs:
            self._set_random(chance)
            self._begin()
            skipped = sum(1 for _ in islice(self._batches, read))
            if skipped < read:
                raise UsageError(f"the checkpoint is {read} batches into the loader, which has {skipped}")
        self.epochs, self._read = epochs, read
        self._set_random(now)

    def share(self, weights: Floats, samples: int) -> Share:
        """Compute the gradients of the loader's next batch, whatever its size."""
        flat = self.flat
        if weights is not self._loaded:
            flat.write(weights)
        self._loaded = None if flat.buffers else weights  # the forward pass changes buffers
        inputs, labels, samples = self._next()
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


def _written(state: Any) -> bytes:
    written = io.BytesIO()
    torch.save(state, written)
    return written.getvalue()


def _read(kept: bytes) -> Any:
    return torch.load(io.BytesIO(kept), weights_only=True)


@dataclass(frozen=True)
class _Optimised(Rule):
    """The update rule that a torch optimiser is. Its state is the optimiser's, so a step is taken once."""

    flat: _Flat = field(kw_only=True)
    """Of the model that the optimiser steps."""
    optimizer: Any = field(kw_only=True)
    copies: tuple[_Flat, ...] = field(default=(), kw_only=True)
    """Of models that are to have what no gradient changes as well."""

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
        """Return the optimiser's state and what of the model no gradient changes, for a worker that comes late."""
        return _written((self.optimizer.state_dict(), self.flat.fixed))

    def keep(self, kept: bytes) -> None:
        """Take over those of another worker, or of a checkpoint."""
        state, fixed = _read(kept)
        try:
            self.optimizer.load_state_dict(state)
            for flat in (self.flat, *self.copies):
                flat.fix(fixed)
        except (KeyError, RuntimeError, TypeError, ValueError) as error:
            raise UsageError(f"another worker's, or a checkpoint's, optimiser or model is another: {error}") from None


def _check(model: Any, optimizer: Any) -> None:
    """Raise UsageError for an optimiser that cannot step the model."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise UsageError(f"an optimiser is a torch.optim.Optimizer, not a {type(optimizer).__name__}")
    ours = {id(parameter) for parameter in model.parameters()}
    if any(id(parameter) not in ours for group in optimizer.param_groups for parameter in group["params"]):
        raise UsageError("the optimiser has parameters that are not the model's")
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise UsageError(f"{type(optimizer).__name__} wants a closure, and ABS-SGD's gradients come from a sum")


@dataclass(frozen=True)
class _Sums:
    """Makes sums of the means that a job may be set to give."""

    communicator: Communicator
    size: int

    def all_reduce(self, values: Floats, *, tensor: int, layer: int = 0, round: int, weight: int = 1) -> Future[Any]:
        """Begin the sum of a tensor."""
        return self.communicator.all_reduce(values * self.size, tensor=tensor, layer=layer, round=round, weight=weight)

    def owed(self, tensor: int, size: int, *, failed: int | None = None) -> Floats | None:
        """Return what error feedback owes to a tensor."""
        owed = self.communicator.owed(tensor, size, failed=failed)
        return None if owed is None else owed / np.float32(self.size)


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
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_updates: int = 50,
) -> Trained:
    """Train a model with the other workers of a job; all end with the same sum, and the same values.

    They end after so many `updates`; by default once a worker has read its loader to the end.

    `loader` yields this worker's micro-batches (inputs, labels), and is read again and again; `loss(outputs, labels)`
    is a mean over them. `batch`, `compensation` and `grace` are those of traffic/training/algorithms/abs_sgd.py: a sum
    waits until there are so many samples for each worker; gradients are taken where the optimiser would lead by this
    worker's own share in flight, so much of the way; a worker that stalls is not waited for. Starts from rank 0's
    values. The job's operation is a sum or a mean. Raises UsageError, and CollectiveError if a worker is lost.

    `checkpoint` is a file of this worker's own, written every so many updates, from which it goes on where it is there:
    weights, pending gradients and what error feedback owes, the optimiser, batch norm's statistics, the place in the
    loader and the random numbers of torch, numpy and Python. Raises UsageError for one of another model.

    With `roster`, "ADDRESS:PORT" of a `python -m traffic.training.roster` (or of $GRADLANE_ROSTER), training goes on
    without workers that are lost and with those that come late, who take over weights and the optimiser's state. The
    roster has the job then, and `address` (or $GRADLANE_ADDRESS) is this worker's where its host has several. Raises
    FailureError where the roster says that training is to end, or dies.
    """
    at_least(0, seconds_per_sample=seconds_per_sample)
    at_least(1, checkpoint_updates=checkpoint_updates, updates=1 if updates is None else updates)
    algorithm = AbsSGD(micro=1, batch=batch, compensation=compensation, grace=grace)
    source = _Loader(model, loader, loss)
    _check(model, optimizer)
    rule = _Optimised(0.0, flat=_Flat(model), optimizer=optimizer, copies=(source.flat,))
    file = None if checkpoint is None else Path(checkpoint)

    def over(training: RealTraining) -> bool:
        return source.epochs > 1 if updates is None else training.worker.state.updates >= updates - 1

    def after(training: RealTraining, total: Total) -> None:
        training.wants_end = over(training)  # with the next sum, the same one at all
        if file is not None and training.worker.state.updates % checkpoint_updates == 0:
            checkpoints.save(training.checkpoint(), file)

    with RealTraining(
        source, algorithm, rule, seconds_per_sample=seconds_per_sample, on_update=after
    ) as training:  # fmt: skip
        if file is not None and file.exists():
            training.resume(checkpoints.load(file))
        training.wants_end = over(training)
        if (place := roster_of(roster)) is not None:
            own: str = address or os.environ.get(ADDRESS_VARIABLE) or ""
            server, port = place
            with Membership(Caller("", own, server, port, "gradlane", source.values)) as membership:
                membership.train(training)
                membership.done({"rank": training.worker.rank, "updates": training.worker.state.updates})
        else:
            _train(training, job, rank)
        state = training.worker.state
        rule.flat.write(state.weights)
        rule.flat.fix(source.flat.fixed)
        worker = training.worker
        return Trained(training.progress, state.updates, round(state.samples), worker.rank, worker.size)


def _train(training: RealTraining, job: JobLike, rank: int | None) -> None:
    """Train with the workers of a job, all of whom are needed."""
    with join(job, rank) as communicator:
        if communicator.job.op is Op.WEIGHTED_MEAN:
            raise UsageError("ABS-SGD counts samples packet by packet: its job's operation is sum or mean")
        sums = _Sums(communicator, communicator.size if communicator.job.op is Op.MEAN else 1)
        worker = training.worker
        state, worker.ending = newest(sums, communicator.rank, communicator.size, worker.state, worker.rule)
        training.regroup(sums, communicator.rank, communicator.size, state)
        training.run()
        communicator.barrier()
