# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Two batches for two ranks, and what the mean of their gradients does to a linear classifier, in float64."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

INPUTS, CLASSES, BATCH, RATE = 700, 10, 16, 0.5


def batch(rank: int, number: int) -> tuple[Any, Any]:
    """Return a rank's images and labels of a round."""
    random = np.random.default_rng([rank, number])
    images = random.standard_normal((BATCH, INPUTS)).astype(np.float32)
    return images, images[:, :CLASSES].argmax(axis=1)


def trained(weights: Any, bias: Any, ranks: int, rounds: int) -> tuple[Any, Any]:
    """Return weights, (inputs, classes), and bias after rounds of gradient descent on every rank's batches at once."""
    weights, bias = weights.astype(np.float64), bias.astype(np.float64)
    for number in range(rounds):
        given = [batch(rank, number) for rank in range(ranks)]
        images = np.concatenate([one for one, _ in given]).astype(np.float64)
        labels = np.concatenate([other for _, other in given])
        logits = images @ weights + bias
        error = np.exp(logits - logits.max(axis=1, keepdims=True))
        error /= error.sum(axis=1, keepdims=True)
        error[np.arange(len(labels)), labels] -= 1
        error /= len(labels)
        weights, bias = weights - RATE * images.T @ error, bias - RATE * error.sum(axis=0)
    return weights, bias


def save(folder: str, rank: int, begun: tuple[Any, Any], ended: tuple[Any, Any]) -> None:
    """Write weights and bias before and after."""
    names = ("weights_before", "bias_before", "weights", "bias")
    np.savez(Path(folder) / f"rank{rank}.npz", **dict(zip(names, (*begun, *ended), strict=True)))
