# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""gradctl on a fabric that runs: policies on every target that is present, and switches that stop answering."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import topologies
from controller import policy
from controller.cli import app, run
from controller.p4rt.entities import Call, Default
from controller.reconcile import Controller, install
from controller.reroute import Rerouted, Rerouter
from topologies.mininet_fabric import MininetFabric

pytestmark = [pytest.mark.fabric, pytest.mark.timeout(240)]

DEADLINE = 60.0
BMV2 = pytest.param(
    "bmv2", marks=pytest.mark.skipif(shutil.which("simple_switch_grpc") is None, reason="no simple_switch_grpc on PATH")
)
TARGETS = ["softswitch", BMV2]
PING = "for a in $*; do ping -q -n -c 1 -W 20 $a >/dev/null || echo $a; done"


@pytest.fixture(scope="module", params=TARGETS)
def net(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MininetFabric]:
    folder = tmp_path_factory.mktemp(request.param)
    options = {"instance": None, "state_path": folder / "fabric.json", "logs": folder}
    with MininetFabric(topologies.load("leaf_spine"), request.param, **options) as running:
        yield running


def gradctl(net: MininetFabric, *arguments: str) -> tuple[int, str, str]:
    """Return a gradctl command's exit code and what it printed and complained."""
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        code = run(app, [*arguments, "--fabric-state", str(net.state_path)])
    return code, out.getvalue(), err.getvalue()


def read(net: MininetFabric, *arguments: str) -> Any:
    code, out, err = gradctl(net, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def unreached(net: MininetFabric, source: str) -> list[str]:
    """Return the addresses that do not answer a host's pings."""
    everybody = [address for host in net.fabric.hosts for address in (host.ipv4, host.ipv6)]
    ping = net.hosts[source].popen(["sh", "-c", PING, "ping", *everybody], stdout=subprocess.PIPE, text=True)
    return list(ping.communicate(timeout=DEADLINE)[0].split())


def test_every_policy_installs_is_idempotent_and_carries_traffic(net: MininetFabric) -> None:
    for name in sorted(file.stem for file in policy.POLICY_FOLDER.glob("*.yaml")):
        assert install(net.state_path, name).changed > 0
        assert install(net.state_path, name).changed == 0
        assert unreached(net, "h1") == []
    assert read(net, "policy", "rollback")["policy"] == "fifo"


def test_gradctl_tells_of_the_fabric(net: MininetFabric) -> None:
    install(net.state_path, "dlcp")
    assert unreached(net, "h1") == []
    status = read(net, "status")
    assert (status["policy"], status["links_down"]) == ("dlcp", [])
    assert {switch["differences"] for switch in status["switches"].values()} == {0}
    sent = {(queue["switch"], queue["neighbour"]) for queue in read(net, "queues") if queue["sent_packets"]}
    assert {("leaf1", "h2"), ("leaf2", "h8")} <= sent
    assert {path["switch"] for path in read(net, "paths")} == {"leaf1", "leaf2"}
    # Hosts may have spoken before the switches had a program.
    assert {drop["reason"] for drop in read(net, "drops")} <= {"ttl", "no_route", "no_program"}
    assert read(net, "entries", "spine1")["spine1"]


def test_a_default_action_that_somebody_changed_is_put_right(net: MininetFabric) -> None:
    install(net.state_path, "dlcp")
    with Controller.find(net.state_path).device("spine1") as device:
        device.connection.write([("insert", Default("punt", Call("drop_by_policy")))], device.program.encoder)
    assert read(net, "status")["switches"]["spine1"]["differences"] == 1
    assert install(net.state_path, "dlcp").changed == 1
    assert read(net, "status")["switches"]["spine1"]["differences"] == 0
    assert unreached(net, "h1") == []


def test_a_cut_link_is_routed_around(net: MininetFabric) -> None:
    if net.running.target == "bmv2":
        pytest.skip("BMv2 receives nothing on any port once one of its interfaces went down")
    install(net.state_path, "dlcp")
    told: SimpleQueue[Rerouted] = SimpleQueue()
    with Rerouter(Controller.find(net.state_path), told.put):
        net.link_down("leaf2", "spine1")
        while told.get(timeout=DEADLINE).failed != {frozenset(("leaf2", "spine1"))}:
            pass
        assert unreached(net, "h1") == []
        assert read(net, "status")["links_down"] == ["leaf2-spine1"]
        # What is applied meanwhile goes around the link, too.
        assert read(net, "policy", "apply")["switches"]["leaf1"]["changed"] == 0
        net.link_up("leaf2", "spine1")
        while told.get(timeout=DEADLINE).failed:
            pass
        assert unreached(net, "h1") == []


def test_a_switch_that_hangs_is_named_within_the_deadline(tmp_path: Path) -> None:
    options: dict[str, Any] = {"instance": None, "state_path": tmp_path / "fabric.json", "logs": tmp_path}
    with MininetFabric(topologies.load("dumbbell"), "softswitch", isolated=True, **options) as net:
        install(net.state_path, "dlcp")
        name, switch = next(iter(net.running.switches.items()))
        assert switch.process is not None
        os.kill(switch.process.pid, signal.SIGSTOP)
        try:
            code, _, err = gradctl(net, "policy", "apply", "fifo", "--deadline", "1")
        finally:
            os.kill(switch.process.pid, signal.SIGCONT)
        assert code == 1
        assert f"1 of 2 switches did not take policy fifo: {name}: no" in err
        assert err.count("\n") == 1
        assert read(net, "policy", "apply", "fifo")["switches"][name]["changed"] > 0
