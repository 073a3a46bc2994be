# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Gradients and captures cross the default fabric, one by one and at a rate, and are told apart as they arrive."""

import json
import select
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Packet, Raw
from scapy.utils import wrpcap
from typer.testing import CliRunner

import topologies
from controller.reconcile import install
from gradlane.observe import observe
from topologies import kernel
from topologies.errors import UsageError
from topologies.mininet_fabric import MininetFabric
from traffic import trace
from traffic.header import Gradient
from traffic.replay import cli
from traffic.wire import GRADIENT_PORT, GradientFlag, GradientType

pytestmark = pytest.mark.fabric


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MininetFabric]:
    folder = tmp_path_factory.mktemp("replay")
    options = {"instance": None, "state_path": folder / "fabric.json", "logs": folder}
    with MininetFabric(topologies.load("leaf_spine"), "softswitch", **options) as running:
        install(running.state_path, "dlcp")
        yield running


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("trace") / "digits.npz"
    recorded, _ = trace.record("digits", workers=4, rounds=8)
    trace.save(recorded, path)
    return path


class Tap:
    """A raw socket on a host's interface."""

    def __init__(self, net: MininetFabric, host: str) -> None:
        with kernel.namespace(net.hosts[host].pid):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            self._socket.bind((net.fabric.interface(host, 0), 3))

    def __enter__(self) -> "Tap":
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, packet: Packet) -> None:
        self._socket.send(bytes(packet))

    def next_from(self, source: str, seconds: float = 60.0) -> Packet:
        """Return the next packet of an address, or fail."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and select.select([self._socket], [], [], left)[0]:
            frame, address = self._socket.recvfrom(65536)
            packet = Ether(frame)
            layer = packet.getlayer(IP) or packet.getlayer(IPv6)
            if address[2] != socket.PACKET_OUTGOING and layer is not None and layer.src == source:
                return packet
        pytest.fail(f"nothing came from {source}")


PACKETS = {
    "data": UDP(sport=4000, dport=GRADIENT_PORT) / Gradient(importance=200, layer=0, count=4) / Raw(bytes(range(16))),
    "least": UDP(sport=4000, dport=GRADIENT_PORT) / Gradient(importance=0, layer=9, count=1) / Raw(b"abcd"),
    "protected": UDP(sport=4000, dport=GRADIENT_PORT)
    / Gradient(flags=GradientFlag.PROTECTED | GradientFlag.LAST, count=360)
    / Raw(bytes(1420)),
    "finish": UDP(sport=4000, dport=GRADIENT_PORT) / Gradient(type=GradientType.FINISH),
    "pinned": UDP(sport=4000, dport=GRADIENT_PORT) / Gradient(path=2, count=1) / Raw(b"abcd"),
    "ordinary": UDP(sport=4000, dport=9) / Raw(b"ordinary"),
    "tcp": TCP(sport=4000, dport=80, flags="S"),
}
PACKETS["protected"][Gradient].count = 355


@pytest.mark.parametrize("ipv6", [False, True])
@pytest.mark.parametrize("name", PACKETS)
def test_a_packet_arrives_as_it_was_but_for_its_hops(net: MininetFabric, name: str, ipv6: bool) -> None:
    source, sink = net.fabric.host("h1"), net.fabric.host("h5")
    addresses = (source.ipv6, sink.ipv6) if ipv6 else (source.ipv4, sink.ipv4)
    layer = IPv6 if ipv6 else IP
    ether = Ether(src=source.mac, dst=net.fabric.switch("leaf1").mac)
    packet = Ether(bytes(ether / layer(src=addresses[0], dst=addresses[1]) / PACKETS[name]))
    with Tap(net, "h5") as at_sink, Tap(net, "h1") as at_source:
        at_source.send(packet)
        arrived = at_sink.next_from(packet[layer].src)
    assert (arrived.src, arrived.dst) == (net.fabric.switch("leaf2").mac, sink.mac)
    expected = packet[layer].copy()
    if ipv6:
        expected.hlim -= 3
    else:
        expected.ttl -= 3
        del expected.chksum
    assert bytes(arrived[layer]) == bytes(expected)


def gradctl(net: MininetFabric, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> dict[str, object]:
    monkeypatch.setenv("GRADLANE_STATE", str(net.state_path))
    app = typer.Typer()
    app.callback()(lambda: None)
    cli.add_replay(app, observe)
    result = CliRunner().invoke(app, ["replay", *arguments], catch_exceptions=False)
    assert result.exit_code == 0
    found: dict[str, object] = json.loads(result.stdout)
    return found


@pytest.mark.parametrize("family", [[], ["--ipv6"]])
def test_a_trace_below_the_links_rate_arrives_whole_over_both_spines(net, digits, monkeypatch, family) -> None:
    sources = [argument for host in ("h1", "h2", "h3", "h4") for argument in ("--from", host)]
    # So far below it that what a host which was held up makes good does not fill a queue either.
    options = ["--to", "h5", "--rate", "5M", "--rounds", "20", "--json", *family]
    report = gradctl(net, monkeypatch, str(digits), *sources, *options)
    packets = report["packets"]
    assert packets["sent"] == packets["delivered"] > 500
    assert (packets["altered"], packets["foreign"], packets["duplicates"]) == (0, 0, 0)
    assert report["delivered"]["class"] == {"6": 1, "5": 1}
    shares = report["paths"]["leaf1"]
    assert set(shares) == {"spine1", "spine2"}
    assert abs(shares["spine1"] - 0.5) < 0.025


def test_a_capture_arrives_whole(net, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "capture.pcap"
    ether, old = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02"), IP(src="192.0.2.1", dst="192.0.2.2")
    gradients = [
        ether
        / old
        / UDP(sport=n, dport=GRADIENT_PORT)
        / Gradient(layer=n % 3, importance=n, sequence=n, count=1)
        / Raw(b"abcd")
        for n in range(1, 200)
    ]
    ordinary = [ether / old / UDP(sport=n, dport=9) / Raw(bytes(n)) for n in range(1, 50)]
    wrpcap(str(path), [*gradients, *ordinary])
    report = gradctl(net, monkeypatch, str(path), "--from", "h1", "--to", "h5", "--rate", "5M", "--json")
    assert report["delivered"]["total"] == 1
    assert report["delivered"]["layer"] == {"0": 1, "1": 1, "2": 1}
    assert report["delivered"]["ordinary"] == 1
    assert report["skipped"] == 0


def test_trimmed_packets_are_told_from_lost_ones(net, tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "wide.npz"
    recorded, _ = trace.record("mnist", workers=4, rounds=1)  # tensors of many packets, which are not protected
    trace.save(recorded, path)
    install(net.state_path, "trim")
    try:
        sources = [argument for host in ("h1", "h2", "h3", "h4") for argument in ("--from", host)]
        options = ["--to", "h5", "--rate", "200M", "--rounds", "3", "--json"]
        report = gradctl(net, monkeypatch, str(path), *sources, *options)
    finally:
        install(net.state_path, "dlcp")
    packets = report["packets"]
    assert packets["trimmed"] > 0
    assert packets["altered"] == packets["foreign"] == 0
    assert packets["delivered"] + packets["trimmed"] <= packets["sent"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no.npz", "--from", "h1", "--to", "h5"], "no such file"),
        (["{text}", "--from", "h1", "--to", "h5"], "not a pcap"),
        (["{digits}", "--from", "h99", "--to", "h5"], "h99"),
        (["{digits}", "--from", "h5", "--to", "h5"], "both ends"),
        (["{digits}", "--from", "h1", "--to", "h5", "--rate", "fast"], "--rate"),
        (["{digits}", "--from", "h1", "--to", "h5", "--pause", "long"], "--pause"),
        (["{digits}", *["--from", "h1"] * 5, "--to", "h5"], "4 workers"),
    ],
)
def test_bad_input_is_a_usage_error_in_one_line(net, digits, tmp_path, monkeypatch, arguments, message) -> None:
    text = tmp_path / "text.pcap"
    text.write_text("not a capture")
    filled = [argument.format(text=text, digits=digits) for argument in arguments]
    with pytest.raises(UsageError, match=message) as raised:
        gradctl(net, monkeypatch, *filled)
    assert "\n" not in str(raised.value)
