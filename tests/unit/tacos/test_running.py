# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A schedule that is run sums real tensors, and what is predicted for it counts whole packets."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import topologies
from traffic.collectives.job import Job, Op
from traffic.collectives.tacos.files import load, save
from traffic.collectives.tacos.naming import FRAME_BYTES, from_fabric
from traffic.collectives.tacos.network import mesh
from traffic.collectives.tacos.rank import contribution
from traffic.collectives.tacos.running import on_the_wire, pinned
from traffic.collectives.tacos.schedule import Collective, demand
from traffic.collectives.tacos.synthesis import synthesise
from traffic.collectives.tacos.trees import synthesise_trees
from traffic.transport.tolerance import Tolerance

ROOT = Path(__file__).resolve().parents[3]


def test_ranks_sum_whole_numbers_by_a_schedule_exactly(tmp_path: Path) -> None:
    network = mesh(3)
    schedule = synthesise_trees(network, demand(network, Collective.ALL_REDUCE, 1e6), 4)
    save(schedule, tmp_path / "schedule.npz")
    job = Job(
        number=7,
        workers=tuple(f"127.9.40.{1 + rank}" for rank in range(3)),
        collective=str(tmp_path / "schedule.npz"),
        op=Op.SUM,
        tolerance=Tolerance(push=0.0),
        patience=60.0,
        connect_timeout=60.0,
    )
    job.save(tmp_path / "job.json")
    command = [sys.executable, "-m", "traffic.collectives.tacos.rank", str(tmp_path / "job.json")]
    ranks = [
        subprocess.Popen([*command, str(rank), "20000", "2"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
        for rank in range(3)
    ]
    try:
        told = [json.loads(rank.communicate(timeout=120)[0]) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    assert [one["wrong"] for one in told] == [0, 0, 0]
    assert all(len(one["seconds"]) == 2 for one in told)


def test_contributions_differ_by_rank_and_round_and_are_whole() -> None:
    one, other, later = contribution(0, 0, 1000), contribution(1, 0, 1000), contribution(0, 1, 1000)
    assert not np.array_equal(one, other) and not np.array_equal(one, later)
    assert np.array_equal(one, np.rint(one)) and np.array_equal(one, contribution(0, 0, 1000))


def test_a_prediction_counts_whole_packets() -> None:
    network = mesh(2, bandwidth=1e6, latency=0.0)
    wanted = replace(demand(network, Collective.ALL_REDUCE, 1e6), chunks=1)
    schedule = synthesise_trees(network, wanted, 1)
    one, two = on_the_wire(schedule, 360), on_the_wire(schedule, 361)
    assert one.seconds == pytest.approx(2 * FRAME_BYTES / 1e6)
    assert two.seconds == pytest.approx(2 * one.seconds)
    both_ways = synthesise(network, demand(network, Collective.ALL_TO_ALL, 1e6))  # each has one half for the other
    assert on_the_wire(both_ways, 4 * 360).seconds == pytest.approx(2 * FRAME_BYTES / 1e6)


def test_sends_keep_to_the_ways_of_their_links(tmp_path: Path) -> None:
    network = from_fabric(topologies.load("leaf_spine"))
    schedule = pinned(synthesise(network, demand(network, Collective.ALL_REDUCE, 1e6), engine="trees"))
    save(schedule, tmp_path / "schedule.json")
    again = load(tmp_path / "schedule.json")
    assert again.path is not None and again.network.ways == network.ways
    spines = {1: "spine1", 2: "spine2"}
    across = np.flatnonzero(again.path)
    assert len(across)
    for send in across.tolist():
        assert spines[int(again.path[send])] in again.network.ways[again.link[send]].split()
    assert pinned(synthesise(mesh(2), demand(mesh(2), Collective.ALL_REDUCE, 1e6))).path is None
