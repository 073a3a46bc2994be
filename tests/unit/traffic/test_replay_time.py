# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A replay that will take long says so before it begins."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import typer
from click.testing import Result
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.utils import wrpcap
from typer.testing import CliRunner

import topologies
from topologies import state
from topologies.errors import FailureError
from traffic import hosts
from traffic.replay import cli, session
from traffic.replay.frames import Station
from traffic.replay.session import Site, Timing, seconds_per_round
from traffic.replay.sources import capture_stream

FABRIC = topologies.load("single")
PACKETS, BYTES = 10, 1000


def site(name: str) -> Site:
    host = FABRIC.host(name)
    return Site(name, (), "eth0", Station(host.mac, FABRIC.switch(host.switch).mac, host.ipv4, host.ipv6), {})


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "c.pcap"
    wrpcap(str(path), [Ether() / IP() / UDP() / bytes(BYTES - 14 - 20 - 8)] * PACKETS)
    return path


def replay(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    """Run `replay` up to the moment when it would send."""

    def not_sent(*_: object) -> None:
        raise FailureError("not sent")

    monkeypatch.setattr(state, "load", lambda: SimpleNamespace(fabric=FABRIC))
    monkeypatch.setattr(hosts, "site_of", lambda running, name: site(name))
    monkeypatch.setattr(session, "run", not_sent)
    app = typer.Typer()
    cli.add_replay(app)
    return CliRunner(mix_stderr=False).invoke(app, arguments)


def test_a_replay_at_one_bit_per_second_tells_its_time(monkeypatch: pytest.MonkeyPatch, capture: Path) -> None:
    ended = replay(monkeypatch, str(capture), "--from", "h1", "--to", "h2", "--rate", "1", "--json")
    assert str(ended.exception) == "not sent"
    assert (ended.stdout, ended.stderr) == ("", "sending takes about 22 hours\n")


def test_the_time_counts_senders_rounds_and_pauses(monkeypatch: pytest.MonkeyPatch, capture: Path) -> None:
    two = ("--from", "h1", "--from", "h3", "--to", "h2", "--rate", "160", "--rounds", "3", "--pause", "100s")
    # Each of two senders has 80 bit/s for 80,000 bits a round.
    assert replay(monkeypatch, str(capture), *two).stderr == "sending takes about 55 minutes\n"


def test_a_short_replay_says_nothing(monkeypatch: pytest.MonkeyPatch, capture: Path) -> None:
    assert replay(monkeypatch, str(capture), "--from", "h1", "--to", "h2", "--rate", "50M").stderr == ""


def test_the_slowest_sender_sets_the_time(capture: Path) -> None:
    stream = capture_stream(capture, site("h1").station, site("h2").station, FABRIC.mtu).stream
    assert seconds_per_round([stream, stream], Timing(rate=8000.0, rounds=1)) == PACKETS * BYTES / 1000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(11.4, "11 s"), (119, "119 s"), (120, "2 minutes"), (7200, "2 hours"), (172800, "2 days"), (1e12, "31,710 years")],
)
def test_durations_are_said_in_a_fitting_unit(seconds: float, text: str) -> None:
    assert cli.duration(seconds) == text
