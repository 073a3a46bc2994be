# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch behind a gate: no process group; a layer computes as soon as its own parameters are updated."""

import torch
from torch import nn

import gradlane
from traffic.examples.digits import Digits, errors_in_one_line

EPOCHS = 5


def main() -> None:
    """Train a small convolutional network, and say how well."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(512, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    with gradlane.gate(model, optimizer) as gated:
        digits = Digits.of(gated.communicator.rank, gated.communicator.size)
        for images, labels in digits.batches(EPOCHS):
            loss = nn.functional.cross_entropy(model(torch.from_numpy(images)), torch.from_numpy(labels))
            loss.backward()  # nothing more: gradients leave and parameters are updated by themselves
        with torch.no_grad():
            accuracy = digits.accuracy(model(torch.from_numpy(digits.test_images)).numpy())
        waited = ", ".join(f"{seconds:.2f}" for _, seconds in sorted(gated.gate.waited.items()))
        print(f"rank {gated.communicator.rank}: accuracy {accuracy:.1%}, seconds waited by layer {waited}")


if __name__ == "__main__":
    with errors_in_one_line():
        main()
