# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Every exchange on loopback, two workers and two servers as threads of this process."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import count, pairwise

import numpy as np
import pytest

from traffic.exchanges import blocks
from traffic.exchanges.collective import CollectiveSettings
from traffic.exchanges.exchange import Mean
from traffic.exchanges.methods import Kind, Wiring
from traffic.exchanges.networks import Recipe
from traffic.exchanges.pieces import cut
from traffic.exchanges.step import GatedTraining
from traffic.exchanges.tcp import TcpSettings
from traffic.model import Parameter

_NETWORKS = count(20)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wiring(kind: Kind, largest: int | None) -> Wiring:
    net = next(_NETWORKS)
    return Wiring(kind, (f"127.0.{net}.1", f"127.0.{net}.2"), (f"127.0.{net}.11", f"127.0.{net}.12"), largest)


def samples(rank: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    random = np.random.default_rng(rank)
    while True:
        yield random.normal(size=(8, 20)).astype(np.float32), random.integers(0, 4, 8)


RECIPE = Recipe((20, 300, 4), learning_rate=0.1)


def trained(wires: Wiring, rounds: int) -> list[list[np.ndarray]]:
    """Train in two threads; returns both workers' values."""
    parameters = RECIPE.build(1).parameters

    def work(rank: int) -> list[np.ndarray]:
        training = GatedTraining(RECIPE.build(1), samples(rank), RECIPE.learning_rate, RECIPE.momentum)
        with closing(wires.worker(rank, parameters)) as exchange, training.over(exchange):
            for _ in range(rounds):
                training.run()
        return training.network.values

    with ExitStack() as stack, ThreadPoolExecutor(2) as pool:
        servers = [stack.enter_context(closing(wires.server(number, parameters))) for number in range(2)]
        values = list(pool.map(work, range(2)))
        assert [server.error for server in servers] == [None, None]
    return values


def alone(rounds: int) -> list[np.ndarray]:
    """Train with the mean of both workers' gradients, without any network."""

    class Probe:
        def __init__(self) -> None:
            self.gradients: dict[int, np.ndarray] = {}

        def all_reduce(self, values: np.ndarray, *, tensor: int, **_: int) -> Future[Mean]:
            self.gradients[tensor] = values
            future: Future[Mean] = Future()
            future.set_result(Mean(values))
            return future

    replicas = [RECIPE.build(1) for _ in range(2)]
    batches = [samples(rank) for rank in range(2)]
    velocity = [np.zeros_like(value) for value in replicas[0].values]
    for _ in range(rounds):
        probes = [Probe() for _ in range(2)]
        for replica, batch, probe in zip(replicas, batches, probes, strict=True):
            standing = GatedTraining(replica, batch, 0.0, 0.0)
            with standing.over(probe):
                standing.run()
        for tensor, speed in enumerate(velocity):
            gradient = (probes[0].gradients[tensor] + probes[1].gradients[tensor]) / np.float32(2)
            speed *= np.float32(RECIPE.momentum)
            speed += gradient
            for replica in replicas:
                replica.values[tensor] -= np.float32(RECIPE.learning_rate) * speed
    return replicas[0].values


@pytest.mark.parametrize(
    ("kind", "largest"),
    [
        (TcpSettings(0), None),
        (TcpSettings(0, connections=2, by_priority=True), 1000),
        (CollectiveSettings(1e9), 2000),
    ],
    ids=["tcp", "tcp by priority, in pieces", "transport"],
)
def test_what_loses_nothing_trains_as_one_machine_would(kind: Kind, largest: int | None) -> None:
    if isinstance(kind, TcpSettings):
        kind = TcpSettings(free_port(), kind.connections, kind.by_priority)
    first, second = trained(wiring(kind, largest), 4)
    for mine, other, expected in zip(first, second, alone(4), strict=True):
        np.testing.assert_array_equal(mine, other)
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "largest"),
    [(TcpSettings(0, kept_share=0.25), None), (CollectiveSettings(1e9, tolerance=0.5), None)],
    ids=["block top-k", "bounded loss"],
)
def test_what_loses_values_keeps_the_replicas_equal(kind: Kind, largest: int | None) -> None:
    if isinstance(kind, TcpSettings):
        kind = TcpSettings(free_port(), kept_share=kind.kept_share)
    first, second = trained(wiring(kind, largest), 4)
    for mine, other in zip(first, second, strict=True):
        np.testing.assert_array_equal(mine, other)


def test_pieces_cover_every_value_once_and_burden_servers_alike() -> None:
    parameters = [Parameter(0, 0, "a", (10_000,)), Parameter(1, 1, "b", (100,)), Parameter(2, 2, "c", (77,))]
    for largest in (None, 3000):
        pieces = cut(parameters, 2, largest)
        for parameter in parameters:
            mine = sorted((p.first, p.end) for p in pieces if p.tensor == parameter.tensor)
            assert mine[0][0] == 0
            assert mine[-1][1] == parameter.size
            assert all(before[1] == after[0] for before, after in pairwise(mine))
        load = [sum(p.size for p in pieces if p.server == server) for server in range(2)]
        assert abs(load[0] - load[1]) <= 100


def test_blocks_come_back_where_they_were_and_rubbish_is_refused() -> None:
    values = np.arange(4000, dtype=np.float32)
    chosen = blocks.choose(values, 0.25)
    assert chosen.tolist() == [False] * 9 + [True] * 3
    back, there = blocks.decode(blocks.encode(values, chosen), 4000)
    assert there.tolist() == chosen.tolist()
    np.testing.assert_array_equal(back[3240:], values[3240:])
    assert not back[:3240].any()
    assert blocks.choose(values[:2570], 1 / 16).all(), "eight blocks: no rank among so few"
    with pytest.raises(ValueError, match="no blocks"):
        blocks.decode(np.zeros(5, np.float32) + np.float32(3), 1000)


def test_strangers_are_sent_away_and_a_server_that_waits_for_workers_can_be_closed() -> None:
    parameters = RECIPE.build(1).parameters
    wires = wiring(TcpSettings(free_port(), connections=1), None)
    with closing(wires.server(0, parameters)):
        place = wires.servers[0], wires.kind.port
        with socket.create_connection(place) as stranger:
            stranger.sendall(b"G")
            stranger.shutdown(socket.SHUT_WR)
            assert stranger.recv(1) == b""
        with socket.create_connection(place) as worker:
            worker.sendall(b"\0\0")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place)
