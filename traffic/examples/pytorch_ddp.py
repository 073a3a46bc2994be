# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""PyTorch with DistributedDataParallel: one line has its gradients travel by Gradlane."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gradlane
from traffic.examples.digits import Digits, errors_in_one_line

EPOCHS = 5


def main() -> None:
    """Train, and say how well."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    dist.init_process_group("gloo")
    digits = Digits.of(dist.get_rank(), dist.get_world_size())
    layers = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    model = DistributedDataParallel(layers)
    attachment = gradlane.attach(model)  # this one

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for images, labels in digits.batches(EPOCHS):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(torch.from_numpy(images)), torch.from_numpy(labels))
        loss.backward()
        optimizer.step()

    with torch.no_grad():
        accuracy = digits.accuracy(layers(torch.from_numpy(digits.test_images)).numpy())
    sent = attachment.communicator.statistics
    lost = sent.lost_values / max(sent.values, 1)
    print(f"rank {dist.get_rank()}: accuracy {accuracy:.1%}, {lost:.1%} of {sent.values:,} values lost")
    attachment.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    with errors_in_one_line():
        main()
