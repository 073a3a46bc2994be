# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: a Keras optimiser whose gradients travel by Gradlane before it applies them."""

from __future__ import annotations

import atexit
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from topologies.errors import UsageError
from traffic.collectives.communicator import Communicator
from traffic.frameworks.gate import Floats
from traffic.frameworks.joining import JobLike, broadcast_arrays, join, layers_of


class Exchange:
    """What carries an optimiser's gradients, until it is closed; at the latest when the process ends."""

    def __init__(self, communicator: Communicator) -> None:
        self.communicator = communicator
        self.weight = 1
        """Samples behind this rank's next gradients: set it before a step where the job's mean is weighted."""
        self._numbers: dict[int, int] = {}
        self._layers: list[int] = []
        self._rounds: list[int] = []
        self._pending: dict[int, Future[Any]] = {}
        atexit.register(self.close)

    def close(self) -> None:
        """Leave the job."""
        atexit.unregister(self.close)
        self.communicator.close()

    def share(self, variables: Sequence[Any]) -> None:
        """Learn the variables, and give every rank rank 0's values of them."""
        self._numbers = {id(variable): number for number, variable in enumerate(variables)}
        self._layers = layers_of([variable.path for variable in variables], "/")
        self._rounds = [0] * len(variables)
        with tf.init_scope():  # a training step may be in the tracing
            values = broadcast_arrays(self.communicator, [variable.numpy() for variable in variables])
            for variable, value in zip(variables, values, strict=True):
                variable.assign(value)

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the aggregates of gradients, each a tensor, or None as it was given."""
        numbers = [self._numbers[id(variable)] for variable in variables]
        dense: list[Any] = [None if gradient is None else tf.convert_to_tensor(gradient) for gradient in gradients]
        given = [place for place, gradient in enumerate(dense) if gradient is not None and 0 not in gradient.shape]
        for place in reversed(given):  # as back-propagation finds them; functions of one graph run in their order
            tf.numpy_function(partial(self._send, numbers[place]), [tf.cast(dense[place], tf.float32)], [])
        order = [numbers[place] for place in given]
        aggregates = tf.numpy_function(partial(self._collect, order), [], [tf.float32] * len(order))
        for place, aggregate in zip(given, aggregates, strict=True):
            gradient = dense[place]
            dense[place] = tf.cast(tf.ensure_shape(aggregate, gradient.shape), gradient.dtype)
        return dense

    def _send(self, number: int, gradient: Floats) -> None:
        self._pending[number] = self.communicator.all_reduce(
            np.array(gradient),  # the tensor's memory is TensorFlow's
            tensor=number,
            layer=self._layers[number],
            round=self._rounds[number],
            weight=self.weight,
        )
        self._rounds[number] += 1

    def _collect(self, numbers: Sequence[int]) -> list[Floats]:
        return [self._pending.pop(number).result().values for number in numbers]


def distributed(optimizer: Any, *, job: JobLike = None, rank: int | None = None) -> Any:
    """Return an optimiser like the given one that applies the aggregates of all ranks' gradients.

    `job` is a Job or the path of its file, $GRADLANE_JOB unless given; `rank` is $RANK unless given. When the optimiser
    is built, every rank gets rank 0's variables. Its `exchange` has the communicator. Not for `jit_compile=True`.
    Raises UsageError, and CollectiveError where the other ranks do not come.
    """
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise UsageError(f"distributed takes a Keras optimizer, not {type(optimizer).__name__}")
    if optimizer.built:
        raise UsageError("distributed takes an optimizer that has not been used yet")
    kind: Any = type(optimizer)

    class Distributed(kind):
        """The optimiser, over aggregates."""

        def build(self, variables: Sequence[Any]) -> None:
            """Take rank 0's variables, then build."""
            self.exchange.share(variables)
            super().build(variables)

        def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
            """Apply the aggregates of gradients."""
            variables = list(self._trainable_variables if trainable_variables is None else trainable_variables)
            if not self.built:
                self.build(variables)
            super().apply(self.exchange.reduce(list(grads), variables), trainable_variables)

    Distributed.__name__ = Distributed.__qualname__ = f"Distributed{kind.__name__}"
    made = Distributed.from_config(optimizer.get_config())
    made.exchange = Exchange(join(job, rank))
    return made
