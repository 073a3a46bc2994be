# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Batches leave as they are, paced, and arrive as they were; a missing compiler is told in one line."""

import socket
import time
from pathlib import Path

import cffi
import numpy as np
import pytest

from topologies.errors import FailureError
from traffic import native
from traffic.packer import Packets


def matrix(count: int, seed: int = 0) -> Packets:
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 200, count).astype(np.uint32)
    frames = random.integers(0, 256, (count, 200)).astype(np.uint8)
    return Packets(frames, lengths)


def fast() -> native.Pace:
    return native.Pace(rate=1e12, line_rate=1e12, overhead=42, burst=16)


def test_what_is_sent_in_batches_arrives_byte_by_byte_in_order() -> None:
    packets = matrix(100)
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with sender, receiver:
        native.send(sender.fileno(), packets, fast())
        source, rows = native.Receiver(receiver.fileno(), 200, batch=7), []
        while len(rows) < 100:
            rows += source.take(timeout_ms=1000).rows()
    assert rows == packets.rows()


def test_receiving_nothing_returns_none_in_time() -> None:
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with sender, receiver:
        assert len(native.Receiver(receiver.fileno(), 64).take(timeout_ms=1)) == 0


def test_a_packet_longer_than_its_row_keeps_its_true_length() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(bytes(100), receiver.getsockname())
            assert native.Receiver(receiver.fileno(), 64).take(timeout_ms=5000).lengths.tolist() == [100]


def test_pacing_holds_the_rate_from_call_to_call() -> None:
    packets = Packets(np.zeros((50, 58), np.uint8), np.full(50, 58, np.uint32))
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    pace = native.Pace(rate=8e6, line_rate=1e9, overhead=42, burst=4, due_ns=begin)
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with sender, receiver:
        for _ in range(2):
            native.send(sender.fileno(), packets, pace)
    assert pace.due_ns - begin == pytest.approx(2 * 50 * 100 * 8 / 8e6 * 1e9)
    assert time.clock_gettime_ns(time.CLOCK_MONOTONIC) - begin >= (100 - 4) * 100 * 8 / 8e6 * 1e9


def test_catching_up_never_exceeds_the_line() -> None:
    packets = Packets(np.zeros((50, 58), np.uint8), np.full(50, 58, np.uint32))
    begin = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    pace = native.Pace(rate=1e9, line_rate=4e6, overhead=42, burst=5, due_ns=begin - 10**9)
    sender, receiver = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with sender, receiver:
        native.send(sender.fileno(), packets, pace)
    assert time.clock_gettime_ns(time.CLOCK_MONOTONIC) - begin >= (50 - 5) * 100 * 8 / 4e6 * 1e9
    assert pace.late_ns >= 10**9 - 1


def test_errors_of_the_socket_are_raised() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unconnected, pytest.raises(OSError, match="address"):
        native.send(unconnected.fileno(), matrix(1), fast())


def test_the_library_is_built_once_per_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADLANE_CACHE", str(tmp_path / "cache"))
    built = native.build()
    first = built.stat().st_mtime_ns
    assert native.build() == built
    assert built.stat().st_mtime_ns == first
    assert [file.name for file in built.parent.iterdir()] == [built.name]


def test_a_missing_or_failing_compiler_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(FailureError, match="no C compiler"):
        native.build()
    broken = tmp_path / "broken-cc"
    broken.write_text("#!/bin/sh\necho 'fatal error: out of paper' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CC", str(broken))
    with pytest.raises(FailureError, match="out of paper") as raised:
        native.build()
    assert "\n" not in str(raised.value)
    assert not list((tmp_path / "cache").iterdir())


@pytest.mark.parametrize(
    ("command", "complaint"),
    [
        ("true", "true ended well and built nothing of batch.c: it is no C compiler"),
        ("false", "false could not build batch.c: it ended with 1"),
        ("cc 'x", r"\$CC: no closing quotation: cc 'x"),
    ],
)
def test_what_is_no_compiler_is_told_in_one_line(
    command: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", command)
    with pytest.raises(FailureError, match=complaint):
        native.build()


def test_a_compiler_may_bring_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADLANE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CC", "cc -g0")
    assert native.build().exists()


def test_a_cache_that_cannot_be_made_is_told_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").write_text("a file where a folder should be")
    monkeypatch.setenv("GRADLANE_CACHE", str(tmp_path / "cache"))
    with pytest.raises(FailureError, match="cannot build batch.c in .*cache: File exists"):
        native.build()


def test_a_library_that_was_cut_short_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "traffic-0.so"
    empty.touch()
    with pytest.raises(FailureError, match="traffic-0.so': .*file too short; remove it, and it is built anew$"):
        native.opened(cffi.FFI(), empty)
