# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Networks as lists of layers, each of which can go forward and backward by itself: what a gated step needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np

from traffic.model import Floats, Labels, Parameter


class Layer(Protocol):
    """One layer; `values` are its parameters, updated in place between a backward and the next forward."""

    values: list[Floats]

    def forward(self, inputs: Floats) -> Floats:
        """Return the outputs, and keep what `backward` needs."""

    def backward(self, error: Floats) -> tuple[list[Floats], Floats]:
        """Return the gradient of every parameter, and the error of the inputs."""


class Dense:
    """Fully connected, with ReLU unless it is the last."""

    def __init__(self, inputs: int, outputs: int, random: np.random.Generator, *, rectify: bool = True) -> None:
        """Draw He-initialised weights of shape (inputs, outputs)."""
        weights = random.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)
        self.values: list[Floats] = [weights.astype(np.float32), np.zeros(outputs, np.float32)]
        self._rectify = rectify
        self._inputs = self._outputs = np.zeros(0, np.float32)

    def forward(self, inputs: Floats) -> Floats:
        """Return outputs of shape (samples, outputs)."""
        self._inputs = inputs.reshape(len(inputs), -1)
        outputs: Floats = self._inputs @ self.values[0] + self.values[1]
        if self._rectify:
            np.maximum(outputs, 0, out=outputs)
        self._outputs = outputs
        return outputs

    def backward(self, error: Floats) -> tuple[list[Floats], Floats]:
        """Return the gradients of weights and bias, and the error of the flat inputs."""
        if self._rectify:
            error = error * (self._outputs > 0)
        return [self._inputs.T @ error, error.sum(axis=0)], error @ self.values[0].T


class Convolution:
    """A 3 x 3 convolution that keeps the size, ReLU, and the largest of every 2 x 2."""

    def __init__(self, channels: int, filters: int, random: np.random.Generator) -> None:
        """Draw He-initialised weights of shape (9 * channels, filters)."""
        weights = random.standard_normal((9 * channels, filters)) * np.sqrt(2 / (9 * channels))
        self.values: list[Floats] = [weights.astype(np.float32), np.zeros(filters, np.float32)]
        self._patches = self._full = np.zeros(0, np.float32)
        self._chosen = np.zeros(0, np.bool_)

    def forward(self, inputs: Floats) -> Floats:
        """Map (samples, height, width, channels) to (samples, height / 2, width / 2, filters)."""
        samples, height, width, channels = inputs.shape
        padded = np.pad(inputs, ((0, 0), (1, 1), (1, 1), (0, 0)))
        shifted = [padded[:, y : y + height, x : x + width] for y in range(3) for x in range(3)]
        self._patches = np.concatenate(shifted, axis=3).reshape(-1, 9 * channels)
        full = np.maximum(self._patches @ self.values[0] + self.values[1], 0)
        filters = full.shape[1]
        blocks = full.reshape(samples, height // 2, 2, width // 2, 2, filters)
        pooled: Floats = blocks.max(axis=(2, 4))
        self._full = full
        self._chosen = blocks == pooled[:, :, None, :, None, :]
        return pooled

    def backward(self, error: Floats) -> tuple[list[Floats], Floats]:
        """Return the gradients of weights and bias, and the error of the inputs."""
        samples, rows, _, columns, _, filters = self._chosen.shape
        height, width, channels = 2 * rows, 2 * columns, len(self.values[0]) // 9
        spread = self._chosen * error.reshape(samples, rows, 1, columns, 1, filters)
        flat = spread.reshape(-1, filters) * (self._full > 0)
        gradients = [self._patches.T @ flat, flat.sum(axis=0)]
        patches = (flat @ self.values[0].T).reshape(samples, height, width, 9, channels)
        padded = np.zeros((samples, height + 2, width + 2, channels), np.float32)
        for place in range(9):
            y, x = divmod(place, 3)
            padded[:, y : y + height, x : x + width] += patches[:, :, :, place]
        return gradients, padded[:, 1:-1, 1:-1]


class Network:
    """Layers from front to back, with softmax cross-entropy at the end. A layer's parameters are one flat tensor."""

    def __init__(self, layers: Sequence[Layer], input_shape: tuple[int, ...]) -> None:
        """Number the tensors from the front."""
        self.layers = list(layers)
        self.input_shape = input_shape
        self.parameters: list[Parameter] = []
        self.values: list[Floats] = []
        """Flat; the layers' own values are views of them."""
        for number, layer in enumerate(self.layers):
            flat = np.concatenate([value.reshape(-1) for value in layer.values])
            bounds = np.cumsum([0, *(value.size for value in layer.values)])
            layer.values = [
                flat[first:end].reshape(value.shape)
                for value, (first, end) in zip(layer.values, pairwise(bounds), strict=True)
            ]
            self.parameters.append(Parameter(number, number, f"layer{number}", flat.shape))
            self.values.append(flat)

    def forward(self, inputs: Floats) -> Floats:
        """Return the logits of samples, shape (samples, labels)."""
        passed = inputs.reshape(len(inputs), *self.input_shape)
        for layer in self.layers:
            passed = layer.forward(passed)
        return passed

    def accuracy(self, inputs: Floats, labels: Labels) -> float:
        """Return the share of samples whose largest logit is their label."""
        return float((self.forward(inputs).argmax(axis=1) == labels).mean())


def cross_entropy(logits: Floats, labels: Labels) -> tuple[float, Floats]:
    """Return the mean loss over the samples, and its gradient by the logits."""
    shares: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    samples = np.arange(len(labels))
    loss = float(-np.log(shares[samples, labels] + 1e-12).mean())
    shares[samples, labels] -= 1
    shares /= len(labels)
    return loss, shares


@dataclass(frozen=True)
class Recipe:
    """A network, and how it is trained on MNIST-5k by each of the workers."""

    widths: tuple[int, ...]
    """Of the fully connected layers, after the filters."""
    filters: tuple[int, ...] = ()
    batch: int = 128
    """Samples of each worker a round."""
    learning_rate: float = 0.15
    momentum: float = 0.8
    targets: tuple[float, ...] = (0.90, 0.92)
    """Accuracies that the training is timed to."""
    declared: bool = False
    """Its computing takes a declared time, whatever numpy needs; else the time that numpy needs."""

    def build(self, seed: int) -> Network:
        """Return the network with weights drawn from `seed`."""
        random = np.random.default_rng(seed)
        if not self.filters:
            pairs = list(pairwise(self.widths))
            dense = [Dense(a, b, random, rectify=n < len(pairs) - 1) for n, (a, b) in enumerate(pairs)]
            return Network(dense, (self.widths[0],))
        layers: list[Layer] = [Convolution(a, b, random) for a, b in pairwise((1, *self.filters))]
        side = 28 // 2 ** len(self.filters)
        widths = (side * side * self.filters[-1], *self.widths)
        pairs = list(pairwise(widths))
        layers += [Dense(a, b, random, rectify=n < len(pairs) - 1) for n, (a, b) in enumerate(pairs)]
        return Network(layers, (28, 28, 1))


RECIPES = {
    "mlp": Recipe((784, 256, 256, 10)),
    "cnn": Recipe((128, 10), filters=(8, 16), batch=32, learning_rate=0.1),
    "deep": Recipe((784, 48, *(192,) * 8, 10), learning_rate=0.05, declared=True),
}
"""`mlp`: 1.08 MB of gradients. `cnn`: two convolutions, 0.41 MB. `deep`: seven equal layers in a row and three more."""
