# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Whole fabrics with the default policy: every host reaches every other, and again after a link is cut."""

from pathlib import Path
from queue import SimpleQueue
from subprocess import PIPE

import pytest

import topologies
from controller.reconcile import Controller, install
from controller.reroute import Rerouted, Rerouter
from topologies import Fabric, schema
from topologies.builders import build
from topologies.mininet_fabric import MininetFabric

pytestmark = pytest.mark.fabric

DEADLINE = 60.0
PING = "for a in $*; do ping -q -n -c 1 -W 20 $a >/dev/null || echo $a; done"


def unreached(net: MininetFabric) -> dict[str, str]:
    """Return, for each host that could not ping all others over IPv4 and IPv6, the addresses that did not answer."""
    everybody = [address for host in net.fabric.hosts for address in (host.ipv4, host.ipv6)]
    pings = {
        name: host.popen(["sh", "-c", PING, "ping", *everybody], stdout=PIPE, text=True)
        for name, host in net.hosts.items()
    }
    missing = {name: ping.communicate(timeout=DEADLINE)[0].split() for name, ping in pings.items()}
    return {name: " ".join(addresses) for name, addresses in missing.items() if addresses}


class Reactions:
    """What a rerouter told, to be waited for."""

    def __init__(self) -> None:
        self._told: SimpleQueue[Rerouted] = SimpleQueue()

    def __call__(self, reaction: Rerouted) -> None:
        self._told.put(reaction)

    def until(self, failed: set[frozenset[str]], dead: set[str]) -> None:
        """Wait until the rerouter has dealt with just these failures."""
        reaction = self._told.get(timeout=DEADLINE)
        while (reaction.failed, reaction.dead) != (failed, dead):
            reaction = self._told.get(timeout=DEADLINE)
        assert not reaction.errors


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "fabric",
    [
        topologies.load("leaf_spine"),
        build(schema.FatTree(k=4, hosts_per_edge=1), name="fat_tree"),
        topologies.load("torus"),
        topologies.load("dumbbell"),
    ],
    ids=lambda fabric: fabric.name,
)
def test_every_host_reaches_every_other(fabric: Fabric, tmp_path: Path) -> None:
    with MininetFabric(fabric, instance=None, state_path=tmp_path / "fabric.json", logs=tmp_path) as net:
        install(net.state_path, "dlcp")
        assert unreached(net) == {}


@pytest.mark.timeout(240)
def test_traffic_finds_its_way_around_a_cut_link_and_a_stopped_switch(tmp_path: Path) -> None:
    fabric = topologies.load("leaf_spine")
    with MininetFabric(fabric, instance=None, state_path=tmp_path / "fabric.json", logs=tmp_path) as net:
        install(net.state_path, "dlcp")
        reactions = Reactions()
        with Rerouter(Controller.find(net.state_path), reactions):
            net.link_down("leaf1", "spine1")
            reactions.until({frozenset(("leaf1", "spine1"))}, set())
            assert unreached(net) == {}
            net.link_up("leaf1", "spine1")
            reactions.until(set(), set())
            net.stop_switch("spine2")
            reactions.until(set(), {"spine2"})
            assert unreached(net) == {}
            net.start_switch("spine2")
            reactions.until(set(), set())
            net.link_down("leaf2", "spine1")
            reactions.until({frozenset(("leaf2", "spine1"))}, set())
            assert unreached(net) == {}
