# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What is exported does, run by itself as its format says, what the schedule does."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from topologies.errors import UsageError
from traffic.collectives.tacos.chakra import write_chakra
from traffic.collectives.tacos.msccl import msccl
from traffic.collectives.tacos.network import Network, from_arrays, mesh, torus
from traffic.collectives.tacos.schedule import Collective, Schedule, demand
from traffic.collectives.tacos.synthesis import synthesise
from traffic.collectives.tacos.trees import synthesise_trees

TWO_CABLES = from_arrays("two cables", 3, [0, 0, 1, 1, 2], [1, 1, 0, 2, 1], [0.0] * 5, [1e9, 3e9, 1e9, 1e9, 1e9])
HALVES = (Collective.ALL_GATHER, Collective.REDUCE_SCATTER, Collective.ALL_REDUCE)
Held = dict[tuple[int, int], Counter[int]]
"""Whose contributions (NPU, chunk) is made of, and how often."""


def at_first(schedule: Schedule) -> Held:
    npus, chunks = schedule.network.npus, schedule.demand.chunks
    gathers = schedule.demand.collective is Collective.ALL_GATHER
    own = {(n, c): Counter([n]) for n in range(npus) for c in range(chunks)}
    return {key: parts for key, parts in own.items() if not gathers or key[1] // (chunks // npus) == key[0]}


def assert_done(schedule: Schedule, held: Held) -> None:
    npus, chunks = schedule.network.npus, schedule.demand.chunks
    for npu in range(npus):
        for chunk in range(chunks):
            owner = chunk * npus // chunks
            if schedule.demand.collective is Collective.ALL_GATHER:
                assert held[npu, chunk] == Counter([owner])
            elif schedule.demand.collective is Collective.ALL_REDUCE or owner == npu:
                assert held[npu, chunk] == Counter(range(npus))


def run_xml(text: str, schedule: Schedule) -> Held:
    """Run MSCCL XML as its runtime does: a block's steps in turn, each after its dependency, first in first out."""
    algo = ElementTree.fromstring(text)
    names = "name proto nchannels nchunksperloop ngpus coll inplace outofplace minBytes maxBytes"
    assert set(algo.attrib) == set(names.split())
    assert int(algo.attrib["nchunksperloop"]) == schedule.demand.chunks
    held, done = at_first(schedule), defaultdict[tuple[int, int], int](int)
    wires: defaultdict[tuple[int, int, int], deque[Counter[int]]] = defaultdict(deque)
    blocks = [(int(gpu.attrib["id"]), block) for gpu in algo for block in gpu]
    marked = {
        (gpu, int(block.attrib["id"]), at)
        for gpu, block in blocks
        for at, step in enumerate(block)
        if step.attrib["hasdep"] == "1"
    }
    waits = set()
    moved = True
    while moved:
        moved = False
        for gpu, block in blocks:
            number = int(block.attrib["id"])
            while done[gpu, number] < len(block):
                step = block[done[gpu, number]].attrib
                assert int(step["s"]) == done[gpu, number] < 256
                if (other := int(step["depid"])) >= 0:
                    waits.add((gpu, other, int(step["deps"])))
                    if done[gpu, other] <= int(step["deps"]):
                        break
                chunk, channel = int(step["srcoff"]), int(block.attrib["chan"])
                if step["type"] == "s":
                    wires[gpu, int(block.attrib["send"]), channel].append(Counter(held[gpu, chunk]))
                elif step["type"] != "nop":
                    wire = wires[int(block.attrib["recv"]), gpu, channel]
                    if not wire:
                        break
                    old = held.get((gpu, chunk), Counter()) if step["type"] == "rrc" else Counter()
                    held[gpu, chunk] = old + wire.popleft()
                done[gpu, number] += 1
                moved = True
    assert all(done[gpu, int(block.attrib["id"])] == len(block) for gpu, block in blocks)
    assert waits == marked
    assert not any(wires.values())
    peers = Counter((gpu, b.attrib["chan"], side, b.attrib[side]) for gpu, b in blocks for side in ("send", "recv"))
    assert all(count == 1 for (_, _, _, peer), count in peers.items() if peer != "-1")
    return held


@pytest.mark.parametrize("collective", HALVES)
@pytest.mark.parametrize("network", [mesh(3, 2), torus(3, 3), TWO_CABLES], ids=lambda network: network.name)
def test_msccl_xml_does_what_the_schedule_does(network: Network, collective: Collective) -> None:
    schedule = synthesise(network, demand(network, collective, 1e6, chunks=2), engine="matching", restarts=1)
    assert_done(schedule, run_xml(msccl(schedule, minimum=1024, maximum=1 << 20), schedule))


def test_msccl_xml_of_trees() -> None:
    network = mesh(3, 3)
    schedule = synthesise_trees(network, demand(network, Collective.ALL_REDUCE, 1e6), 12)
    text = msccl(schedule, minimum=1024, maximum=1 << 20)
    assert_done(schedule, run_xml(text, schedule))
    assert 'minBytes="1024" maxBytes="1048576"' in text and 'inplace="1" outofplace="0"' in text


def test_msccl_refuses_what_its_runtime_would() -> None:
    network = mesh(3)
    with pytest.raises(UsageError, match="256 steps of a link"):
        msccl(synthesise_trees(network, demand(network, Collective.ALL_REDUCE, 1e6), 300))
    with pytest.raises(UsageError, match="not all_to_all"):
        msccl(synthesise(network, demand(network, Collective.ALL_TO_ALL, 1e6)))
    with pytest.raises(UsageError, match="sends something"):
        msccl(synthesise(mesh(1), demand(mesh(1), Collective.ALL_GATHER, 1e6)))
    with pytest.raises(UsageError, match="process group"):
        msccl(synthesise(network, demand(network, Collective.ALL_GATHER, 1e6, group=[0, 1])))


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def fields(data: bytes) -> dict[int, list[Any]]:
    """A protobuf message's fields: numbers, and everything else as bytes."""
    found: defaultdict[int, list[Any]] = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        value: Any
        value, at = varint(data, at)
        if key & 7 == 2:
            value, at = data[at : at + value], at + value
        else:
            assert key & 7 == 0
        found[key >> 3].append(value)
    return dict(found)


def read_trace(file: Path) -> list[dict[str, Any]]:
    data, at, messages = file.read_bytes(), 0, []
    while at < len(data):
        length, at = varint(data, at)
        messages.append(fields(data[at : at + length]))
        at += length
    nodes = []
    for message in messages[1:]:  # after the metadata
        attributes = [fields(part) for part in message[10]]
        needs: list[int] = []
        for packed in message.get(4, []) + message.get(5, []):
            place = 0
            while place < len(packed):
                value, place = varint(packed, place)
                needs.append(value)
        named = {a[1][0].decode(): next(values[0] for key, values in a.items() if key != 1) for a in attributes}
        nodes.append(
            {"id": message[1][0], "name": message[2][0].decode(), "type": message[3][0], "needs": needs, **named}
        )
    return nodes


@pytest.mark.parametrize("collective", HALVES)
def test_chakra_traces_do_what_the_schedule_does_in_its_time(collective: Collective, tmp_path: Path) -> None:
    network = mesh(3, 3)
    schedule = (
        synthesise_trees(network, demand(network, collective, 1e6), 12)
        if collective is Collective.ALL_REDUCE
        else synthesise(network, demand(network, collective, 1e6), restarts=1)
    )
    files = write_chakra(schedule, tmp_path / "trace")
    assert [file.name for file in files] == [f"trace.{npu}.et" for npu in range(9)]
    traces = [read_trace(file) for file in files]
    held, sent, arrived = at_first(schedule), {}, {}
    done: list[dict[int, float]] = [{} for _ in traces]
    seconds = network.seconds(schedule.demand.chunk_bytes)[0]
    moved = True
    while moved:  # as early as dependencies allow; a receipt ends a link's time after its send began
        moved = False
        for npu, trace in enumerate(traces):
            for node in trace:
                if node["id"] in done[npu] or not all(need in done[npu] for need in node["needs"]):
                    continue
                chunk, ready = int(node["name"].split()[2]), max((done[npu][n] for n in node["needs"]), default=0.0)
                pair = node.get("comm_src"), node.get("comm_dst"), node.get("comm_tag")
                if node["type"] == 5:
                    assert pair[0] == npu and pair not in sent and node["comm_size"] > 0
                    sent[pair] = ready + seconds, Counter(held[npu, chunk])
                    done[npu][node["id"]] = ready + seconds
                elif node["type"] == 6:
                    if pair not in sent:
                        continue
                    assert pair[1] == npu
                    arrived[node["id"]] = sent[pair][1]
                    done[npu][node["id"]] = max(ready, sent[pair][0])
                    if node["id"] + 1 not in {other["id"] for other in trace}:
                        held[npu, chunk] = arrived[node["id"]]
                else:
                    assert node["type"] == 4
                    held[npu, chunk] = held[npu, chunk] + arrived[node["id"] - 1]
                    done[npu][node["id"]] = ready
                moved = True
    assert [len(part) for part in done] == [len(trace) for trace in traces]
    assert_done(schedule, held)
    assert max(max(part.values()) for part in done) <= schedule.seconds * (1 + 1e-6)
