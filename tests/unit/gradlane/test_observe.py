# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the switches counted between two moments becomes shares, drops and delays by name."""

from dataclasses import replace

import numpy as np
import pytest

import topologies
from controller import policy as policies
from controller.telemetry import FAULTS, REASONS, ProgramCounts
from gradlane.observe import Interval, Snapshot, classifier
from traffic.replay.summary import Kind
from traffic.wire import GradientType

FABRIC = topologies.load("leaf_spine")


def counts(switch: str) -> ProgramCounts:
    def zeros(*shape: int) -> np.ndarray:
        return np.zeros((64, 8, *shape), np.int64)

    return ProgramCounts(
        switch=switch,
        received=zeros(),
        kept=zeros(),
        marked=zeros(),
        trimmed=zeros(),
        dropped=zeros(len(REASONS), 8),
        kept_band=zeros(8),
        delays=zeros(64),
        faults=np.zeros(len(FAULTS), np.int64),
    )


def interval(**changes: ProgramCounts) -> Interval:
    before = {switch.name: counts(switch.name) for switch in FABRIC.switches}
    return Interval(FABRIC, Snapshot(before, {}), Snapshot({**before, **changes}, {}))


def index_towards(switch: str, neighbour: str) -> int:
    return FABRIC.port(switch, FABRIC.port_of(switch, neighbour)).index


def test_shares_count_what_was_kept_marked_or_trimmed_towards_each_next_hop() -> None:
    leaf = counts("leaf1")
    leaf.kept[index_towards("leaf1", "spine1"), 6] = 20
    leaf.marked[index_towards("leaf1", "spine1"), 5] = 10
    leaf.trimmed[index_towards("leaf1", "spine2"), 6] = 10
    leaf.kept[index_towards("leaf1", "h1"), 6] = 1000
    assert interval(leaf1=leaf).paths("h5") == {"leaf1": {"spine1": 0.75, "spine2": 0.25}}


def test_switches_that_sent_nothing_or_had_no_choice_have_no_shares() -> None:
    spine = counts("spine1")
    spine.kept[:] = 5
    assert interval(spine1=spine).paths("h5") == {}
    assert interval(spine1=spine).paths("h1") == {}


def test_drops_are_those_of_the_interval_by_reason() -> None:
    before, after = {"importance": 5}, {"importance": 12, "full": 1, "tail": 3}
    drops = Interval(FABRIC, Snapshot({}, before), Snapshot({}, after)).drops()
    assert (drops["importance"], drops["full"], drops["tail"], drops["ttl"]) == (7, 1, 3, 0)
    assert "none" not in drops


def test_delays_are_those_of_the_interval_by_class() -> None:
    leaf = counts("leaf2")
    port = FABRIC.port("leaf2", FABRIC.port_of("leaf2", "h5"))
    leaf.delays[port.index, 6, 25] = 100  # 1024 to 1280 us
    found = interval(leaf2=leaf).delays(port)
    assert list(found) == [6]
    assert 1024 <= found[6].p50 <= found[6].p99 <= 1280
    assert found[6].packets == 100
    same = Snapshot({"leaf2": leaf}, {})
    assert Interval(FABRIC, same, same).delays(port) == {}


def test_the_congested_link_is_where_most_was_dropped() -> None:
    leaf, spine = counts("leaf2"), counts("spine1")
    leaf.dropped[index_towards("leaf2", "h5"), 6, REASONS.index("importance"), 0] = 5
    spine.dropped[index_towards("spine1", "leaf2"), 6, REASONS.index("full"), 3] = 2
    port = interval(leaf2=leaf, spine1=spine).congested()
    assert (port.switch, port.peer.node) == ("leaf2", "h5")
    spine.trimmed[index_towards("spine1", "leaf2"), 6] = 4
    assert interval(leaf2=leaf, spine1=spine).congested().switch == "spine1"


def test_without_losses_the_busiest_link_counts_as_congested() -> None:
    leaf = counts("leaf2")
    leaf.kept[index_towards("leaf2", "h6"), 6] = 9
    assert interval(leaf2=leaf).congested().peer.node == "h6"


DATA = Kind(gradient=True, job=1, type=GradientType.DATA, layer=0, dscp=0)


@pytest.mark.parametrize(
    ("kind", "class_"),
    [
        (DATA, 6),
        (replace(DATA, layer=1), 5),
        (replace(DATA, layer=3), 4),
        (replace(DATA, layer=999), 1),
        (replace(DATA, type=GradientType.STOP, layer=999), 7),
        (replace(DATA, type=GradientType.REPORT), 7),
        (replace(DATA, type=GradientType.TRIMMED), 7),
        (Kind(gradient=False, job=0, type=0, layer=0, dscp=46), 6),
        (Kind(gradient=False, job=0, type=0, layer=0, dscp=0), 0),
    ],
)
def test_classes_are_those_of_the_policy(kind: Kind, class_: int) -> None:
    assert classifier(policies.load("dlcp"))(kind) == class_


def test_a_policy_without_classes_has_class_0() -> None:
    assert classifier(policies.load("fifo"))(DATA) == 0
