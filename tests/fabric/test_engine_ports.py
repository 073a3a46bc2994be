# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The engine's ports on real interfaces: two veth pairs, their far ends in namespaces of their own."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from softswitch.build import library, tables_library
from softswitch.errors import PortError
from softswitch.native import sanitized
from softswitch.switch import Switch

pytestmark = pytest.mark.fabric

DEADLINE = 60.0
ALL_FRAMES = 3
SOL_PACKET, PACKET_AUXDATA, PACKET_IGNORE_OUTGOING = 263, 8, 23
VLAN_VALID = 0x10
KINDS = ("xdp", "packet")
FORWARD = Path(__file__).parents[1] / "unit" / "softswitch_engine" / "forward.c"


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def eventually(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"not within {DEADLINE} s: {what}"
        time.sleep(0.001)


def socket_in(namespace: str, interface: str) -> socket.socket:
    """Open a raw socket on an interface of another namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    away = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    try:
        assert libc.setns(away, 0) == 0
        raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL_FRAMES))
        raw.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        raw.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        raw.bind((interface, 0))
        raw.settimeout(DEADLINE)
        return raw
    finally:
        assert libc.setns(home, 0) == 0
        os.close(home)
        os.close(away)


def switches_sleep() -> bool:
    """Say whether every switch's thread sleeps whenever one looks; one that spins hardly ever does."""
    switches = [task for task in Path("/proc/self/task").iterdir() if (task / "comm").read_text().startswith("ss:")]
    assert switches
    return all((task / "stat").read_text().rpartition(")")[2].split()[0] == "S" for task in switches * 1000)


def receive(raw: socket.socket) -> bytes:
    """Receive a frame, with the tag that the kernel took out of it."""
    frame, ancillary, _, _ = raw.recvmsg(65536, 256)
    for _, _, data in ancillary:
        status, _, _, _, _, tci, tpid = struct.unpack("IIIHHHH", data[:20])
        if status & VLAN_VALID:
            frame = frame[:12] + struct.pack("!HH", tpid or 0x8100, tci) + frame[12:]
    return frame


@dataclass
class Cable:
    """A veth pair: the switch's end here, the host's end in a namespace."""

    here: str
    namespace: str
    raw: socket.socket | None = None

    def plug(self) -> None:
        ip("link", "add", self.here, "type", "veth", "peer", "name", "eth0", "netns", self.namespace)
        Path(f"/proc/sys/net/ipv6/conf/{self.here}/disable_ipv6").write_text("1")
        ip("link", "set", self.here, "up")
        ip("-n", self.namespace, "link", "set", "eth0", "up")
        self.raw = socket_in(self.namespace, "eth0")

    def pull(self) -> None:
        if self.raw:
            self.raw.close()
            self.raw = None
        ip("link", "delete", self.here)

    @property
    def host(self) -> socket.socket:
        assert self.raw
        return self.raw


@pytest.fixture
def cables() -> Iterator[tuple[Cable, Cable]]:
    tag = f"glep{os.getpid() % 10000}"
    made: list[Cable] = []
    try:
        for end in "ab":
            cable = Cable(f"{tag}{end}", f"{tag}{end}n")
            ip("netns", "add", cable.namespace)
            made.append(cable)
            ip("netns", "exec", cable.namespace, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            cable.plug()
        yield made[0], made[1]
    finally:
        for cable in made:
            if cable.raw:
                cable.raw.close()
            subprocess.run(["ip", "link", "delete", cable.here], capture_output=True, check=False)
            ip("netns", "delete", cable.namespace)


@pytest.fixture(scope="module")
def program() -> Path:
    sanitize = sanitized()
    return library("forward", [FORWARD], needs=[tables_library(sanitize=sanitize)], sanitize=sanitize)


@pytest.fixture
def switch(program: Path) -> Iterator[Switch]:
    with Switch() as switch:
        switch.load_library(program)
        switch.start()
        yield switch
        account = switch.account()
        assert account.received + account.copied == account.sent + account.dropped + account.queued


def frame_of(number: int, length: int = 100) -> bytes:
    return b"\xff" * 6 + b"\x02\0\0\0\0\x01" + b"\x08\0" + number.to_bytes(4, "big") + bytes(length - 18)


def test_two_switches_share_one_cable(cables, switch: Switch, program: Path) -> None:
    near, far = cables
    inner, outer = f"{near.here}x", f"{near.here}y"
    ip("link", "add", inner, "type", "veth", "peer", "name", outer)
    try:
        for end in (inner, outer):
            Path(f"/proc/sys/net/ipv6/conf/{end}/disable_ipv6").write_text("1")
            ip("link", "set", end, "up")
        with Switch("s2", 2) as second:
            second.load_library(program)
            second.start()
            switch.add_port(1, near.here)
            switch.add_port(2, inner)
            second.add_port(1, outer)
            second.add_port(2, far.here)
            for number in range(1000):
                near.host.send(frame_of(number))
                assert receive(far.host) == frame_of(number)
            far.host.send(frame_of(7))
            assert receive(near.host) == frame_of(7)
            assert {switch.port_kind(2), second.port_kind(1)} == {"xdp"}
    finally:
        ip("link", "delete", inner)


def no_xdp_here(interface: str) -> bool:
    return "xdp" not in ip("-d", "link", "show", "dev", interface)


@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", KINDS)
def test_frames_cross_between_any_two_kinds_of_port(cables, switch: Switch, first: str, second: str) -> None:
    near, far = cables
    switch.add_port(1, near.here, first)
    switch.add_port(2, far.here, second)
    for batch in range(100):
        for number in range(16):
            near.host.send(frame_of(batch * 16 + number, 60 + number * 90))
        for number in range(16):
            assert receive(far.host) == frame_of(batch * 16 + number, 60 + number * 90)
    far.host.send(frame_of(7))
    assert receive(near.host) == frame_of(7)
    assert switch.stats(1).rx_packets == switch.stats(2).tx_packets == 1600
    assert switch.stats(1).tx_packets == switch.stats(2).rx_packets == 1


@pytest.mark.parametrize("kind", KINDS)
def test_vlan_tags_are_kept(cables, switch: Switch, kind: str) -> None:
    near, far = cables
    switch.add_port(1, near.here, kind)
    switch.add_port(2, far.here, kind)
    for tag in (b"\x81\0\x20\x05", b"\x81\0\x60\x07\x81\0\x20\x08", b"\x88\xa8\0\x09\x81\0\0\x0a"):
        frame = frame_of(1)[:12] + tag + frame_of(1)[12:]
        near.host.send(frame)
        assert receive(far.host) == frame


def test_auto_takes_af_xdp_on_a_veth_and_a_packet_socket_where_frames_are_large(cables, switch: Switch) -> None:
    near, far = cables
    ip("link", "set", far.here, "mtu", "3000")
    switch.add_port(1, near.here)
    switch.add_port(2, far.here)
    assert (switch.port_kind(1), switch.port_kind(2)) == ("xdp", "packet")


@pytest.mark.parametrize("kind", KINDS)
def test_a_link_that_goes_down_and_up_is_noticed(cables, switch: Switch, kind: str) -> None:
    near, far = cables
    switch.add_port(1, near.here, kind)
    switch.add_port(2, far.here, kind)
    ip("-n", far.namespace, "link", "set", "eth0", "down")
    eventually(lambda: not switch.port_up(2), "port 2 down")
    near.host.send(frame_of(1))
    eventually(lambda: switch.drops()["port_down"] == 1, "the frame dropped")
    ip("-n", far.namespace, "link", "set", "eth0", "up")
    eventually(lambda: switch.port_up(2), "port 2 up")
    assert switch.port_events() == [(1, True), (2, True), (2, False), (2, True)]
    far.raw = socket_in(far.namespace, "eth0")
    near.host.send(frame_of(2))
    assert receive(far.host) == frame_of(2)


@pytest.mark.parametrize("kind", KINDS)
def test_an_interface_that_vanishes_is_served_again_when_it_returns(cables, switch: Switch, kind: str) -> None:
    near, far = cables
    switch.add_port(1, near.here, kind)
    switch.add_port(2, far.here, kind)
    for _ in range(3):
        far.pull()
        eventually(lambda: not switch.stats(2).present, "port 2 without its interface")
        assert not switch.port_up(2)
        near.host.send(frame_of(1))
        far.plug()
        eventually(lambda: switch.port_up(2), "port 2 up again")
        near.host.send(frame_of(2))
        while receive(far.host) != frame_of(2):
            pass
        far.host.send(frame_of(3))
        assert receive(near.host) == frame_of(3)


def test_a_vanished_interface_lets_the_switch_sleep(cables, switch: Switch) -> None:
    near, far = cables
    switch.add_port(1, near.here, "packet")
    switch.add_port(2, far.here, "xdp")
    near.pull()
    far.pull()
    eventually(lambda: not switch.stats(1).present and not switch.stats(2).present, "both gone")
    eventually(switches_sleep, "nothing to do, and asleep")


@pytest.mark.parametrize("kind", KINDS)
def test_a_capture_sees_what_af_xdp_hides(cables, switch: Switch, kind: str, tmp_path: Path) -> None:
    near, far = cables
    switch.add_port(1, near.here, kind)
    switch.add_port(2, far.here, kind)
    path = tmp_path / "one.pcap"
    switch.capture(1, path)
    near.host.send(frame_of(1))
    assert receive(far.host) == frame_of(1)
    far.host.send(frame_of(2))
    assert receive(near.host) == frame_of(2)
    eventually(lambda: path.stat().st_size == 24 + 2 * 116, "the capture flushed by itself")
    assert path.read_bytes()[40:140] == frame_of(1)


def test_ports_are_refused_with_a_reason(cables, switch: Switch) -> None:
    near, _ = cables
    switch.add_port(1, near.here, "xdp")
    with pytest.raises(PortError, match="no AF_XDP"):
        switch.add_port(2, near.here, "xdp")
    with pytest.raises(PortError, match="no interface nowhere"):
        switch.add_port(2, "nowhere")


def test_removing_a_port_leaves_the_interface_as_it_was(cables, switch: Switch) -> None:
    near, far = cables
    for _ in range(20):
        switch.add_port(1, near.here, "xdp")
        switch.add_port(2, far.here, "xdp")
        near.host.send(frame_of(1))
        assert receive(far.host) == frame_of(1)
        switch.remove_port(1)
        switch.remove_port(2)
    assert no_xdp_here(near.here)


def test_a_killed_switch_leaves_no_program_behind(cables, program: Path) -> None:
    near, far = cables
    code = (
        "import sys, time; from softswitch.switch import Switch; s = Switch(); s.load_library(sys.argv[1]);"
        "s.add_port(1, sys.argv[2], 'xdp'); s.add_port(2, sys.argv[3], 'xdp'); s.start(); print('ready', flush=True);"
        "time.sleep(60)"
    )
    arguments = [sys.executable, "-c", code, str(program), near.here, far.here]
    for _ in range(2):
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout and process.stdout.readline() == "ready\n"
                near.host.send(frame_of(1))
                assert receive(far.host) == frame_of(1)
                assert not no_xdp_here(near.here)
            finally:
                process.send_signal(signal.SIGKILL)
        eventually(lambda: no_xdp_here(near.here) and no_xdp_here(far.here), "programs gone")
