# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The same training three times over one communicator: a plain loop, behind a barrier, gated: `gated.py FOLDER`."""

import sys
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import torch
from pytorch_common import arrays, batches, loss_of, network, save

import gradlane.pytorch
from traffic.frameworks.joining import join

ROUNDS = 5


@dataclass
class Later:
    """A communicator whose rounds are later ones, so that a training can follow another in the same job."""

    communicator: Any
    by: int

    def all_reduce(self, values: Any, *, tensor: int, layer: int, round: int, weight: int = 1) -> Future[Any]:
        """Reduce in a later round."""
        return self.communicator.all_reduce(values, tensor=tensor, layer=layer, round=round + self.by, weight=weight)


def optimizer_of(model: Any) -> tuple[Any, Any]:
    """Return an optimiser with a state, two groups, and a schedule that changes its rate every round."""
    parameters = list(model.parameters())
    groups = [{"params": parameters[:2], "weight_decay": 0.1}, {"params": parameters[2:]}]
    optimizer = torch.optim.Adam(groups, lr=0.01)
    return optimizer, torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)


def plain(communicator: Any) -> Any:
    """Train as without Gradlane: all gradients, then one step."""
    model = network(0)
    optimizer, schedule = optimizer_of(model)
    for number, (images, labels) in enumerate(batches(communicator.rank, ROUNDS)):
        optimizer.zero_grad()
        loss_of(model, images, labels).backward()
        gradients = [parameter.grad.numpy() for parameter in model.parameters()]
        futures = communicator.all_reduce_each(gradients, layers=[0] * len(gradients), round=1000 + number)
        for parameter, future in zip(model.parameters(), futures, strict=True):
            parameter.grad = torch.from_numpy(future.result().values)
        optimizer.step()
        schedule.step()
    return model


def behind(communicator: Any, by: int, gated: bool) -> Any:
    """Train behind a gate or a barrier; `step` and `zero_grad` stay in the loop."""
    model = network(0)
    optimizer, schedule = optimizer_of(model)
    with gradlane.pytorch.gate(model, optimizer, reducer=Later(communicator, by), gated=gated):
        for images, labels in batches(communicator.rank, ROUNDS):
            optimizer.zero_grad()
            loss_of(model, images, labels).backward()
            optimizer.step()
            schedule.step()
        saved = {name: value.clone() for name, value in model.state_dict().items()}
    assert all(torch.equal(saved[name], value) for name, value in model.state_dict().items())
    assert len(optimizer.state_dict()["state"]) == len(list(model.parameters()))
    return model


def main() -> None:
    """Train three times, save all."""
    (folder,) = sys.argv[1:]
    with join() as communicator:
        values = arrays(plain(communicator), "plain.")
        values |= arrays(behind(communicator, 2000, gated=False), "barrier.")
        values |= arrays(behind(communicator, 3000, gated=True), "gated.")
        save(folder, communicator.rank, values)


if __name__ == "__main__":
    main()
