# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The numpy perceptron behind a gate: bounded-loss training without a framework."""

from __future__ import annotations

from traffic.frameworks.compute import ComputeTime
from traffic.frameworks.gate import Floats, Gate, Reducer
from traffic.model import MLP, Labels, cross_entropy


class GatedMLP:
    """A perceptron that trains with the other workers', all of which start from the same values (the same seed).

    Plain gradient descent at `rate`, which may be changed between rounds after `finish`. A context manager, as a gate.
    """

    def __init__(
        self, model: MLP, reducer: Reducer, *, rate: float, compute: ComputeTime | None = None, gated: bool = True
    ) -> None:
        self.model, self.rate = model, rate
        self._compute = compute or ComputeTime()
        self.gate = Gate(reducer, [parameter.layer for parameter in model.parameters], self._update, gated=gated)

    def __enter__(self) -> GatedMLP:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.gate.__exit__(kind, *rest)

    def step(self, inputs: Floats, labels: Labels) -> float:
        """Train on one batch, inputs (samples, width), labels (samples,); returns the mean loss before the update.

        Gradients leave as they are found, last layer first; their updates come while the next step runs.
        """
        model = self.model
        fed = [inputs]
        for layer in range(model.layers):
            self.gate.wait(layer)
            with self._compute.forward_of(layer):
                fed.append(model.forward_layer(layer, fed[-1]))
        found = model.backward(fed, labels)
        for layer in reversed(range(model.layers)):
            with self._compute.backward_of(layer):
                ready = [next(found), next(found)]
            for parameter, gradient in ready:
                self.gate.send(parameter.tensor, gradient, weight=len(labels))
        return cross_entropy(fed[-1], labels)

    def finish(self) -> None:
        """Return when every update has been made: before the model is evaluated or saved."""
        self.gate.finish()

    def _update(self, tensor: int, aggregate: Floats) -> None:
        self.model.values[tensor] -= self.rate * aggregate
