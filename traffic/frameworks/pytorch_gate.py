# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch behind a gate: a gradient leaves when it is ready, a parameter is updated when its aggregate arrives.

Needs no process group. Where each piece hangs: a post-accumulate-grad hook sends; the gate's thread steps the optimiser
for one parameter; a forward pre-hook of every module waits for the module's own parameters.
"""

from __future__ import annotations

import time
import types
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import torch

from topologies.errors import UsageError
from traffic.collectives.communicator import Communicator
from traffic.frameworks.compute import ComputeTime, sleep_until
from traffic.frameworks.gate import Floats, Gate, Reducer
from traffic.frameworks.joining import JobLike, broadcast_arrays, join
from traffic.frameworks.pytorch import layers_of_parameters, values_of


class GatedModule:
    """A torch module that trains behind a gate, until it is closed. A context manager.

    The training loop computes a loss of `model(inputs)` and calls `backward()`; `optimizer.step()` and `zero_grad()`
    may stay in it and do nothing: every parameter is stepped by itself, with the options that its group had when its
    gradient was ready. What looks at several parameters at once (LBFGS, clipping by a common norm) will not do.
    """

    def __init__(
        self,
        model: Any,
        optimizer: Any,
        reducer: Reducer,
        *,
        gated: bool = True,
        compute: ComputeTime | None = None,
        layers: Mapping[str, int] | None = None,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.weight = 1
        """Samples behind this rank's next gradients: set it before `backward` where the job's mean is weighted."""
        self._compute = compute or ComputeTime()
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        self._names, self._parameters = list(named), list(named.values())
        self._layers = layers_of_parameters(named, layers)
        self._groups = _groups_of(optimizer, named)
        """The number of each parameter's group."""
        self._options: list[dict[str, Any]] = [{}] * len(named)
        self._waited: set[int] = set()
        """Tensors whose updates were waited for since they were last sent."""
        self._known: set[int] = set()
        """Tensors that were sent before."""
        self._strays: set[int] = set()
        """Tensors that are used without a call of the module that holds them: the whole model waits for them."""
        self._layer_began = self._backward_began = 0.0
        self._computed: set[int] = set()
        self._single = _twin(optimizer)
        """Steps one parameter at a time, on the user's optimiser's own state."""
        self.gate = Gate(reducer, self._layers, self._update, gated=gated)
        self.communicator: Communicator | None = None
        """The module's own, where it joined the job itself."""
        self._hooks: list[Any] = []
        self._hook_states()
        self._hook_modules()
        self._step = optimizer.step
        optimizer.step = types.MethodType(_no_step, optimizer)

    def __enter__(self) -> GatedModule:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.finish()
            elif self.communicator is not None:
                self.communicator.__exit__(kind, error, trace)  # tells the others why
        finally:
            self.close()

    def finish(self) -> None:
        """Return when every update has been made: before parameters are read or written.

        `state_dict` and `load_state_dict` of the model, of its modules and of the optimiser do it by themselves.
        """
        self.gate.finish()

    def close(self) -> None:
        """Take the hooks off and leave the job; what is on its way is not waited for."""
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.optimizer.step = self._step
        self.gate.close()
        if self.communicator is not None:
            self.communicator.close()

    # ---- hooks

    def _hook_states(self) -> None:
        """Have whatever saves or loads wait for what is on its way."""

        def finish(*_: object) -> None:
            self.finish()

        for part in (*self.model.modules(), self.optimizer):
            self._hooks.append(part.register_state_dict_pre_hook(finish))
            self._hooks.append(part.register_load_state_dict_pre_hook(finish))

    def _hook_modules(self) -> None:
        numbers = {id(parameter): number for number, parameter in enumerate(self._parameters)}
        self._hooks.append(self.model.register_forward_pre_hook(lambda *_: self._wait(self._strays)))
        for module in self.model.modules():
            own = [numbers[id(p)] for p in module.parameters(recurse=False) if id(p) in numbers]
            if own:
                layer = min(self._layers[number] for number in own)
                self._hooks.append(module.register_forward_pre_hook(self._before(layer, own)))
                self._hooks.append(module.register_forward_hook(self._after(layer)))
        for number, parameter in enumerate(self._parameters):
            self._hooks.append(parameter.register_post_accumulate_grad_hook(self._ready(number)))

    def _before(self, layer: int, own: list[int]) -> Any:
        def hook(*_: object) -> None:
            self._wait(own)
            self._layer_began = time.monotonic()
            self._computed.discard(layer)

        return hook

    def _after(self, layer: int) -> Any:
        def hook(module: Any, *_: object) -> None:
            if module.training:
                sleep_until(self._layer_began + self._compute.forward_seconds(layer))
            self._backward_began = time.monotonic()

        return hook

    def _ready(self, number: int) -> Any:
        layer = self._layers[number]

        def hook(parameter: Any) -> None:
            gradient, parameter.grad = parameter.grad, None
            if layer not in self._computed:
                sleep_until(self._backward_began + self._compute.backward_seconds(layer))
                self._computed.add(layer)
                self._backward_began = time.monotonic()
            self._send(number, gradient)

        return hook

    def _wait(self, tensors: set[int] | list[int]) -> None:
        for layer in sorted({self._layers[number] for number in tensors}):
            self.gate.wait(layer)
        self._waited.update(tensors)

    def _send(self, number: int, gradient: Any) -> None:
        if number not in self._waited:
            if number in self._known:
                raise UsageError(f"{self._names[number]} was used without a call of its module or of the gated model")
            self._strays.add(number)
        self._waited.discard(number)
        self._known.add(number)
        group = self.optimizer.param_groups[self._groups[number]]
        self._options[number] = {name: value for name, value in group.items() if name != "params"}
        self.gate.send(number, values_of(gradient), weight=self.weight)

    def _update(self, number: int, aggregate: Floats) -> None:
        """Step one parameter, in the gate's thread, while the user's may clear every `grad`: so not by the parameter's
        own, but by that of an alias, which has its values and its optimiser state."""
        parameter, single = self._parameters[number], self._single
        alias = parameter.detach()
        alias.grad = torch.from_numpy(aggregate).view_as(alias).to(alias)
        single.state = {alias: self.optimizer.state[parameter]}
        single.param_groups = [{**self._options[number], "params": [alias]}]
        single.step()


def gate(
    model: Any,
    optimizer: Any,
    *,
    job: JobLike = None,
    rank: int | None = None,
    reducer: Reducer | None = None,
    gated: bool = True,
    compute: ComputeTime | None = None,
    layers: Mapping[str, int] | None = None,
) -> GatedModule:
    """Train a torch module behind a gate, in a job without a process group; every rank gets rank 0's parameters first.

    `job` is a Job or the path of its file, $GRADLANE_JOB unless given; `rank` is $RANK unless given. With `reducer`
    instead, that aggregates, and equal parameters at the start are the caller's to see to. `compute` declares least
    times of the layers, `layers` numbers parameters by name (0 needed first; unless given, in the order of definition),
    `gated=False` makes every round a barrier. Raises UsageError, and CollectiveError where the others do not come.
    """
    if reducer is not None:
        return GatedModule(model, optimizer, reducer, gated=gated, compute=compute, layers=layers)
    communicator = join(job, rank)
    try:
        shared = [tensor.detach() for tensor in (*model.parameters(), *model.buffers())]
        values = broadcast_arrays(communicator, [tensor.cpu().contiguous().numpy() for tensor in shared])
        for tensor, value in zip(shared, values, strict=True):
            tensor.copy_(torch.from_numpy(value.copy()))
        module = GatedModule(model, optimizer, communicator, gated=gated, compute=compute, layers=layers)
    except BaseException:
        communicator.close()
        raise
    module.communicator = communicator
    return module


def _groups_of(optimizer: Any, named: Mapping[str, Any]) -> list[int]:
    """Return the number of each parameter's group in the optimiser. Raises UsageError where it has none."""
    groups = {id(p): number for number, group in enumerate(optimizer.param_groups) for p in group["params"]}
    for name, parameter in named.items():
        if id(parameter) not in groups:
            raise UsageError(f"the optimizer does not know {name}: it is of another model, or {name} needs no gradient")
    return [groups[id(parameter)] for parameter in named.values()]


def _twin(optimizer: Any) -> Any:
    """Return an optimiser of the same rule and attributes; `copy.copy` would keep only what torch itself knows."""
    twin = object.__new__(type(optimizer))
    vars(twin).update({name: value for name, value in vars(optimizer).items() if name != "step"})  # not a wrapped step
    return twin


def _no_step(optimizer: Any, closure: Any = None) -> None:
    """Stand in for `optimizer.step` in the user's loop."""
    if closure is not None:
        raise UsageError("behind a gate parameters are stepped when their aggregates arrive: step() takes no closure")
