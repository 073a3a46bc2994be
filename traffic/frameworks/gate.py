# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The gate: each parameter is updated when its aggregate arrives, and a layer waits for its own parameters only.

A round without it is a barrier: all gradients travel, then the forward pass begins. Behind the gate the first layers
compute while the last ones' aggregates are still on their way, so it pays that the fabric serves front layers first
(as in P3, arXiv 1905.03960, and ByteScheduler, SOSP 2019).
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Reducer(Protocol):
    """What aggregates a tensor over the workers: a Communicator, or anything else with this method."""

    def all_reduce(self, values: Floats, *, tensor: int, layer: int, round: int, weight: int = 1) -> Future[Any]:
        """Return a future whose result has `values`: float32, in the shape of what was given."""


class Gate:
    """Tensors that are sent when their gradients are ready, and layers that wait for their updates.

    `layers` holds the layer of each tensor. `update(tensor, aggregate)` is called in the gate's own thread, for one
    tensor at a time, in the order in which aggregates arrive; as it touches nothing but that tensor, the outcome is the
    barrier's bit for bit. With `gated=False` every layer waits for all tensors: the barrier, for comparison.

    A context manager: it waits for what is on its way when left without an exception.
    """

    def __init__(
        self, reducer: Reducer, layers: Sequence[int], update: Callable[[int, Floats], None], *, gated: bool = True
    ) -> None:
        self._reducer, self._layers, self._update = reducer, list(layers), update
        every = frozenset(range(len(self._layers)))
        tensors: defaultdict[int, set[int]] = defaultdict(set)
        for tensor, layer in enumerate(self._layers):
            tensors[layer].add(tensor)
        self._before = {layer: frozenset(own) if gated else every for layer, own in tensors.items()}
        self._every = every
        self._round = 0
        self._given: set[int] = set()
        """Tensors of this round. It ends where something is waited for after it was begun: so gradients of different
        rounds never meet in a sum, also where a rank has none for a tensor."""
        self._sent: set[int] = set()
        """Tensors whose update is still to come."""
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._arrived: SimpleQueue[tuple[int, Future[Any]] | None] = SimpleQueue()
        self.waited: defaultdict[int, float] = defaultdict(float)
        """Seconds that `wait` blocked, by layer."""
        self._thread = threading.Thread(target=self._run, name="gate", daemon=True)
        self._thread.start()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.finish()
        finally:
            self.close()

    def send(self, tensor: int, gradient: Floats, *, weight: int = 1) -> None:
        """Send a gradient, which must not be written until its tensor is updated.

        `weight` is the number of samples behind it. Raises what made an earlier tensor fail, and ValueError if the
        tensor's last update is still to come: the gradient would be of values that are about to change.
        """
        if not gradient.size:  # nothing to sum, nothing to update
            return
        with self._changed:
            self._raise()
            if tensor in self._sent:
                raise ValueError(f"tensor {tensor} has another gradient before it was updated by the last")
            self._sent.add(tensor)
            if tensor in self._given:
                self._turn()
            self._given.add(tensor)
            number = self._round
        layer = self._layers[tensor]
        future = self._reducer.all_reduce(gradient, tensor=tensor, layer=layer, round=number, weight=weight)
        future.add_done_callback(lambda done: self._arrived.put((tensor, done)))

    def wait(self, layer: int) -> None:
        """Return when the layer may compute: its tensors are updated. Raises what made a tensor fail."""
        began = time.monotonic()
        self._wait(self._before[layer])
        self.waited[layer] += time.monotonic() - began

    def finish(self) -> None:
        """Return when every tensor that was sent is updated. Raises what made one fail."""
        self._wait(self._every)

    def close(self) -> None:
        """End the gate's thread; what is still on its way is not waited for."""
        self._arrived.put(None)
        self._thread.join()

    def _wait(self, tensors: frozenset[int]) -> None:
        with self._changed:
            self._turn()
            self._changed.wait_for(lambda: self._error or self._sent.isdisjoint(tensors))
            self._raise()

    def _turn(self) -> None:
        self._round += bool(self._given)
        self._given.clear()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while (arrival := self._arrived.get()) is not None:
            tensor, future = arrival
            try:
                self._update(tensor, future.result().values)
            except BaseException as error:  # the user's thread raises it
                with self._changed:
                    self._error = self._error or error
                    self._changed.notify_all()
            else:
                with self._changed:
                    self._sent.discard(tensor)
                    self._changed.notify_all()
