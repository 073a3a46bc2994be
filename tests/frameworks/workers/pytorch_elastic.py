# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A worker of an ABS-SGD training whose roster the environment names: it says `training` once it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

import gradlane
from traffic.model import WORKLOADS

UPDATES = 200
SECONDS_PER_SAMPLE = 1e-3


class Batches:
    """Batches of the digits, read again and again; `begun` is called when the tenth is drawn."""

    def __init__(self, number: int, begun: Callable[[], None]) -> None:
        images, labels = (torch.from_numpy(array) for array in WORKLOADS["digits"].load())
        self._batches = [(images[i : i + 16], labels[i : i + 16]) for i in range(16 * number, 1200, 48)]
        self._begun, self._drawn = begun, 0

    def __iter__(self) -> Iterator[Any]:
        for batch in self._batches:
            self._drawn += 1
            if self._drawn == 10:
                self._begun()
            yield batch


def train(
    number: int, roster: str | None = None, address: str | None = None, begun: Callable[[], None] = lambda: None
) -> tuple[Any, Any, Any]:
    """Train as one worker; returns the model, its optimiser and what was done."""
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    trained = gradlane.abs_sgd(
        model, optimizer, Batches(number, begun), updates=UPDATES, roster=roster, address=address, compensation=0.5,
        seconds_per_sample=SECONDS_PER_SAMPLE,
    )  # fmt: skip
    return model, optimizer, trained


if __name__ == "__main__":
    train(2, begun=lambda: print("training", flush=True))
