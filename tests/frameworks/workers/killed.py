# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Train until rank 1 is killed in mid-round: `killed.py FOLDER ddp|group|gated`."""

import os
import signal
import sys

import torch
import torch.distributed as dist
from pytorch_common import batches, loss_of, network
from torch.nn.parallel import DistributedDataParallel

import gradlane.pytorch

ROUNDS, FATAL = 1000, 3


def main() -> None:
    """Train far longer than rank 1 lives."""
    _, kind = sys.argv[1:]
    model = network(0)
    rank = int(os.environ["RANK"])
    if kind == "gated":
        gradlane.pytorch.gate(model, torch.optim.SGD(model.parameters(), lr=0.1))
    else:
        dist.init_process_group("gradlane" if kind == "group" else "gloo")
        model = DistributedDataParallel(model)
        if kind == "ddp":
            gradlane.pytorch.attach(model)
    for number, (images, labels) in enumerate(batches(rank, ROUNDS)):
        loss = loss_of(model, images, labels)
        if rank == 1 and number == FATAL:
            os.kill(os.getpid(), signal.SIGKILL)
        loss.backward()


if __name__ == "__main__":
    main()
