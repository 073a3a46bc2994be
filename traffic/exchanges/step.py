# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The gated step, the same for every exchange: send a gradient when it is ready, wait for a layer's before using it.

A gradient leaves as soon as back-propagation has found it, last layer first. A parameter is updated when its aggregate
is there, and the next forward pass waits for each layer by itself: what the front layers need first delays it most.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from traffic.exchanges.exchange import Exchange
from traffic.exchanges.networks import Network, cross_entropy
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
        self.forwarded = 0.0
        """When the last forward pass ended, CLOCK_MONOTONIC: then all layers had been updated."""
        self._sent = 0
        """Rounds sent through the current exchange."""
        self._batches = batches
        self._rate, self._momentum = np.float32(rate), np.float32(momentum)
        self._velocity = [np.zeros_like(value) for value in network.values]
        self._pending: set[int] = set()
        """Layers whose mean gradient of the last round was not applied yet."""

    def run(self, exchange: Exchange, compute: float = 0.0) -> float:
        """Do one round and return the loss; `compute` is the declared seconds of computing, 0 for what numpy takes.

        Raises FailureError if an aggregate does not come.
        """
        inputs, labels = next(self._batches)
        network = self.network
        share = compute / len(network.layers)
        passed = np.asarray(inputs).reshape(len(inputs), *network.input_shape)
        for number, layer in enumerate(network.layers):
            self._update(number, exchange)
            with _Taking(share * FORWARD_SHARE):
                passed = layer.forward(passed)
        self.forwarded = time.monotonic()
        loss, error = cross_entropy(passed, labels)
        for number in reversed(range(len(network.layers))):
            with _Taking(share * (1 - FORWARD_SHARE)):
                gradients, error = network.layers[number].backward(error)
            self._pending.add(number)
            exchange.send(self._sent, number, np.concatenate([gradient.reshape(-1) for gradient in gradients]))
        self.rounds += 1
        self._sent += 1
        return loss

    def finish(self, exchange: Exchange) -> None:
        """Wait for everything that the last round has sent; another exchange may follow."""
        for number in range(len(self.network.layers)):
            self._update(number, exchange)
        self._sent = 0

    def _update(self, layer: int, exchange: Exchange) -> None:
        """Wait for a layer's mean gradient, if one is to come, and step (heavy-ball momentum)."""
        if layer in self._pending:
            mean = exchange.wait(layer)
            self._pending.discard(layer)
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
