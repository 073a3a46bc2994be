# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The demo's step behind the gate (traffic/frameworks/gate.py), the same for every exchange.

A gradient leaves as soon as back-propagation has found it, last layer first, and the next forward pass waits for each
layer by itself: what the front layers need first delays it most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from traffic.exchanges.networks import Network, cross_entropy
from traffic.frameworks.gate import Gate, Reducer
from traffic.model import Floats, Labels

FORWARD_SHARE = 1 / 3
"""Of the computing: back-propagation has two products for each one of the forward pass."""


class GatedTraining:
    """One worker's replica, and the rounds that it has done."""

    def __init__(
        self, network: Network, batches: Iterator[tuple[Floats, Labels]], rate: float, momentum: float
    ) -> None:
        self.network = network
        self.rounds = 0
        self._batches = batches
        self._rate, self._momentum = np.float32(rate), np.float32(momentum)
        self._velocity = [np.zeros_like(value) for value in network.values]
        self._gate: Gate

    @contextmanager
    def over(self, reducer: Reducer) -> Iterator[None]:
        """Train over this; what the last round has sent is waited for. Raises what made an aggregate fail."""
        with Gate(reducer, range(len(self.network.layers)), self._update) as self._gate:
            yield

    def run(self, compute: float = 0.0, forwarded: Callable[[], None] = lambda: None) -> float:
        """Do one round and return the loss; `compute` is the declared seconds of computing, 0 for what numpy takes.

        `forwarded` is called when the forward pass has ended: then all layers are updated, and none is about to be.
        Raises what made an aggregate fail.
        """
        inputs, labels = next(self._batches)
        network, gate = self.network, self._gate
        share = compute / len(network.layers)
        passed = np.asarray(inputs).reshape(len(inputs), *network.input_shape)
        for number, layer in enumerate(network.layers):
            gate.wait(number)
            with _Taking(share * FORWARD_SHARE):
                passed = layer.forward(passed)
        forwarded()
        loss, error = cross_entropy(passed, labels)
        for number in reversed(range(len(network.layers))):
            with _Taking(share * (1 - FORWARD_SHARE)):
                gradients, error = network.layers[number].backward(error)
            gate.send(number, np.concatenate([gradient.reshape(-1) for gradient in gradients]))
        self.rounds += 1
        return loss

    def _update(self, layer: int, mean: Floats) -> None:
        """Step (heavy-ball momentum)."""
        velocity, value = self._velocity[layer], self.network.values[layer]
        velocity *= self._momentum
        velocity += mean
        value -= self._rate * velocity


class _Taking:
    """A block that takes at least so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        self._end = time.monotonic() + self._seconds

    def __exit__(self, *_: object) -> None:
        left = self._end - time.monotonic()
        if self._seconds and left > 0:
            time.sleep(left)
