# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A replay's two ends over one cable between two namespaces: all arrives bit-exact, or the reason is told."""

import os
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import wrpcap

from topologies.errors import FailureError
from traffic import trace
from traffic.replay import session
from traffic.replay.frames import Station
from traffic.replay.session import Site, Timing
from traffic.replay.sources import capture_stream, trace_stream
from traffic.replay.summary import Summary, summarise
from traffic.replay.verify import State

pytestmark = pytest.mark.fabric

ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
FAST = Timing(rate=50e6, rounds=4)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture(scope="module")
def hosts() -> Iterator[tuple[Site, Site]]:
    """Yield two hosts on one cable."""
    tag = f"gltr{os.getpid() % 10000}"
    names = [f"{tag}{end}" for end in "ab"]
    made = []
    try:
        for name in names:
            ip("netns", "add", name)
            made.append(name)
        ip("link", "add", names[0], "netns", names[0], "type", "veth", "peer", "name", names[1], "netns", names[1])
        sites = []
        for number, name in enumerate(names, 1):
            near, far = f"02:00:00:00:00:{number:02x}", f"02:00:00:00:00:{3 - number:02x}"
            station = Station(near, far, f"10.9.0.{number}", f"fd00:9::{number}")
            ip("-n", name, "link", "set", name, "address", near, "up")
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "address", "add", f"{station.ipv4}/24", "dev", name)
            ip("-n", name, "address", "add", f"{station.ipv6}/64", "dev", name, "nodad")
            sites.append(Site(name, ("ip", "netns", "exec", name), name, station, dict(os.environ), line_rate=100e6))
        for near_site, far_site in (sites, sites[::-1]):
            for address in (far_site.station.ipv4, far_site.station.ipv6):
                name, mac = near_site.name, far_site.station.mac
                ip("-n", name, "neigh", "add", address, "lladdr", mac, "dev", name)
        yield sites[0], sites[1]
    finally:
        for name in made:
            ip("netns", "delete", name)


@pytest.fixture(scope="module")
def digits() -> trace.Trace:
    recorded, _ = trace.record("digits", workers=2, rounds=3)
    return recorded


def replay_trace(hosts: tuple[Site, Site], digits: trace.Trace, timing: Timing) -> Summary:
    streams = [(hosts[0], trace_stream(digits, worker, ipv6=timing.ipv6)) for worker in range(2)]
    return summarise(session.run(streams, hosts[1], timing))


@pytest.mark.parametrize("ipv6", [False, True])
def test_every_packet_of_a_trace_arrives_bit_exact_in_order(hosts, digits, ipv6: bool) -> None:
    summary = replay_trace(hosts, digits, replace(FAST, ipv6=ipv6))
    assert summary.total.sent == summary.total.delivered > 0
    assert (summary.altered, summary.foreign, summary.duplicates, summary.host_drops) == (0, 0, 0, 0)
    assert (summary.reordered, summary.reordering_extent) == (0, 0)


def test_rounds_start_together_after_a_pause(hosts, digits) -> None:
    summary = replay_trace(hosts, digits, replace(FAST, rounds=3, pause=0.2))
    stream = trace_stream(digits, 0)
    total = 2 * 8 * stream.bytes_per_round(42) * 3
    assert summary.offered_bps < total / 0.4


def test_a_capture_arrives_bit_exact(hosts, tmp_path: Path) -> None:
    path = tmp_path / "ordinary.pcap"
    old = IP(src="192.0.2.1", dst="192.0.2.2")
    packets = [ETHER / old / UDP(sport=n, dport=9) / Raw(bytes([n]) * n) for n in range(1, 200)]
    wrpcap(str(path), [*packets, ETHER / old / TCP(sport=1, dport=2) / Raw(b"tcp"), *packets[:5]])
    capture = capture_stream(path, hosts[0].station, hosts[1].station)
    outcome = session.run([(hosts[0], capture.stream)], hosts[1], replace(FAST, rounds=2))
    summary = summarise(outcome)
    assert (summary.ordinary.sent, summary.ordinary.delivered) == (410, 410)
    assert (summary.duplicates, summary.reordered) == (0, 0)
    assert (outcome.arrivals["state"] == State.EXACT).sum() == 410


def test_a_socket_that_cannot_be_bound_is_told_in_one_line(hosts, digits) -> None:
    lost = replace(hosts[1], station=replace(hosts[1].station, ipv4="10.9.9.9"))
    with pytest.raises(FailureError, match="receiver in .*: cannot receive") as raised:
        session.run([(hosts[0], trace_stream(digits, 0))], lost, FAST)
    assert "\n" not in str(raised.value)


def test_a_sender_that_fails_ends_the_replay(hosts, digits) -> None:
    lost = replace(hosts[0], station=replace(hosts[0].station, ipv4="10.9.9.9"))
    with pytest.raises(FailureError, match="sender in .*: cannot send"):
        session.run([(lost, trace_stream(digits, 0))], hosts[1], FAST)


def test_a_host_that_is_gone_is_told_in_one_line(hosts, digits) -> None:
    gone = replace(hosts[1], enter=("ip", "netns", "exec", "gltr-none"))
    with pytest.raises(FailureError, match="receiver in"):
        session.run([(hosts[0], trace_stream(digits, 0))], gone, FAST)


def processes_of(site: Site) -> list[str]:
    found = subprocess.run(["ip", "netns", "pids", site.name], check=True, capture_output=True, text=True)
    return found.stdout.split()


def test_an_interrupted_replay_leaves_no_process(hosts, digits, monkeypatch: pytest.MonkeyPatch) -> None:
    real = session.End.expect_line

    def interrupted(end: session.End, seconds: float, *rest: object) -> str:
        if seconds != session.START_SECONDS:
            raise KeyboardInterrupt
        return real(end, seconds)

    monkeypatch.setattr(session.End, "expect_line", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replay_trace(hosts, digits, replace(FAST, rounds=10_000))
    assert processes_of(hosts[0]) == processes_of(hosts[1]) == []


def test_both_ends_stop_when_their_parent_is_killed(hosts, digits, tmp_path: Path) -> None:
    """The pipes close, and each end notices by itself."""
    finished = threading.Event()
    ends: list[session.End] = []
    real = session.End.__exit__

    def abandon(end: session.End, *details: object) -> None:
        ends.append(end)

    session.End.__exit__ = abandon  # type: ignore[method-assign]
    expect = session.End.expect_line

    def lost(end: session.End, seconds: float, *rest: object) -> str:
        if seconds != session.START_SECONDS:
            raise KeyboardInterrupt
        return expect(end, seconds)

    session.End.expect_line = lost  # type: ignore[method-assign]
    try:
        with pytest.raises(KeyboardInterrupt):
            replay_trace(hosts, digits, replace(FAST, rounds=10_000))
    finally:
        session.End.__exit__, session.End.expect_line = real, expect  # type: ignore[method-assign]
        for end in ends:
            end.hang_up()
    deadline = time.monotonic() + 30
    while processes_of(hosts[0]) + processes_of(hosts[1]) and time.monotonic() < deadline:
        finished.wait(0.05)
    left = processes_of(hosts[0]) + processes_of(hosts[1])
    for end in ends:
        end.__exit__()
    assert left == []
