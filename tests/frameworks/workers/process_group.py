# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Everything that the process group can do, then DDP over it without a hook: `process_group.py FOLDER`."""

import sys

import torch
import torch.distributed as dist
from pytorch_common import arrays, batches, loss_of, network, save
from torch.nn.parallel import DistributedDataParallel

import gradlane.pytorch

ROUNDS = 3


def reduced(values: torch.Tensor, operation: dist.ReduceOp) -> torch.Tensor:
    """Return an all-reduced copy."""
    copy = values.clone()
    dist.all_reduce(copy, op=operation)
    return copy


def collectives(rank: int, size: int) -> None:
    """Check each collective against what it means."""
    ranks = torch.arange(size)
    large = torch.arange(20_000, dtype=torch.float32) + rank  # of many packets: they must not be lost
    expected = large * size - rank * size + ranks.sum()
    assert torch.equal(reduced(large, dist.ReduceOp.SUM), expected)
    assert torch.allclose(reduced(large, dist.ReduceOp.AVG), expected / size)
    for kind in (torch.int64, torch.float64, torch.uint8):
        mine = torch.tensor([rank + 1, 3], dtype=kind)
        assert torch.equal(reduced(mine, dist.ReduceOp.SUM), torch.tensor([(ranks + 1).sum(), 3 * size], dtype=kind))
        assert torch.equal(reduced(mine, dist.ReduceOp.MAX), torch.tensor([size, 3], dtype=kind))
        assert torch.equal(reduced(mine, dist.ReduceOp.MIN), torch.tensor([1, 3], dtype=kind))
    half = torch.full((3,), rank + 0.5, dtype=torch.bfloat16)
    assert torch.equal(
        reduced(half, dist.ReduceOp.SUM), torch.full((3,), float((ranks + 0.5).sum()), dtype=torch.bfloat16)
    )

    word = torch.tensor([[rank, -1]], dtype=torch.int64)
    dist.broadcast(word, src=size - 1)
    assert word.tolist() == [[size - 1, -1]]
    parts = [torch.zeros(2, 2) for _ in range(size)]
    dist.all_gather(parts, torch.full((2, 2), float(rank)))
    assert [float(part.sum()) for part in parts] == [4.0 * other for other in range(size)]
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": other} for other in range(size)]
    work = dist.all_reduce(torch.ones(4), async_op=True)
    work.wait()
    dist.barrier()


def main() -> None:
    """Check, train, save."""
    (folder,) = sys.argv[1:]
    assert gradlane.pytorch.GradlaneGroup
    dist.init_process_group("gradlane")
    rank = dist.get_rank()
    collectives(rank, dist.get_world_size())
    model = DistributedDataParallel(network(rank))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for images, labels in batches(rank, ROUNDS):
        optimizer.zero_grad()
        loss_of(model, images, labels).backward()
        optimizer.step()
    save(folder, rank, arrays(model.module))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
