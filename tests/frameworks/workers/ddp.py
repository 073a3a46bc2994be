# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Two DDP models alike, one with gloo's all-reduce, one attached: `ddp.py FOLDER BACKEND`."""

import sys

import torch
import torch.distributed as dist
from pytorch_common import arrays, batches, loss_of, network, save
from torch.nn.parallel import DistributedDataParallel

import gradlane

ROUNDS = 6


def train(model: DistributedDataParallel, rank: int) -> None:
    """Train on the rank's own batches."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for images, labels in batches(rank, ROUNDS):
        optimizer.zero_grad()
        loss_of(model, images, labels).backward()
        optimizer.step()


def main() -> None:
    """Train both, save both."""
    folder, backend = sys.argv[1:]
    dist.init_process_group(backend)
    rank = dist.get_rank()
    plain = DistributedDataParallel(network(0), bucket_cap_mb=0.05, process_group=dist.new_group(backend="gloo"))
    train(plain, rank)
    attached = DistributedDataParallel(network(0), bucket_cap_mb=0.05)
    with gradlane.attach(attached) as attachment:
        train(attached, rank)
        sent = attachment.communicator.statistics
        layers = sorted(sent.by_layer)
    values = {**arrays(plain.module, "plain."), **arrays(attached.module, "attached.")}
    save(folder, rank, values)
    print(f"rank {rank} lost {sent.lost_values} of {sent.values} values; layers {layers}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
