# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What stops a fabric before it starts: no root, a program that is missing, a target that nobody knows."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

import topologies
from topologies import FailureError, UsageError, schema
from topologies.builders import build
from topologies.mininet_fabric import MininetFabric
from topologies.runners import Bmv2Runner, SoftswitchRunner, SwitchProcess
from topologies.runners.base import Run


def a_run(fabric: topologies.Fabric, folder: Path, isolated: bool = False) -> Run:
    return Run(mark=0x67000001, fabric=fabric, files=folder / "files", logs=folder / "logs", isolated=isolated)


def test_without_root_a_fabric_asks_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    fabric = MininetFabric(topologies.load("single"), state_path=tmp_path / "f.json")
    with pytest.raises(UsageError, match="needs root; run it with sudo"), fabric:
        pass
    assert list(tmp_path.iterdir()) == []


def test_missing_mininet_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fabric = MininetFabric(topologies.load("single"), state_path=tmp_path / "f.json")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "which", lambda name: None)
        with pytest.raises(FailureError, match="mnexec is missing; install the package `mininet`"), fabric:
            pass
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setitem(sys.modules, "mininet", None)
    monkeypatch.setitem(sys.modules, "mininet.net", None)
    with pytest.raises(FailureError, match="cannot import mininet; install the package"), fabric:
        pass


def test_an_unknown_target_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="no target 'tofino'; it is one of softswitch, bmv2"):
        MininetFabric(topologies.load("single"), target="tofino")


def test_bmv2_without_its_program_says_what_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(FailureError, match="needs simple_switch_grpc on PATH"):
        Bmv2Runner(a_run(topologies.load("single"), tmp_path)).check()


class Recorded(SoftswitchRunner):
    """Records what would be started."""

    def launch(self, switches: object, arguments: object, log: Path) -> SwitchProcess:
        self.launched = [*getattr(self, "launched", []), (switches, arguments, log)]
        return None  # type: ignore[return-value]


def test_softswitches_share_a_process_unless_isolated(tmp_path: Path) -> None:
    fabric = topologies.load("leaf_spine")
    together, apart = Recorded(a_run(fabric, tmp_path)), Recorded(a_run(fabric, tmp_path, isolated=True))
    together.start()
    apart.start()
    assert [switches for switches, _, _ in together.launched] == [["leaf1", "leaf2", "spine1", "spine2"]]
    assert [switches for switches, _, _ in apart.launched] == [["leaf1"], ["leaf2"], ["spine1"], ["spine2"]]
    assert [log.name for _, _, log in apart.launched] == ["leaf1.log", "leaf2.log", "spine1.log", "spine2.log"]


def test_softswitches_are_told_ports_rates_and_queues(tmp_path: Path) -> None:
    queue = schema.Queue(packets=50, bytes=75000, classes={7: schema.Depth(packets=9)})
    link = schema.LinkSettings(rate=10_000_000, queue=queue)
    fabric = build(schema.Single(hosts=2, host_link=link), name="one")
    Recorded(a_run(fabric, tmp_path)).start()
    (switch,) = json.loads((tmp_path / "files" / "switches.json").read_text())["switches"]
    assert (switch["name"], switch["device_id"], switch["grpc"]) == ("s1", 1, "127.0.0.1:50051")
    assert (switch["cpu_port"], switch["queues"]) == (510, 8)
    assert [port["interface"] for port in switch["ports"]] == ["s1-eth1", "s1-eth2"]
    assert switch["ports"][0]["rate"] == 10_000_000
    assert switch["ports"][0]["queue"] == {"packets": 50, "bytes": 75000}


def test_an_unlimited_link_has_rate_0_at_the_softswitch(tmp_path: Path) -> None:
    fabric = build(schema.Single(hosts=1, host_link=schema.LinkSettings()), name="one")
    Recorded(a_run(fabric, tmp_path)).start()
    (switch,) = json.loads((tmp_path / "files" / "switches.json").read_text())["switches"]
    assert switch["ports"][0]["rate"] == 0


def test_a_delay_is_refused_where_it_could_not_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    fabric = build(schema.Single(hosts=1, host_link=schema.LinkSettings(delay="1ms")), name="slow")  # type: ignore[arg-type]
    refused = MininetFabric(fabric, instance=None, state_path=tmp_path / "f.json")
    with pytest.raises(FailureError, match="link s1-h1 has a delay, and the softswitch cannot make one"), refused:
        pass
    assert list(tmp_path.iterdir()) == []


def test_bmv2s_thrift_ports_follow_its_grpc_ports(tmp_path: Path) -> None:
    fabric = topologies.load("leaf_spine")
    runners = [Bmv2Runner(a_run(one, tmp_path)) for one in (fabric, fabric.instance("g1-", 50307))]
    ports = [runner.thrift_port(switch.name) for runner in runners for switch in fabric.switches]
    assert ports == [9090, 9091, 9092, 9093, 9346, 9347, 9348, 9349]
