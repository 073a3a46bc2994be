# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The test bed: two veth pairs between a tester's namespaces and the namespace of the device under test."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from tests.benchmarks.native import BURST, bench, ffi
from tests.benchmarks.programs import Program
from topologies import namespaces

DEVICE_INTERFACES = ("in", "out")
# Two cores, or both measure the scheduler. Read before anything is bound, since what is started inherits that.
TESTER_CORE, *_, DEVICE_CORE = sorted(os.sched_getaffinity(0)) * 2
LOSS = 0.001
TRIALS = 9  # at most, of one search
CLOSE = 1.04  # a search ends when what was too much is this near to what was not


@dataclass(frozen=True)
class Trial:
    """One rate, for a while: what was sent and arrived, the device's CPU time, latencies in microseconds."""

    offered_pps: float
    sent: int
    received: int
    cpu_seconds: float
    latency_p50: float
    latency_p99: float

    @property
    def loss(self) -> float:
        return 1 - self.received / self.sent if self.sent else 1.0

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per packet that arrived."""
        return self.cpu_seconds * 1e6 / self.received if self.received else float("inf")


def ip(*arguments: str) -> None:
    """Run ip(8)."""
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@dataclass(frozen=True)
class Bed:
    """Namespaces: `source` and `sink` are the tester's, `device` lies between."""

    source: str
    sink: str
    device: str

    def lay(self) -> None:
        """Lay the cables between them."""
        for namespace in (self.source, self.sink, self.device):
            ip("netns", "exec", namespace, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
        for namespace, interface in ((self.source, "in"), (self.sink, "out")):
            ip(
                "link",
                "add",
                "eth0",
                "netns",
                namespace,
                "type",
                "veth",
                "peer",
                "name",
                interface,
                "netns",
                self.device,
            )
            subprocess.run(
                ["ip", "netns", "exec", namespace, "ethtool", "-K", "eth0", "tx", "off"],
                check=True,
                capture_output=True,
            )
            ip("-n", namespace, "link", "set", "eth0", "up")
            ip("-n", self.device, "link", "set", interface, "up")


@contextlib.contextmanager
def test_bed() -> Iterator[Bed]:
    """Lay a bed in namespaces of its own, and always remove it, on SIGTERM too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with namespaces.made("source", "sink", "device") as names:
        bed = Bed(*names)
        bed.lay()
        yield bed


@contextlib.contextmanager
def device(bed: Bed, engine: str, program: Program) -> Iterator[int]:
    """Run a device, and give its process id when it forwards."""
    line = [
        "ip", "netns", "exec", bed.device, sys.executable, "-m", "tests.benchmarks.device",
        engine, program.name, *DEVICE_INTERFACES, str(DEVICE_CORE),
    ]  # fmt: skip
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin and process.stdout
        word, _, pid = process.stdout.readline().partition(" ")
        if word != "ready":
            raise SystemExit(f"{engine} did not start")
        try:
            yield int(pid)
        finally:
            process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()


def cpu_seconds(pid: int) -> float:
    """CPU time of all threads of a process: what getrusage gives itself, to the nanosecond."""
    return time.clock_gettime((~pid << 3) | 2)


class Tester:
    """The load generator and sink, on the first core."""

    def __init__(self, bed: Bed) -> None:
        self._handle = bench().tester_open(bed.source.encode(), b"eth0", bed.sink.encode(), b"eth0")
        if not self._handle:
            raise SystemExit("the tester cannot open its sockets")
        self._trial = ffi().new("struct trial *")

    def close(self) -> None:
        """Close the sockets."""
        bench().tester_close(self._handle)

    def run(self, program: Program, size: int, pps: float, seconds: float, pid: int) -> Trial:
        """Offer a rate in bursts of at most 16 frames."""
        frames = program.frames(size)
        before = cpu_seconds(pid)
        result = bench().tester_run(
            self._handle,
            b"".join(frames),
            len(frames),
            size,
            program.mark_offset(size),
            pps,
            BURST,
            seconds,
            self._trial,
        )
        if result:
            raise SystemExit(f"no trial with frames of {size} bytes")
        trial = self._trial
        spent = cpu_seconds(pid) - before
        p50, p99 = percentiles(trial.latency, trial.received, (0.5, 0.99))
        offered = trial.sent * 1e9 / trial.sending_ns
        return Trial(offered, trial.sent, trial.received, spent, p50, p99)


def percentiles(histogram: object, count: int, shares: tuple[float, ...]) -> list[float]:
    """Return percentiles of a histogram in steps of 0.1 us, in us."""
    found: list[float] = []
    seen = 0
    for bucket, packets in enumerate(ffi().unpack(histogram, 100_000)):
        if not packets:
            continue
        seen += packets
        while len(found) < len(shares) and seen >= shares[len(found)] * count:
            found.append(bucket / 10)
    return found + [0.0] * (len(shares) - len(found))


def highest_rate(
    tester: Tester, program: Program, size: int, pid: int, start: float, step: float, seconds: float
) -> Trial:
    """Search the highest rate at a loss of at most 0.1 %, from `start` on by factors of `step`; the trial at it."""
    tester.run(program, size, start / 4, seconds / 2, pid)  # warm caches and pages
    best: Trial | None = None
    low, high, rate = 0.0, float("inf"), start
    for _ in range(TRIALS):
        trial = tester.run(program, size, rate, seconds, pid)
        kept_up = trial.offered_pps > rate * 0.97
        if trial.loss <= LOSS:
            low = max(low, trial.offered_pps)
            if best is None or trial.offered_pps > best.offered_pps:
                best = trial
            if not kept_up:
                break  # the tester is the limit
        else:
            high = min(high, rate)
        if low and high / low < CLOSE:
            break
        rate = low * step if high == float("inf") else (low + high) / 2 if low else high / step
    return best or trial


def spread(values: list[float]) -> dict[str, float]:
    """Return min, median and max."""
    return {"min": round(min(values), 3), "median": round(median(values), 3), "max": round(max(values), 3)}
