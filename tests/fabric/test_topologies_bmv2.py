# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A fabric of BMv2s: the rates are in the kernel behind them; with the real program, every host reaches every other."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from holding_runner import PROGRAM as HOLDING

import topologies
from controller.reconcile import install
from topologies import FailureError, processes, schema
from topologies.builders import build
from topologies.mininet_fabric import MininetFabric
from topologies.runners.bmv2 import PROGRAM, THRIFT_CLIENT

pytestmark = pytest.mark.fabric


def stand_in(folder: Path, name: str, text: str) -> None:
    file = folder / name
    file.write_text(f"#!{sys.executable}\n{text}")
    file.chmod(0o755)


@pytest.fixture
def stand_ins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Programs of BMv2's names: one holds its gRPC port, one notes what it is told."""
    text = HOLDING.replace("sys.argv[1:]", "[a.partition('=')[2] for a in sys.argv if a.startswith('--grpc-server')]")
    stand_in(tmp_path, PROGRAM, f"import sys\nprint(*sys.argv[1:], flush=True)\n{text}")
    stand_in(tmp_path, THRIFT_CLIENT, f"import sys\nopen('{tmp_path}/told', 'a').write(sys.stdin.read())\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def small() -> topologies.Fabric:
    link = schema.LinkSettings(rate=50_000_000, queue=schema.Queue(packets=300, classes={7: schema.Depth(packets=9)}))
    return build(schema.Dumbbell(left=1, right=1, fabric_link=link), name="small")


def test_rates_are_token_buckets_behind_the_switches_and_queues_are_set_through_thrift(stand_ins: Path) -> None:
    state_path = stand_ins / "fabric.json"
    with MininetFabric(small(), "bmv2", instance=None, state_path=state_path, logs=stand_ins) as net:
        s1 = net.running.switches["s1"]
        command = Path(s1.log).read_text().splitlines()[0]
        ports = [port.interface for port in net.fabric.ports("s1")]
        assert command.startswith(
            f"--no-p4 --device-id 1 --log-console --log-level warn -i 1@{ports[0]} -i 2@{ports[1]}"
        )
        assert command.endswith(
            f"--thrift-port {s1.thrift_port} -- --grpc-server-addr={s1.grpc_address} --cpu-port=510 --priority-queues=8"
        )
        rates = [
            subprocess.run(["tc", "qdisc", "show", "dev", p], capture_output=True, text=True).stdout for p in ports
        ]
        assert ["rate 100Mbit" in rates[0], "rate 50Mbit" in rates[1]] == [True, True]
        told = (stand_ins / "told").read_text().splitlines()
        assert {"set_queue_depth 300 2 6", "set_queue_depth 9 2 7", "set_queue_depth 256 1 7"} <= set(told)
        net.stop_switch("s2")
        net.start_switch("s2")
        net.check()
    assert processes.marked(net.running.run) == []


def test_a_thrift_client_that_fails_is_named_with_its_reason(stand_ins: Path) -> None:
    stand_in(stand_ins, THRIFT_CLIENT, "import sys\nsys.stdin.read()\nprint('Error: bad port')\n")
    fabric = MininetFabric(small(), "bmv2", instance=None, state_path=stand_ins / "fabric.json", logs=stand_ins)
    with pytest.raises(FailureError, match="cannot set the queue depths of switch s1: Error: bad port"), fabric:
        pass
    assert processes.marked(fabric.running.run) == []


@pytest.mark.timeout(240)
@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not on PATH")
def test_every_host_reaches_every_other_over_bmv2(tmp_path: Path) -> None:
    fabric = topologies.load("leaf_spine")
    with MininetFabric(fabric, "bmv2", instance=None, state_path=tmp_path / "fabric.json", logs=tmp_path) as net:
        install(net.state_path, "dlcp")
        for source in fabric.hosts:
            for target in (fabric.hosts[0], fabric.hosts[-1]):
                for address in (target.ipv4, target.ipv6):
                    net.hosts[source.name].run(["ping", "-n", "-q", "-c", "1", "-W", "5", address])
