# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The control channel: its contract, its calls on a served switch, and `softswitchctl`."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from p4.v1 import p4runtime_pb2 as p4rt
from p4rt_messages import frame
from serving import DEADLINE_S, code_of, free_address

from p4src.control import generate, telemetry
from softswitch import ctl
from softswitch.native import ffi
from softswitch.p4runtime.control import Control
from softswitch.p4runtime.server import SwitchServer
from softswitch.switch import Switch, delay_bucket_bounds


@pytest.mark.skipif(not generate.is_possible(), reason="protoc 3.21 is not on PATH")
def test_the_generated_code_is_that_of_the_contract() -> None:
    for name, text in generate.generate().items():
        assert (generate.HERE / name).read_text() == text, "run `python -m p4src.control.generate`"


def fields_of(ctype: str) -> list[tuple[str, int, int]]:
    return [(name, field.offset, ffi().sizeof(field.type)) for name, field in ffi().typeof(ctype).fields]


def fields_in(dtype: Any, skip: int = 0) -> list[tuple[str, int, int]]:
    return [
        (name, dtype.fields[name][1] - skip, dtype.fields[name][0].itemsize) for name in dtype.names if name != "port"
    ]


def test_the_packed_records_are_the_engines() -> None:
    assert fields_in(telemetry.QUEUE) == fields_of("struct ss_queue_stats")
    assert fields_in(telemetry.PORT, skip=8) == fields_of("struct ss_port_stats")
    assert fields_in(telemetry.DROPS) == fields_of("struct ss_drop_stats")
    assert telemetry.PORT.itemsize == 8 + ffi().sizeof("struct ss_port_stats")


def test_the_delay_buckets_are_the_engines() -> None:
    lower = [delay_bucket_bounds(bucket)[0] for bucket in range(telemetry.DELAY_BUCKETS)]
    np.testing.assert_array_equal(telemetry.delay_bounds_us(), lower)


@pytest.fixture
def client(switch: Switch) -> Iterator[ctl.Client]:
    """A client of the switch's control channel, served by a loop of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    workers = ThreadPoolExecutor(1)
    stopped = threading.Event()

    async def start() -> SwitchServer:
        server = SwitchServer(switch.p4runtime, Control(switch.p4runtime, stopped.set), workers)
        await server.start("127.0.0.1:0")
        return server

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(DEADLINE_S)
    client = ctl.Client(f"127.0.0.1:{server.port}")
    client.stopped = stopped  # type: ignore[attr-defined]
    try:
        yield client
    finally:
        client.close()
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(DEADLINE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(DEADLINE_S)
        loop.close()
        workers.shutdown()


def test_ports_tell_what_they_were_told(client: ctl.Client) -> None:
    client.call("SetPortRate", port=3, rate=10**8)
    client.call("SetQueue", port=3, packets=64, bytes=0)
    client.call("SetQueue", port=3, queue=7, packets=8, bytes=9000)
    client.call("SetPortUp", port=4, up=False)
    ports = {port.port: port for port in client.call("GetPorts").ports}
    assert set(ports) == {*range(1, 9), 510} and ports[510].kind == "cpu"
    assert ports[3].rate == 10**8 and ports[3].up and not ports[4].up
    assert [(each.packets, each.bytes) for each in ports[3].queues] == [(64, 0)] * 7 + [(8, 9000)]


def test_the_switch_names_itself(client: ctl.Client) -> None:
    answer = client.call("GetSwitch")
    assert (answer.name, answer.device_id, answer.has_pipeline) == ("s1", 1, True)


def test_telemetry_counts_packets_and_drops(switch: Switch, client: ctl.Client) -> None:
    constant = frame(ether_type=0x8899)
    for _ in range(5):
        switch.inject(2, constant)
    switch.set_port_up(7, False)
    switch.inject(2, constant)
    answer = client.call("Telemetry")
    assert answer.layout == telemetry.LAYOUT and answer.time_ns == switch.now
    ports = {int(record["port"]): record for record in telemetry.ports(answer.ports)}
    assert ports[2]["rx_packets"] == 6 and ports[7]["tx_packets"] == 5 and ports[7]["tx_bytes"] == 5 * len(constant)
    assert ports[7]["queues"]["sent_packets"].sum() == 5 and ports[7]["queues"]["delay_histogram"].sum() == 5
    assert telemetry.drops(answer.drops) == switch.drops() and switch.drops()["port_down"] == 1
    drops = client.call("GetDrops")
    assert {each.cause: each.packets for each in drops.drops} == switch.drops()
    assert drops.received + drops.copied == drops.sent + drops.dropped + drops.queued == 6


def test_port_changes_are_watched(switch: Switch, client: ctl.Client) -> None:
    stream = client.watch_ports()
    first = [next(stream) for _ in range(9)]
    assert all(state.up for state in first)
    switch.set_port_up(5, False)
    changed = next(stream)
    assert (changed.port, changed.up) == (5, False)
    switch.set_port_up(5, True)
    changed = next(stream)
    assert (changed.port, changed.up) == (5, True)
    stream.cancel()


def test_a_capture_holds_the_frames_of_a_port(switch: Switch, client: ctl.Client, tmp_path: Path) -> None:
    file = tmp_path / "port.pcap"
    client.call("StartCapture", port=2, path=str(file))
    assert {port.port: port.capture for port in client.call("GetPorts").ports}[2] == str(file)
    switch.inject(2, frame())
    client.call("StopCapture", port=2)
    assert frame() in file.read_bytes()
    assert code_of(lambda: client.call("StartCapture", port=2, path="/no/such/place.pcap")) == grpc.StatusCode.NOT_FOUND


def test_wrong_calls_are_refused(client: ctl.Client) -> None:
    for method, fields, code in [
        ("SetPortRate", {"port": 99, "rate": 1}, grpc.StatusCode.NOT_FOUND),
        ("SetQueue", {"port": 1, "queue": 8}, grpc.StatusCode.INVALID_ARGUMENT),
        ("SetPortUp", {"port": 600, "up": True}, grpc.StatusCode.NOT_FOUND),
        ("SetDepthUnit", {"unit": "pounds"}, grpc.StatusCode.INVALID_ARGUMENT),
        ("SetDepthUnit", {"register": "stranger", "unit": "packets"}, grpc.StatusCode.INVALID_ARGUMENT),
        ("StopCapture", {"port": 99}, grpc.StatusCode.NOT_FOUND),
        ("StartCapture", {"port": 1}, grpc.StatusCode.INVALID_ARGUMENT),
    ]:
        assert code_of(lambda method=method, fields=fields: client.call(method, **fields)) == code, method  # type: ignore[misc]


def test_a_register_becomes_live(switch: Switch, client: ctl.Client) -> None:
    client.call("SetDepthUnit", register="cells", unit="bytes/64")
    names = {ffi().string(switch.objects.registers[i].name): i for i in range(3)}
    assert switch.objects.registers[names[b"Ingress.cells"]].live_depth


def test_stop_asks_the_host_to_end_the_switch(client: ctl.Client) -> None:
    client.call("Stop")
    assert client.stopped.wait(DEADLINE_S)  # type: ignore[attr-defined]


def test_softswitchctl_prints_json(client: ctl.Client, switch: Switch, capsys: pytest.CaptureFixture[str]) -> None:
    address = client.address
    for arguments in (["rate", "3", "1000000"], ["queue", "3", "--packets", "9"], ["down", "4"], ["up", "4"]):
        assert ctl.main(["--switch", address, *arguments]) == 0
    switch.inject(2, frame(ether_type=0x8899))
    for verb, check in {
        "ports": lambda answer: answer["ports"][2]["rate"] == "1000000",
        "status": lambda answer: answer["name"] == "s1",
        "queues": lambda answer: answer[0]["port"] == 7 and answer[0]["sent_packets"] == 1,
        "drops": lambda answer: answer["sent"] == "1",
    }.items():
        assert ctl.main(["--switch", address, "--json", verb]) == 0
        assert check(json.loads(capsys.readouterr().out)), verb
    assert ctl.main(["--switch", address, "rate", "99", "1"]) == 1
    assert "no port 99" in capsys.readouterr().err
    assert ctl.main(["--switch", free_address(), "status"]) == 1
    assert "does not answer" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["rate", "-1", "5"], ["rate", "1", str(1 << 64)], ["rate", "1", "1", "--overhead", str(1 << 32)], ["up", "x"],
        ["queue", "1", "--packets", str(1 << 32)], ["mirror", "7", str(1 << 32)], ["mirror", "7", "1", "--bytes", "-1"],
        ["capture", "1.5"], ["nonsense"], [],
    ],
)  # fmt: skip
def test_wrong_usage_of_softswitchctl_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        ctl.main(["--switch", "127.0.0.1:1", *arguments])
    assert capsys.readouterr().err.count("\n") == 1


def test_softswitchctl_sets_replaces_and_removes_a_mirroring_session(client: ctl.Client, switch: Switch) -> None:
    def ports() -> list[list[int]]:
        request = p4rt.ReadRequest(device_id=1)
        request.entities.add().packet_replication_engine_entry.clone_session_entry.SetInParent()
        found = [
            each.packet_replication_engine_entry.clone_session_entry for each in switch.p4runtime.read(request).entities
        ]
        return [[replica.egress_port for replica in session.replicas] for session in found]

    for arguments, wanted in ((["7", "1", "2"], [[1, 2]]), (["7", "3", "--bytes", "64"], [[3]]), (["7"], [])):
        assert ctl.main(["--switch", client.address, "mirror", *arguments]) == 0
        assert ports() == wanted
    assert ctl.main(["--switch", client.address, "mirror", "7"]) == 1
