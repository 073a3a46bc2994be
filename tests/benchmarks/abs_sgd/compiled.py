# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The study's networks in C, a tenth of the time: `traffic.training.problem.Classification` with the same gradients."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from cffi import FFI

from softswitch.build import library
from softswitch.native import declarations
from traffic.model import Floats as AnyFloats
from traffic.model import Labels
from traffic.training.problem import Classification, Indices, Network
from traffic.training.share import Floats

HERE = Path(__file__).parent
REORDERED = ("-fno-math-errno", "-fno-trapping-math", "-fno-signed-zeros", "-fassociative-math", "-freciprocal-math")
"""What -ffast-math allows, but for its effect on the process that loads the library: subnormals would become zero."""
FLAGS = ("-O3", *REORDERED, f"-I{HERE}")


@cache
def _interface() -> FFI:
    interface = FFI()
    interface.cdef(declarations(HERE / "gradients.h"))
    return interface


@cache
def _arrays() -> tuple[Any, Any]:
    """Return the types of arrays of values and of numbers, which cffi takes long to look up by name."""
    return _interface().typeof("float[]"), _interface().typeof("int64_t[]")


@cache
def _functions() -> Any:
    return _interface().dlopen(str(library("gradients", [HERE / "gradients.c"], flags=FLAGS, libraries=["-lm"])))


class CompiledClassification(Classification):
    """A network of `model`, "mlp" or "cnn", of the sizes that gradients.c has."""

    def __init__(self, model: str, network: Network, inputs: AnyFloats, labels: Labels, held_out: int) -> None:
        """Hold out the last `held_out` samples; the order is the caller's."""
        super().__init__(network, inputs, labels, held_out)
        functions = _functions()
        self._sum, self._right = getattr(functions, f"{model}_gradient_sum"), getattr(functions, f"{model}_right")
        self._floats, self._numbers = _arrays()
        self._pointer = _interface().from_buffer
        self._parts = [
            (self._pointer(self._floats, part), self._pointer(self._numbers, truth))
            for part, truth in (
                (np.ascontiguousarray(images, np.float32), np.ascontiguousarray(labels, np.int64))
                for images, labels in (self._seen, self._held_out)
            )
        ]
        self._judged = held_out

    def gradient_sum(self, weights: Floats, samples: Indices) -> Floats:
        """Return the sum of the gradients of these samples, shape (values,)."""
        found = np.empty(self.values, np.float32)
        pointer, floats, count = self._pointer, self._floats, len(samples)
        which = pointer(self._numbers, samples)
        if self._sum(pointer(floats, weights), *self._parts[0], which, count, pointer(floats, found)):
            raise MemoryError
        return found

    def accuracy(self, weights: Floats) -> float:
        """Return the share of the samples held out that are classified right."""
        right: int = self._right(self._pointer(self._floats, weights), *self._parts[1], self._judged)
        if right < 0:
            raise MemoryError
        return right / self._judged
