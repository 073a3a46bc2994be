# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`python -m softswitch`: flags of simple_switch_grpc, fabrics in one process, and one clear line for every mistake."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import everything as e
import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4rt
from p4rt_messages import entity
from serving import DEADLINE_S, OPTIONS, Controller, free_address, running

from softswitch import __main__ as command
from softswitch import ctl
from softswitch.ctl import Client
from softswitch.errors import SettingsError
from softswitch.settings import PortSettings, QueueSettings, SwitchSettings, load_fabric


def settings(*arguments: str) -> Any:
    options, _ = command.parse(arguments)
    (switch,) = command.settings_of(options)
    return switch


def test_the_flags_of_the_p4lang_tutorials_are_known() -> None:
    switch = settings(
        "-i", "1@s1-eth1", "-i", "2@s1-eth2", "--pcap", "/pcaps", "--nanolog", "ipc:///tmp/log.ipc", "--device-id", "0",
        "build/prog.json", "--log-console", "--thrift-port", "9090", "--", "--grpc-server-addr", "0.0.0.0:50051",
        "--cpu-port", "255", "--priority-queues", "8",
    )  # fmt: skip
    assert switch == SwitchSettings(
        name="s0",
        device_id=0,
        grpc="0.0.0.0:50051",
        ports=(PortSettings(1, "s1-eth1"), PortSettings(2, "s1-eth2")),
        cpu_port=255,
        program="build/prog.json",
        pcap="/pcaps",
    )


def test_our_own_flags_set_the_traffic_manager() -> None:
    switch = settings(
        "--no-p4", "--name", "leaf1", "-i", "1@a", "--port-rate", "1=100M", "--queue-depth", "packets=64,bytes=10k",
        "--depth-register", "queue_depth=bytes/64", "--port-kind", "packet",
    )  # fmt: skip
    assert switch.name == "leaf1"
    assert switch.ports == (PortSettings(1, "a", 100_000_000, QueueSettings(64, 10_000), "packet"),)
    assert (switch.depth_register.name, switch.depth_register.unit) == ("queue_depth", "bytes/64")


def test_what_has_no_meaning_here_is_said() -> None:
    _, notices = command.parse(["--no-p4", "--thrift-port", "9090", "--log-flush"])
    assert len(notices) == 2 and all("ignored" in notice for notice in notices)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give a program"),
        (["prog.json", "--no-p4"], "not both"),
        (["--no-p4", "-i", "eth0"], "-i: 'eth0'"),
        (["--no-p4", "-i", "x@eth0"], "'x' is no number"),
        (["--no-p4", "-i", "1@a", "-i", "1@b"], "port number is given twice"),
        (["--no-p4", "-i", "1@a", "-i", "2@a"], "interface a is given twice"),
        (["--no-p4", "-i", "600@a"], "port 600"),
        (["--no-p4", "--port-rate", "1=1M"], "no port 1"),
        (["--no-p4", "--queue-depth", "cells=4"], "--queue-depth"),
        (["--no-p4", "--depth-register", "q=stones"], "depth unit"),
        (["--no-p4", "--priority-queues", "9"], "queues"),
        (["--no-p4", "--device-id", "-1"], "device id: -1 is not in 0..18446744073709551615"),
        (["--no-p4", "--device-id", str(1 << 64)], "device id"),
        (["--no-p4", "--drop-port", "-7"], "drop port -7 is not in 0..511"),
        (["--no-p4", "--drop-port", "512"], "drop port"),
        (["--no-p4", "-i", "1@a", "--port-rate", "1=99999999999999G"], "rate of port 1"),
        (["--no-p4", "-i", "1@a", "--queue-depth", "packets=5G"], "packets in the queues of port 1"),
        (["--no-p4", "-i", "1@a", "--queue-depth", "bytes=5G"], "bytes in the queues of port 1"),
        (["--no-p4", "--grpc-server-addr", "127.0.0.1:99999"], "no HOST:PORT"),
        (["--no-p4", "--grpc-server-addr", "nonsense"], "no HOST:PORT"),
        (["--no-p4", "--unknown-flag"], "unrecognized arguments"),
        (["--no-p4", "--grpc-server-ssl"], "--grpc-server-cert"),
        (["--fabric", "x.json", "--no-p4"], "--fabric says everything"),
        (["--fabric", "/no/such/file.json"], "No such file"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    printed = capsys.readouterr()
    assert words in printed.err and printed.err.count("\n") == 1 and not printed.out


FABRIC = {"name": "s1", "device_id": 1, "grpc": "127.0.0.1:50051", "ports": [{"port": 1, "interface": "a", "rate": 5}]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 5}, "switches[0].name: expected str"),
        ({"device_id": True}, "switches[0].device_id: expected a number"),
        ({"colour": "red"}, "switches[0]: unknown field 'colour'"),
        ({"ports": {}}, "switches[0].ports: expected a list"),
        ({"ports": [{"port": 1}]}, "switches[0].ports[0]: field 'interface' is missing"),
        ({"ports": [{"port": 1, "interface": "a", "queue": {"packets": "x"}}]}, "ports[0].queue.packets"),
        ({"depth_register": {"name": "q", "unit": "bytes/3"}}, "bytes/3"),
        ({"ports": [{"port": 1, "interface": "a", "rate": -5}]}, "rate of port 1: -5"),
        ({"cpu_port": 1}, "port number is given twice"),
        ({"state_file": "a\0b"}, "switches[0].state_file: a zero byte"),
    ],
)
def test_a_wrong_fabric_file_names_the_field(tmp_path: Path, change: Any, words: str) -> None:
    file = tmp_path / "switches.json"
    file.write_text(json.dumps({"switches": [{**FABRIC, **change}]}))
    with pytest.raises(SettingsError, match=words.replace("[", r"\[").replace("]", r"\]")):
        load_fabric(file)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"switches": []}', '{"switches": [], "more": 1}', "\xff", "[" * 100_000]
)
def test_a_file_that_is_no_fabric_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "switches.json"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError):
        load_fabric(file)


def test_a_fabric_file_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "switches.json"
    file.write_text(json.dumps({"switches": [{**FABRIC, "program": None, "pcap": None, "cpu_port": 510}]}))
    (switch,) = load_fabric(file)
    assert switch == SwitchSettings("s1", 1, "127.0.0.1:50051", (PortSettings(1, "a", 5),), cpu_port=510)


def failing(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a switch that cannot start; it must say so in one line with exit code 1."""
    result = subprocess.run(
        [sys.executable, "-m", "softswitch", *arguments],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S * 2,
        check=False,
        env={**os.environ, **environment},
    )
    assert result.returncode == 1 and not result.stdout, result
    assert result.stderr.startswith("softswitch: ") and result.stderr.count("\n") == 1, result.stderr
    return result


def test_what_fails_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text('{"program":')
    assert "broken.json" in failing(str(broken), "--grpc-server-addr", free_address()).stderr
    broken.write_text("[" * 100_000)
    assert "broken.json: not JSON" in failing(str(broken), "--grpc-server-addr", free_address()).stderr
    assert "missing.json" in failing(str(tmp_path / "missing.json"), "--grpc-server-addr", free_address()).stderr
    interface = failing("--no-p4", "-i", "1@no-such-if0", "--grpc-server-addr", free_address())
    assert "no-such-if0" in interface.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert address in failing("--no-p4", "--grpc-server-addr", address).stderr
    compiler = failing("--no-p4", "--grpc-server-addr", free_address(), CC="no-such-cc", GRADLANE_CACHE=str(tmp_path))
    assert "no-such-cc" in compiler.stderr


def test_a_p4info_that_is_none_is_named_with_exit_code_1(tmp_path: Path, program_files: tuple[Path, Path]) -> None:
    p4info = tmp_path / "p4info.txtpb"
    for content in (b"tables { preamble {", bytes(range(256))):
        p4info.write_bytes(content)
        said = failing(str(program_files[0]), "--p4info", str(p4info), "--grpc-server-addr", free_address()).stderr
        assert f"{p4info}: " in said and "P4Info" in said


def test_a_program_on_the_command_line_is_served_with_the_p4info_beside_it(program_files: tuple[Path, Path]) -> None:
    address = free_address()
    with running(str(program_files[0]), "--grpc-server-addr", address), Controller(address) as controller:
        found = controller.read(entity(p4rt.TableEntry(table_id=e.CONSTANT)))
        assert len(found) == 1


def fabric_file(path: Path, count: int) -> tuple[Path, list[str]]:
    addresses = [free_address() for _ in range(count)]
    switches = [
        {"name": f"s{place}", "device_id": place, "grpc": address, "ports": [], "cpu_port": 510}
        for place, address in enumerate(addresses, 1)
    ]
    file = path / "switches.json"
    file.write_text(json.dumps({"switches": switches}))
    return file, addresses


def test_a_fabric_answers_on_every_port_and_stops_one_by_one(tmp_path: Path) -> None:
    file, addresses = fabric_file(tmp_path, 5)
    with running("--fabric", str(file)) as process:
        clients = [Client(address) for address in addresses]
        answers = [client.call("GetSwitch") for client in clients]
        assert [answer.name for answer in answers] == ["s1", "s2", "s3", "s4", "s5"]
        assert {answer.process for answer in answers} == {process.pid}
        states = clients[2].watch_ports()
        assert next(states).port == 510
        clients[2].call("Stop")
        assert next(states, None) is None
        assert [clients[place].call("GetSwitch").name for place in (0, 1, 3, 4)] == ["s1", "s2", "s4", "s5"]
        for place in (0, 1, 3, 4):
            clients[place].call("Stop")
        assert process.wait(DEADLINE_S) == 0
        for client in clients:
            client.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    file, addresses = fabric_file(tmp_path, 2)
    with running("--fabric", str(file)) as process, Controller(addresses[0]) as controller:
        controller.become_primary()
        process.send_signal(number)
        assert process.wait(DEADLINE_S) == 0
        with grpc.insecure_channel(addresses[1], options=OPTIONS) as channel, pytest.raises(grpc.RpcError):
            channel.unary_unary("/p4.v1.P4Runtime/Capabilities")(b"", timeout=60)


def certificate(directory: Path, name: str, *more: str) -> tuple[Path, Path]:
    """Make a key and a certificate with openssl; returns (certificate, key)."""
    files = directory / f"{name}.pem", directory / f"{name}.key"
    command_line = [
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1",
        "-subj", f"/CN={name}", "-out", str(files[0]), "-keyout", str(files[1]), *more,
    ]  # fmt: skip
    subprocess.run(command_line, check=True, capture_output=True)
    return files


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not on PATH")
def test_tls_serves_clients_that_prove_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server = certificate(tmp_path, "localhost", "-addext", "subjectAltName=DNS:localhost")
    client = certificate(tmp_path, "controller")
    address = free_address().replace("127.0.0.1", "localhost")
    flags = ["--grpc-server-ssl", "--grpc-server-cert", str(server[0]), "--grpc-server-key", str(server[1])]
    mutual = ["--grpc-server-cacert", str(client[0]), "--grpc-server-with-client-auth"]

    def answers(credentials: Any) -> bool:
        with grpc.secure_channel(address, credentials, options=OPTIONS) as channel:
            try:
                channel.unary_unary("/p4.v1.P4Runtime/Capabilities")(b"", timeout=60)
            except grpc.RpcError:
                return False
            return True

    other = certificate(tmp_path, "other")
    empty = tmp_path / "empty.pem"
    empty.touch()
    for changed, said in (
        ([*flags, "--grpc-server-key", str(other[1])], "do not belong together"),
        ([*flags, "--grpc-server-cert", str(empty)], "empty.pem, key "),
        ([*flags, "--grpc-server-key", str(tmp_path / "none.key")], "No such file"),
        ([*flags, *mutual, "--grpc-server-cacert", str(empty)], "authority"),
        ([*flags, "--grpc-server-with-client-auth"], "no authority is named"),
    ):
        assert command.main(["--no-p4", "--grpc-server-addr", address, *changed]) == 2
        printed = capsys.readouterr().err
        assert said in printed and printed.count("\n") == 1
    trusting = grpc.ssl_channel_credentials(server[0].read_bytes())
    proving = grpc.ssl_channel_credentials(server[0].read_bytes(), client[1].read_bytes(), client[0].read_bytes())
    with running("--no-p4", "--grpc-server-addr", address, *flags):
        assert answers(trusting)
    with running("--no-p4", "--grpc-server-addr", address, *flags, *mutual):
        assert answers(proving) and not answers(trusting)
        proof = ["--cacert", str(server[0]), "--cert", str(client[0]), "--key", str(client[1])]
        assert ctl.main(["--switch", address, *proof, "status"]) == 0
        assert ctl.main(["--switch", address, "status"]) == 1
    assert ctl.main(["--switch", address, "--cacert", str(tmp_path / "none.pem"), "status"]) == 2
    assert "none.pem: No such file" in capsys.readouterr().err
