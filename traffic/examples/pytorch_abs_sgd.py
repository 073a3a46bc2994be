# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch with ABS-SGD: the last worker is four times as slow as the others, and nobody waits for it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gradlane
from traffic.examples.digits import Digits, errors_in_one_line
from traffic.frameworks.joining import job_of, rank_of

UPDATES = 150
SECONDS_PER_SAMPLE = 1e-3


def main() -> None:
    """Train a small convolutional network with a batch norm, and say how well."""
    torch.set_num_threads(1)
    rank, size = rank_of(None), len(job_of(None).workers)
    torch.manual_seed(rank)  # other samples for each; the start is rank 0's
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    digits = Digits.of(rank, size)
    data = TensorDataset(torch.from_numpy(digits.images), torch.from_numpy(digits.labels))
    loader = DataLoader(data, batch_size=16, shuffle=True, drop_last=True)
    slowness = 4 if rank == size - 1 else 1
    trained = gradlane.abs_sgd(
        model, optimizer, loader, updates=UPDATES, seconds_per_sample=slowness * SECONDS_PER_SAMPLE
    )
    model.eval()
    with torch.no_grad():
        accuracy = digits.accuracy(model(torch.from_numpy(digits.test_images)).numpy())
    mine = trained.progress
    print(
        f"rank {rank}: accuracy {accuracy:.1%}, {mine.samples} of {trained.samples} samples in {trained.updates} sums, "
        f"waited {mine.waited / mine.seconds:.0%} of the time"
    )


if __name__ == "__main__":
    with errors_in_one_line():
        main()
