# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The controller's side of the engine, the data thread, pcap ports, captures."""

from __future__ import annotations

import random
import select
import struct
import threading
import time
from pathlib import Path

import pytest
from engine_frames import command, report

from softswitch.build import RUNTIME, TABLES_SOURCES, library
from softswitch.errors import PortError, ProgramError, SwitchError
from softswitch.native import sanitized
from softswitch.switch import Switch, depth_shift

DEADLINE = 60.0


def eventually(condition, what: str) -> None:  # type: ignore[no-untyped-def]
    end = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < end, f"not within {DEADLINE} s: {what}"
        time.sleep(0.001)


def readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def test_packets_in_and_out_pass_the_cpu_port(switch: Switch) -> None:
    switch.set_cpu_port(510)
    assert switch.inject(1, command("P", 2, length=80)) and switch.packets_in() == []
    assert switch.packet_out(command("P", 3))
    switch.run()
    ((port, frame),) = switch.take()
    assert port == 3 and report(frame).ingress_port == 510 & 255
    assert switch.inject(1, command("P", 510 & 255)) == []  # 254: no such port
    switch.set_cpu_port(20)
    assert switch.port_kind(20) == "cpu" and switch.port_kind(510) is None
    frame = command("P", 20)
    switch.inject(1, frame)
    ((punted),) = switch.packets_in()
    assert punted[:17] == frame[:17]
    assert readable(switch.event_fd)


def test_a_full_packet_in_ring_is_counted(switch: Switch) -> None:
    switch.set_cpu_port(20)
    frame = command("P", 20, length=1500)
    for _ in range(3500):
        switch.send(1, frame)
        switch.run()
    overflow = switch.drops()["packet_in_overflow"]
    assert overflow > 0 and len(switch.packets_in()) == 3500 - overflow


def test_settings_out_of_range_are_refused(switch: Switch) -> None:
    for refuse in (
        lambda: switch.add_port(1),
        lambda: switch.add_port(511),
        lambda: switch.add_port(9, "no-such-interface", "packet"),
        lambda: switch.add_port(9, "x", "carrier pigeon"),
        lambda: switch.set_rate(9, 1),
        lambda: switch.set_queue(1, 8, packets=1),
        lambda: switch.set_cpu_port(1),
        lambda: switch.set_drop_port(1),
        lambda: switch.stats(77),
        lambda: switch.add_port(9, "nothing.pcap:", "pcap"),
    ):
        with pytest.raises(PortError):
            refuse()
    with pytest.raises(SwitchError):
        switch.set_queues(9)
    with pytest.raises(ProgramError):
        switch.load_library("/nonexistent.so")
    with pytest.raises(SwitchError):
        Switch(frames=4)


def test_a_program_that_brings_tables_of_its_own_is_refused(switch: Switch, tmp_path: Path) -> None:
    """As happens when the switch's sources change under a running process: one would free the other's memory."""
    sources = [RUNTIME / source for source in TABLES_SOURCES]
    tables = library("tables", sources, flags=["-DANOTHER_BUILD"], sanitize=sanitized())
    source = tmp_path / "program.c"
    source.write_text(f"""#include "{Path(__file__).parent / "forward.c"}"
    #include "table.h"
    void *uses_tables(void) {{ return (void *)ss_table_insert; }}""")
    program = library("forward", [source], needs=[tables], sanitize=sanitized())
    with pytest.raises(ProgramError, match="sources have changed since this process began"):
        switch.load_library(program)
    assert switch.inject(1, command("P", 2))


def test_depth_units_are_read() -> None:
    assert [depth_shift(unit) for unit in ("packets", "bytes", "bytes/64")] == [-1, 0, 6]
    for wrong in ("bytes/63", "cells", "bytes/0", "bytes/x"):
        with pytest.raises(SwitchError):
            depth_shift(wrong)


def pcap(path: Path, frames: list[bytes], *, magic: int = 0xA1B23C4D, order: str = "<") -> Path:
    records = [struct.pack(order + "IHHiIII", magic, 2, 4, 0, 0, 65535, 1)]
    records += [struct.pack(order + "IIII", 1, 2, len(frame), len(frame)) + frame for frame in frames]
    path.write_bytes(b"".join(records))
    return path


def read_pcap(path: Path) -> list[bytes]:
    data, frames, at = path.read_bytes(), [], 24
    assert struct.unpack_from("<I", data)[0] == 0xA1B23C4D
    while at < len(data):
        seconds, nanoseconds, captured, length = struct.unpack_from("<IIII", data, at)
        assert captured == length and nanoseconds < 10**9 and seconds >= 0
        frames.append(data[at + 16 : at + 16 + captured])
        at += 16 + captured
    return frames


@pytest.mark.parametrize(("magic", "order"), [(0xA1B23C4D, "<"), (0xA1B2C3D4, "<"), (0xA1B2C3D4, ">")])
def test_a_pcap_file_runs_through(program: Path, tmp_path: Path, magic: int, order: str) -> None:
    frames = [bytes([n]) * (60 + n) for n in range(200)]
    source = pcap(tmp_path / "in.pcap", frames, magic=magic, order=order)
    with Switch() as switch:
        switch.load_library(program)
        switch.add_port(1, f"{source}:", "pcap")
        switch.add_port(2, f":{tmp_path / 'out.pcap'}", "pcap")
        switch.run()
        assert switch.stats(1).rx_packets == switch.stats(2).tx_packets == 200
    assert read_pcap(tmp_path / "out.pcap") == frames


def test_a_file_that_is_no_pcap_is_refused(switch: Switch, tmp_path: Path) -> None:
    (tmp_path / "in.pcap").write_bytes(b"GIF89a" * 20)
    with pytest.raises(PortError, match="no pcap"):
        switch.add_port(9, f"{tmp_path / 'in.pcap'}:", "pcap")


def test_a_pcap_file_is_not_written_while_it_is_read(switch: Switch, tmp_path: Path) -> None:
    path = pcap(tmp_path / "in.pcap", [bytes(100)])
    (tmp_path / "link.pcap").symlink_to(path)
    content = path.read_bytes()
    for written in (path, tmp_path / "link.pcap"):
        with pytest.raises(PortError, match="read and written at once"):
            switch.add_port(9, f"{path}:{written}", "pcap")
    assert path.read_bytes() == content


def test_a_truncated_pcap_ends_with_its_last_whole_frame(switch: Switch, tmp_path: Path) -> None:
    path = pcap(tmp_path / "in.pcap", [bytes(100), bytes(100)])
    path.write_bytes(path.read_bytes()[:-30])
    switch.remove_port(1)
    switch.add_port(1, f"{path}:", "pcap")
    switch.run()
    assert len(switch.take()) == 1


def test_a_capture_has_both_directions(switch: Switch, tmp_path: Path) -> None:
    switch.capture(1, tmp_path / "one.pcap")
    switch.set_clock(7 * 10**9)
    sent = [bytes([n]) * 70 for n in range(5)]
    for frame in sent:
        switch.inject(1, frame)
    switch.inject(2, b"\x99" * 64)
    switch.capture(1, None)
    assert read_pcap(tmp_path / "one.pcap") == [*sent, b"\x99" * 64]
    with pytest.raises(PortError):
        switch.capture(1, tmp_path / "no" / "such" / "directory.pcap")


def test_a_switch_runs_by_itself_once_started(switch: Switch) -> None:
    switch.start()
    with pytest.raises(SwitchError):
        switch.start()
    taken: list[tuple[int, bytes]] = []
    for n in range(100):
        assert switch.send(1, bytes([n]) * 60)
    eventually(lambda: taken.extend(switch.take()) or len(taken) == 100, "100 frames through")
    assert [frame[0] for _, frame in taken] == list(range(100))
    switch.stop()
    assert switch.inject(1, bytes(60)) == [(2, bytes(60))]


def test_a_shaped_port_keeps_sending_by_itself(switch: Switch) -> None:
    switch.set_rate(2, 80_000_000)  # 100 us a packet of 1000 bytes
    switch.start()
    for _ in range(200):
        switch.send(1, command("P", 2, length=1000))
    eventually(lambda: switch.account().sent == 200, "200 packets at 80 Mbit/s")
    assert sum(switch.stats(2).queues[0].delay_histogram) == 200


def test_control_calls_get_through_while_traffic_runs(switch: Switch, program: Path) -> None:
    switch.set_queue(2, packets=0)
    switch.set_queue(4, packets=0)
    switch.start()
    ending = threading.Event()

    def flood() -> None:
        frame = command("P", 4)
        while not ending.is_set():
            switch.send(1, frame)

    def sink() -> None:
        while not ending.is_set():
            switch.take()

    threads = [threading.Thread(target=flood), threading.Thread(target=sink)]
    for thread in threads:
        thread.start()
    try:
        for step in range(50):
            switch.set_rate(2, 1000 + step)
            switch.set_multicast(1 + step, [(2, 0), (3, 1)])
            switch.load_library(program)
            assert switch.stats(1).present
    finally:
        ending.set()
        for thread in threads:
            thread.join()
    switch.take()
    eventually(lambda: switch.take() == [] and switch.account().queued == 0, "all frames through")


def test_every_packet_is_accounted_for_whatever_happens(switch: Switch, program: Path) -> None:
    chance = random.Random(1)
    switch.set_cpu_port(20)
    switch.set_clock(1)
    switch.set_multicast(1, [(2, 0), (3, 1), (20, 2)])
    switch.set_clone(1, [(4, 0), (2, 1)])
    now = 1
    for _ in range(5000):
        match chance.randrange(20):
            case 0:
                switch.set_rate(chance.randrange(1, 5), chance.choice([0, 0, 10_000, 1_000_000, 10**9]))
            case 1:
                switch.set_queue(chance.randrange(1, 5), packets=chance.randrange(20), bytes=chance.randrange(20_000))
            case 2:
                switch.set_port_up(chance.randrange(1, 5), chance.random() < 0.7)
            case 3:
                switch.take()
            case 4:
                switch.set_queues(chance.randrange(1, 9))
            case 5 if chance.random() < 0.1:
                switch.load_library(program)
            case 6:
                now += chance.randrange(10**7)
                switch.set_clock(now)
            case _:
                opcode, length = chance.choice("PPPPDMTCRLXGdEW"), chance.randrange(18, 1900)
                frame = command(opcode, chance.randrange(1, 6), chance.randrange(8), length)
                switch.send(chance.randrange(1, 5), frame)
                switch.run()
        account = switch.account()
        assert account.received + account.copied == account.sent + account.dropped + account.queued
