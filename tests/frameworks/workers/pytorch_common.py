# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the PyTorch workers share: a model, each rank's own data, and where results go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

torch.set_num_threads(1)


def network(seed: int) -> Any:
    """Return a model that differs by seed."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 10))


def batches(rank: int, rounds: int) -> Iterator[tuple[Any, Any]]:
    """Yield a rank's images and labels."""
    generator = torch.Generator().manual_seed(100 + rank)
    for _ in range(rounds):
        images = torch.randn(16, 64, generator=generator)
        yield images, images[:, :10].argmax(1)


def loss_of(model: Any, images: Any, labels: Any) -> Any:
    """Return the mean cross-entropy."""
    return nn.functional.cross_entropy(model(images), labels)


def arrays(model: Any, prefix: str = "") -> dict[str, Any]:
    """Return copies of a model's parameters by name."""
    return {prefix + name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}


def save(folder: str, rank: int, values: dict[str, Any]) -> None:
    """Write what the test is to compare."""
    np.savez(Path(folder) / f"rank{rank}.npz", **values)
