# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A fabric of softswitches, before any program is loaded: ports as the topology says, links noticed, deaths told."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from p4src.control import control_pb2
from topologies import Fabric, FailureError, UsageError, processes, schema
from topologies.builders import build
from topologies.mininet_fabric import MininetFabric
from topologies.stop import clear_run

pytestmark = pytest.mark.fabric

DEADLINE = 60.0


def small() -> Fabric:
    queue = schema.Queue(packets=100, bytes=150_000, classes={7: schema.Depth(packets=10)})
    link = schema.LinkSettings(rate=50_000_000, reverse_rate=20_000_000, queue=queue)
    return build(schema.LeafSpine(leaves=2, spines=1, hosts_per_leaf=1, fabric_link=link), name="small")


@contextmanager
def control(net: MininetFabric, switch: str) -> Iterator[Any]:
    """Yield a function that calls a method of a switch's control channel."""
    with grpc.insecure_channel(net.switch_addresses[switch]) as channel:

        def call(method: str, request: Any, answer: Any) -> Any:
            path = f"/gradlane.softswitch.v1.Control/{method}"
            return channel.unary_unary(path, response_deserializer=answer.FromString)(
                request.SerializeToString(), timeout=DEADLINE
            )

        yield call


def ports_of(net: MininetFabric, switch: str) -> list[Any]:
    with control(net, switch) as call:
        answer = call("GetPorts", control_pb2.GetPortsRequest(), control_pb2.GetPortsResponse)
    return [port for port in answer.ports if port.kind != "cpu"]


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MininetFabric]:
    folder = tmp_path_factory.mktemp("softswitch")
    with MininetFabric(small(), instance=None, state_path=folder / "fabric.json", logs=folder) as net:
        yield net


def test_every_switch_has_its_ports_up(net: MininetFabric) -> None:
    for switch in net.fabric.switches:
        ports = {port.port: port for port in ports_of(net, switch.name)}
        assert {number: port.interface for number, port in ports.items()} == {
            port.number: port.interface for port in net.fabric.ports(switch.name)
        }
        assert all(port.up for port in ports.values())


def test_rates_are_those_of_each_direction(net: MininetFabric) -> None:
    assert ports_of(net, "leaf1")[1].rate == 50_000_000
    assert {port.rate for port in ports_of(net, "spine1")} == {20_000_000}


def test_queues_are_as_deep_as_the_topology_says_class_by_class(net: MininetFabric) -> None:
    queues = {queue.queue: (queue.packets, queue.bytes) for queue in ports_of(net, "leaf1")[1].queues}
    assert queues == {**dict.fromkeys(range(7), (100, 150000)), 7: (10, 0)}


def test_all_switches_share_one_process(net: MininetFabric) -> None:
    assert len({switch.process for switch in net.running.switches.values()}) == 1


def test_a_switch_notices_that_a_link_is_cut_and_mended(net: MininetFabric) -> None:
    with grpc.insecure_channel(net.switch_addresses["spine1"]) as channel:
        watch = channel.unary_stream(
            "/gradlane.softswitch.v1.Control/WatchPorts", response_deserializer=control_pb2.PortState.FromString
        )(b"", timeout=DEADLINE)
        for state in watch:  # the present state of every port comes first
            if state.port == 2:
                break
        net.link_down("leaf2", "spine1")
        changed = next(state for state in watch if state.port == 2)
        assert not changed.up
        net.link_up("leaf2", "spine1")
        changed = next(state for state in watch if state.port == 2)
        assert changed.up
        watch.cancel()


def test_a_switch_is_stopped_and_started_alone(net: MininetFabric) -> None:
    net.stop_switch("spine1")
    net.check()
    assert net.running.switches["spine1"].process is None
    with pytest.raises(UsageError, match="spine1 does not run"):
        net.stop_switch("spine1")
    assert ports_of(net, "leaf1")
    net.start_switch("spine1")
    with pytest.raises(UsageError, match="spine1 runs already"):
        net.start_switch("spine1")
    assert all(port.up for port in ports_of(net, "spine1"))
    assert len({switch.process for switch in net.running.switches.values()}) == 2


def test_isolated_switches_die_alone(tmp_path: Path) -> None:
    told = threading.Event()
    with MininetFabric(
        small(), isolated=True, instance=None, state_path=tmp_path / "fabric.json", logs=tmp_path
    ) as net:
        net.on_switch_death(lambda process: told.set())
        victim = net.running.switches["leaf2"].process
        assert victim is not None
        processes.end([victim], first=signal.SIGKILL)
        assert told.wait(DEADLINE)
        with pytest.raises(FailureError, match="the process of leaf2 was killed by signal 9"):
            net.check()
        assert ports_of(net, "leaf1") and ports_of(net, "spine1")
        net.start_switch("leaf2")
        net.check()
        assert ports_of(net, "leaf2")
    assert processes.marked(net.running.run) == []


def test_a_switch_that_cannot_start_says_why_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADLANE_CACHE", "/proc/no/such/folder")
    fabric = MininetFabric(small(), instance=None, state_path=tmp_path / "fabric.json", logs=tmp_path)
    with pytest.raises(FailureError, match="exited with .*softswitch.*: ") as caught, fabric:
        pass
    assert "\n" not in str(caught.value)
    assert processes.marked(fabric.running.run) == []
    assert not (tmp_path / "fabric.json").exists()


def test_a_second_interrupt_does_not_cut_the_clearing_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "fabric.json"

    def interrupted(run: int) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGTERM)
        clear_run(run)

    monkeypatch.setattr("topologies.mininet_fabric.clear_run", interrupted)
    with (
        pytest.raises(KeyboardInterrupt),
        MininetFabric(small(), instance=None, state_path=file, logs=tmp_path) as net,
    ):
        run = net.running.run
        raise KeyboardInterrupt
    assert not file.exists()
    assert processes.marked(run) == []
