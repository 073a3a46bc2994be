# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Plans: every rank gets every rank's part of every chunk once, and files are read as they were meant."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.unit.collectives.world import World
from topologies.errors import UsageError
from traffic.collectives.job import ARREARS, HEADROOM, RARE_FEEDBACK, Job, Op
from traffic.collectives.names import Name, Origin
from traffic.collectives.plan import Plan, chain, from_file, halving_doubling, parameter_server, ring
from traffic.collectives.tacos import files
from traffic.collectives.tacos.network import Ports, from_arrays, mesh
from traffic.collectives.tacos.schedule import Collective, demand
from traffic.collectives.tacos.synthesis import synthesise
from traffic.collectives.tacos.trees import synthesise_trees
from traffic.packer import TensorId
from traffic.transport.control import key_of
from traffic.transport.core import OutboundMessage
from traffic.transport.timing import MILLISECOND, SECOND
from traffic.transport.virtual import Port
from traffic.wire import HEADER, DataType

PLANS = [
    parameter_server(1, 1),
    parameter_server(4, 3),
    *(ring(ranks) for ranks in (1, 2, 3, 8)),
    *(halving_doubling(ranks) for ranks in (1, 2, 3, 4, 5, 6, 7, 8, 12)),
]


def play(plan: Plan, holds: list[dict[int, list[int]]]) -> None:
    """Carry out a plan step by step on lists of the ranks whose part is in what a node has of a chunk."""
    waiting = sorted(plan.sends, key=lambda send: send.start)
    under_way: list = []
    while waiting or under_way:
        now = min([send.start for send in waiting] + [send.end for send, _ in under_way])
        for send, parts in [pair for pair in under_way if pair[0].end <= now]:
            under_way.remove((send, parts))
            held = holds[send.destination].setdefault(send.chunk, [])
            held[:] = held + parts if send.reduces else parts
        while waiting and waiting[0].start <= now:
            send = waiting.pop(0)
            under_way.append((send, list(holds[send.source].get(send.chunk, []))))


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.name} {plan.workers}")
def test_an_all_reduce_has_every_rank_once_in_the_end(plan: Plan) -> None:
    holds: list[dict[int, list[int]]] = [{} for _ in range(plan.nodes)]
    for rank in range(plan.workers):
        holds[rank] = {chunk: [rank] for chunk in range(plan.chunks)}
    play(plan, holds)
    for rank in range(plan.workers):
        for chunk in range(plan.chunks):
            assert sorted(holds[rank][chunk]) == list(range(plan.workers))


def test_a_broadcast_reaches_everybody_from_any_root() -> None:
    for root in range(4):
        plan = chain(4, 6, root)
        holds: list[dict[int, list[int]]] = [{} for _ in range(6)]
        holds[root] = {chunk: [root] for chunk in range(plan.chunks)}
        play(plan, holds)
        assert all(holds[rank] == holds[root] for rank in range(4))
        assert not holds[4] and not holds[5]


@pytest.mark.parametrize("size", [1, 359, 360, 361, 1440, 5000, 200_001])
def test_chunks_are_whole_packets_dealt_out_evenly(size: int) -> None:
    plan = ring(4)
    for turn in range(5):
        bounds = plan.cut(size, 360, turn)
        assert sorted(map(tuple, bounds.tolist()))[0][0] == 0
        lengths = bounds[:, 1] - bounds[:, 0]
        assert lengths.sum() == size
        packets = -(-lengths // 360)
        assert packets.max() - packets.min() <= 1
        assert all(first % 360 == 0 or first == size for first in bounds[:, 0].tolist())
        assert packets[turn % 4] == packets.max()


def saved(tmp_path: Path) -> Path:
    network = mesh(2, 2, bandwidth=12.5e6, latency=1e-4)
    file = tmp_path / "schedule.json"
    files.save(synthesise(network, demand(network, Collective.ALL_REDUCE, 1e6)), file)
    return file


def test_a_schedule_file_gives_a_plan_in_the_order_of_its_links(tmp_path: Path) -> None:
    plan, schedule = from_file(saved(tmp_path), 4), files.load(saved(tmp_path))
    assert len(plan.sends) == len(schedule.chunk)
    holds: list[dict[int, list[int]]] = [{chunk: [rank] for chunk in range(plan.chunks)} for rank in range(4)]
    play(plan, holds)
    assert all(sorted(parts) == [0, 1, 2, 3] for held in holds for parts in held.values())
    for node, part in enumerate(plan.parts):
        for destination, sends in part.links.items():
            of_link = (schedule.source == node) & (schedule.destination == destination)
            assert [send.chunk for send in sends] == schedule.chunk[of_link].tolist()
            assert [send.number for send in sends] == list(range(len(sends)))


@pytest.mark.parametrize("name", ["schedule.json", "schedule.npz"])
def test_paths_that_a_schedule_names_are_pinned(tmp_path: Path, name: str) -> None:
    schedule = files.load(saved(tmp_path))
    paths = np.arange(len(schedule.chunk), dtype=np.uint32) % 3
    files.save(replace(schedule, path=paths), tmp_path / name)
    assert [send.path for send in from_file(tmp_path / name, 4).sends] == paths.tolist()
    files.save(replace(schedule, path=paths + 300), tmp_path / name)
    with pytest.raises(UsageError, match="names paths beyond 255"):
        from_file(tmp_path / name, 4)
    message = OutboundMessage(
        np.ones(800, np.float32),
        TensorId(),
        per_packet=360,
        data_type=DataType.FLOAT32,
        first_sequence=0,
        protected_share=0.0,
        path=2,
    )
    assert message._headers.view(HEADER)["path"].tolist() == [[2]] * 3


def test_schedules_that_do_not_fit_are_refused_by_name(tmp_path: Path) -> None:
    file = saved(tmp_path)
    with pytest.raises(UsageError, match="schedule.json: is a schedule for 4 ranks, not for 5"):
        from_file(file, 5)
    plain = json.loads(file.read_text())
    plain["sends"] = plain["sends"][1:]
    file.write_text(json.dumps(plain))
    with pytest.raises(UsageError, match="schedule.json: is a wrong schedule"):
        from_file(file, 4)
    with pytest.raises(UsageError, match="cannot read"):
        from_file(tmp_path / "none.json", 4)


@pytest.mark.parametrize("broadcast", [False, True])
def test_a_message_is_named_so_that_both_ends_know_its_send(broadcast: bool) -> None:
    random = np.random.default_rng(0)
    for _ in range(100):
        job, node, tensor, layer = (int(value) for value in random.integers(0, 1 << 16, 4))
        name = Name(tensor, layer, int(random.integers(0, 1 << 20)), broadcast)
        number = int(random.integers(0, 1 << 11))
        origin = Origin.of(key_of(name.ids(job, node, number, 5)))
        assert origin == Origin(job, node, name, number)


def test_a_schedule_says_how_fast_each_way_is(tmp_path: Path) -> None:
    network = from_arrays("uneven", 3, [0, 1, 1, 2], [1, 0, 2, 1], [0.0] * 4, [1e6, 2e6, 5e5, 1e6])
    file = tmp_path / "schedule.json"
    files.save(synthesise(network, demand(network, Collective.ALL_REDUCE, 1e6)), file)
    job = Job(number=1, workers=("10.0.0.1", "10.0.0.2", "10.0.0.3"), collective=str(file), line_rate=1e7)
    assert job.plan.rates == {(0, 1): 8e6, (1, 0): 16e6, (1, 2): 4e6, (2, 1): 8e6}
    assert job.meeting(0).rate.line == 1e7
    assert job.settings_between(1, 2).rate.line == HEADROOM * 4e6
    assert job.settings_between(1, 0).rate.line == HEADROOM * 1e7  # the host is slower than the schedule's link
    assert job.settings_between(0, 2).rate.line == 1e7  # the schedule has no such link
    slow = job.settings_between(1, 2).rate
    assert slow.initial == slow.least == slow.line  # whose alone it is
    assert job.settings_between(1, 2).feedback == (RARE_FEEDBACK, RARE_FEEDBACK)
    assert job.settings_between(1, 2).arrears == ARREARS > job.settings.arrears
    assert job.settings_between(0, 2).feedback[0] < RARE_FEEDBACK
    assert job.settings_between(0, 2).arrears == job.settings.arrears


def test_sends_that_share_ports_wait_for_their_time(tmp_path: Path) -> None:
    """Three ranks whose links into the first share a port: it gets one message at a time, without a queue."""
    plain = from_arrays("star", 3, [1, 2, 0, 0], [0, 0, 1, 2], [0.0] * 4, [1e6] * 4)
    into, out_of = 4, 5
    first = np.arange(0, 9, 2, dtype=np.uint32)
    port = np.array([0, into, 1, into, 2, out_of, 3, out_of], np.uint32)
    network = replace(plain, ports=Ports(first, port, np.ones(6, np.uint32)))
    schedule = synthesise_trees(network, demand(network, Collective.ALL_REDUCE, 90 * 1514.0), 9)  # of ten packets
    file = tmp_path / "schedule.json"
    files.save(schedule, file)
    job = Job(number=1, workers=("10.0.0.1", "10.0.0.2", "10.0.0.3"), collective=str(file), op=Op.SUM, line_rate=8e6)
    assert job.plan.timed_for == 90 * 1514 and not job.plan.reserved
    world = World.of(job, port=Port(rate=8e6, capacity=1 << 20))
    begun = world.network.now
    values = [np.full(90 * 360, 1.0 + rank, np.float32) for rank in range(3)]
    futures = world.all_reduce(values)
    queue = 0.0
    while not all(future.done() for future in futures):
        world.network.run(world.network.now + MILLISECOND)
        queue = max(queue, world.nodes[0]._port_free - world.network.now)
    packet = 1514 * 8 / 8e6 * SECOND
    assert queue < 5 * packet  # of two messages of ten at once it would be as many
    assert all((future.result().values == 6).all() for future in futures)
    took = (world.network.now - begun) / SECOND
    assert 0.97 < took / schedule.seconds < 1.1
