# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: E402  # what needs torch is imported once it is known to be there
"""A torch module behind a gate, in one process: which parameter is waited for when, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from tests.frameworks.jobs import needs
from tests.unit.frameworks.reducers import Aggregate, Floats
from topologies.errors import UsageError

needs("torch", "PyTorch")

import torch
from torch import nn

from traffic.frameworks import pytorch_gate
from traffic.frameworks.compute import ComputeTime
from traffic.frameworks.pytorch_gate import GatedModule


class Alone:
    """The only rank: its gradients are the aggregates, at once or when told."""

    def __init__(self, hold: bool = False) -> None:
        self.sent: list[tuple[int, int, int]] = []
        self.held: dict[int, tuple[Future[Aggregate], Floats]] = {}
        self._hold = hold

    def all_reduce(self, values: Floats, *, tensor: int, layer: int, round: int, weight: int = 1) -> Future[Aggregate]:
        self.sent.append((round, tensor, layer))
        future: Future[Aggregate] = Future()
        self.held[tensor] = future, values.copy()
        if not self._hold:
            self.deliver(tensor)
        return future

    def deliver(self, tensor: int) -> None:
        future, values = self.held.pop(tensor)
        future.set_result(Aggregate(values))


class Borrowing(nn.Module):
    """Uses the weights of a layer that it never calls, as attention does."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.lent = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, inputs: Any) -> Any:
        return nn.functional.linear(self.first(inputs), self.lent.weight, self.lent.bias)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def sgd(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def inputs() -> Any:
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(1))


class Scaled(torch.optim.SGD):
    """A user's own rule, with an attribute that torch knows nothing of."""

    def __init__(self, model: Any) -> None:
        super().__init__(model.parameters(), lr=0.1)
        self.scale = 0.5

    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    parameter.grad.mul_(self.scale)
        return super().step(closure)


def trained(model: Any, gated: bool, rounds: int = 3, rule: Any = sgd) -> list[Any]:
    optimizer = rule(model)
    torch.optim.lr_scheduler.StepLR(optimizer, 10)  # wraps the optimiser's step
    gate = GatedModule(model, optimizer, Alone()) if gated else None
    for _ in range(rounds):
        optimizer.zero_grad()
        model(inputs()).square().mean().backward()
        optimizer.step()
    if gate is not None:
        gate.finish()
        gate.close()
    return [parameter.detach().clone() for parameter in model.parameters()]


def seeded(make: Any) -> Any:
    torch.manual_seed(3)
    return make()


@pytest.mark.parametrize("rule", [sgd, Scaled])
def test_one_rank_behind_a_gate_trains_as_without_it(rule: Any) -> None:
    def make() -> Any:
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    for one, other in zip(trained(seeded(make), True, 3, rule), trained(seeded(make), False, 3, rule), strict=True):
        assert torch.equal(one, other)


def test_a_parameter_whose_module_is_never_called_is_waited_for_too() -> None:
    for one, other in zip(trained(seeded(Borrowing), True), trained(seeded(Borrowing), False), strict=True):
        assert torch.equal(one, other)


def test_gradients_that_are_cleared_meanwhile_take_nothing_from_an_update() -> None:
    def make() -> Any:
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    model = seeded(make)

    class Clearing(torch.optim.SGD):
        """Clears a parameter's gradient in the midst of its update, as the user's thread may do."""

        def step(self, closure: Any = None) -> Any:
            (stepped,) = self.param_groups[0]["params"]
            for parameter in model.parameters():
                if parameter.data_ptr() == stepped.data_ptr():
                    parameter.grad = None
            return super().step(closure)

    optimizer = Clearing(model.parameters(), lr=0.1, momentum=0.9)
    with GatedModule(model, optimizer, Alone()):
        for _ in range(3):
            model(inputs()).square().mean().backward()
    for one, other in zip(model.parameters(), trained(seeded(make), False), strict=True):
        assert torch.equal(one, other)
    assert all("momentum_buffer" in optimizer.state[parameter] for parameter in model.parameters())


def test_gradients_leave_last_layer_first_and_front_layers_do_not_wait_for_later_ones() -> None:
    model, reducer = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), Alone(hold=True)
    gate = GatedModule(model, sgd(model), reducer)
    before = model[0].weight.detach().clone()
    model(inputs()).square().mean().backward()
    assert [layer for _, _, layer in reducer.sent] == [1, 1, 0, 0]
    assert all(parameter.grad is None for parameter in model.parameters())
    for tensor in (0, 1):
        reducer.deliver(tensor)
    model[0](inputs())  # the second layer's are still on their way
    assert not torch.equal(model[0].weight, before)
    for tensor in (2, 3):
        reducer.deliver(tensor)
    gate.finish()
    gate.close()


def test_declared_times_are_spent_once_for_each_layer_and_not_in_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    until: list[float] = []
    monkeypatch.setattr(pytorch_gate.time, "monotonic", lambda: 0.0)
    monkeypatch.setattr(pytorch_gate, "sleep_until", until.append)
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    gate = GatedModule(model, sgd(model), Alone(), compute=ComputeTime((0.1, 0.2), (0.3, 0.4)))
    for _ in range(2):
        model(inputs()).square().mean().backward()
    assert until == [0.1, 0.2, 0.4, 0.3] * 2
    model.eval()
    with torch.no_grad():
        model(inputs())
    assert len(until) == 8
    gate.close()


def test_the_loop_may_save_and_load_and_is_told_what_it_may_not_do() -> None:
    model = seeded(Borrowing)
    optimizer = sgd(model)
    with GatedModule(model, optimizer, Alone()) as gate:
        model(inputs()).square().mean().backward()
        model.load_state_dict(model.state_dict())
        optimizer.load_state_dict(optimizer.state_dict())
        assert all("momentum_buffer" in state for state in optimizer.state.values())
        model(inputs()).square().mean().backward()
        gate.finish()
        with pytest.raises(UsageError, match="takes no closure"):
            optimizer.step(lambda: 0.0)
        with pytest.raises(UsageError, match="lent.bias was used without a call of its module or of the gated model"):
            nn.functional.linear(model.first(inputs()), model.lent.weight, model.lent.bias).sum().backward()
    other = nn.Linear(4, 4)
    with pytest.raises(UsageError, match="the optimizer does not know first.weight"):
        GatedModule(seeded(Borrowing), sgd(other), Alone())
    with pytest.raises(UsageError, match="layers= has no number for bias"):
        GatedModule(other, sgd(other), Alone(), layers={"weight": 0})


class Odd(nn.Module):
    """A parameter without values, one that is frozen, one that is never used, and an embedding of sparse gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(10, 4, sparse=True)
        self.last, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)
        self.empty = nn.Parameter(torch.zeros(0))
        self.frozen = nn.Parameter(torch.ones(2), requires_grad=False)

    def forward(self, inputs: Any) -> Any:
        rows = self.words(inputs[:, 0].abs().long())
        return self.last(rows) * self.frozen + self.empty.sum()


def test_parameters_that_are_empty_frozen_unused_or_sparse_train_as_without_a_gate() -> None:
    """To rounding: what is sparse without a gate is added up in another order."""
    for gated, plain in zip(trained(seeded(Odd), gated=True), trained(seeded(Odd), gated=False), strict=True):
        torch.testing.assert_close(gated, plain)


def test_gradients_of_complex_values_are_refused_in_one_line() -> None:
    model = nn.Linear(4, 2, dtype=torch.complex64)
    with GatedModule(model, sgd(model), Alone()), pytest.raises(UsageError, match="complex values cannot be summed"):
        model(inputs().to(torch.complex64)).abs().sum().backward()


@pytest.mark.parametrize("look", ["model", "part", "optimizer", "load", "load optimizer"])
def test_whatever_saves_or_loads_waits_for_what_is_on_its_way(look: str) -> None:
    model, rank = nn.Sequential(nn.Linear(4, 2)), Alone(hold=True)
    optimizer = sgd(model)
    gate = GatedModule(model, optimizer, rank)
    was, state = {name: value.clone() for name, value in model.state_dict().items()}, optimizer.state_dict()
    model(inputs()).square().mean().backward()
    before = model[0].weight.detach().clone()
    looks = {
        "model": model.state_dict,
        "part": model[0].state_dict,
        "optimizer": optimizer.state_dict,
        "load": lambda: model.load_state_dict(was),
        "load optimizer": lambda: optimizer.load_state_dict(state),
    }
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(looks[look])
        with pytest.raises(TimeoutError):
            looking.result(0.05)
        for number in (1, 0):
            rank.deliver(number)
        looking.result(60)
    assert torch.equal(model[0].weight, before) == (look == "load")
    gate.close()


def test_two_backward_passes_of_one_forward_are_refused_in_one_line() -> None:
    model = nn.Linear(4, 2)
    with GatedModule(model, sgd(model), Alone()):
        loss = model(inputs()).square().mean()
        loss.backward(retain_graph=True)
        with pytest.raises(UsageError, match="weight|bias"):
            loss.backward()


def test_several_forward_passes_before_one_backward_are_one_round() -> None:
    def train(gated: bool) -> Any:
        model = seeded(lambda: nn.Linear(4, 2))
        optimizer = sgd(model)
        gate = GatedModule(model, optimizer, Alone()) if gated else None
        for _ in range(3):
            optimizer.zero_grad()
            (model(inputs()).square().mean() + model(-inputs()).abs().mean()).backward()
            optimizer.step()
        if gate is not None:
            gate.finish()
            gate.close()
        return model.weight.detach()

    assert torch.equal(train(True), train(False))
