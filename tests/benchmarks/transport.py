# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The transport against iperf3's TCP on the same link, and what it does per CPU second: build/bench/transport.json.

Two namespaces of its own, joined by a veth. `shaped`: a token bucket of 100 Mbit/s with a 64-packet queue at both ends
and offloads off, as the links of a fabric are. `plain`: nothing in between. Methods alternate; medians are reported.

    goodput_vs_tcp        goodput of the transport over that of TCP, shaped
    veth_gbps_per_core    Gbit per CPU second of the busier end, plain
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from tests.benchmarks.bed import ip
from traffic.packer import TensorId
from traffic.transport.rate import RateSettings
from traffic.transport.receiver import Expectation
from traffic.transport.sender import SendReport
from traffic.transport.settings import Settings
from traffic.transport.sockets import SocketEndpoint

OUTPUT = Path("build/bench/transport.json")
SENDER, RECEIVER = "10.99.0.1", "10.99.0.2"
SHAPED_BPS = 100_000_000
QUEUE_BYTES = 64 * 1514
WARM_ROUNDS = 3
IN_FLIGHT = 3


@dataclass(frozen=True)
class Link:
    """A link, and how much of it a message takes."""

    name: str
    shaped: bool
    values: int
    line: float


PATHS = (
    Link("shaped", True, 270_000, SHAPED_BPS),
    Link("plain", False, 2_000_000, 40e9),
)


@contextlib.contextmanager
def link(shaped: bool) -> Iterator[tuple[str, str]]:
    """Give the names of two namespaces that a veth joins, and always remove them."""
    names = (f"gltr{os.getpid()}a", f"gltr{os.getpid()}b")
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "eth0", "netns", names[0], "type", "veth", "peer", "name", "eth0", "netns", names[1])
        for name, address in zip(names, (SENDER, RECEIVER), strict=True):
            inside = ["ip", "netns", "exec", name]
            ip("-n", name, "address", "add", f"{address}/24", "dev", "eth0")
            settings = ["tx", "off"] if shaped else ["gro", "on"]
            subprocess.run([*inside, "ethtool", "-K", "eth0", *settings], check=True, capture_output=True)
            ip("-n", name, "link", "set", "eth0", "up")
            if shaped:
                bucket = ["tbf", "rate", f"{SHAPED_BPS}bit", "burst", "3028", "limit", str(QUEUE_BYTES)]
                subprocess.run(["tc", "-n", name, "qdisc", "add", "dev", "eth0", "root", *bucket], check=True)
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True, check=False)


def end(role: str, values: int, rounds: int, line: float) -> dict[str, float]:
    """Run one end of a transfer of `rounds` messages; called in its namespace."""
    settings = Settings(rate=RateSettings(line=line))
    mine, other = (SENDER, RECEIVER) if role == "send" else (RECEIVER, SENDER)
    data = np.random.default_rng(0).normal(size=values).astype(np.float32)
    outs = [np.zeros(values, np.float32) for _ in range(IN_FLIGHT)]
    with SocketEndpoint(mine, settings=settings) as endpoint:
        peer = endpoint.peer(other)
        print("ready", flush=True)
        sys.stdin.readline()
        flying: deque[Future[Any]] = deque()
        times: list[float] = []
        cpu = 0.0
        sent = 0
        for number in range(rounds + IN_FLIGHT):
            if len(flying) == IN_FLIGHT:
                report = flying.popleft().result(60)
                sent += report.sent if isinstance(report, SendReport) else 0
                if number - IN_FLIGHT == WARM_ROUNDS - 1:
                    cpu, sent = time.process_time(), 0
            if number < rounds:
                ids = TensorId(round=number)
                if role == "send":
                    flying.append(endpoint.send(peer, data, ids))
                else:
                    out = outs[number % IN_FLIGHT]
                    flying.append(endpoint.receive(peer, ids, Expectation(out=out)).result)
                flying[-1].add_done_callback(lambda _: times.append(time.monotonic()))
        seconds, used = times[-1] - times[WARM_ROUNDS - 1], time.process_time() - cpu
        if role == "receive" and not np.array_equal(outs[(rounds - 1) % IN_FLIGHT], data):
            raise SystemExit("values arrived that were not sent")
    bits = (rounds - WARM_ROUNDS) * values * 32
    packets = -(-values // 360) * (rounds - WARM_ROUNDS)
    return {
        "goodput_bps": bits / seconds,
        "gbps_per_core": bits / used / 1e9,
        "packets_per_needed": sent / packets if role == "send" else 1.0,
    }


def transport(names: tuple[str, str], path: Link, rounds: int) -> dict[str, float]:
    """Return what a transfer by the transport did."""
    processes = []
    try:
        for name, role in zip(names, ("send", "receive"), strict=True):
            line = ["ip", "netns", "exec", name, sys.executable, "-m", "tests.benchmarks.transport", "--end", role]
            line += ["--values", str(path.values), "--rounds", str(rounds), "--line", str(path.line)]
            processes.append(subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        for process in processes:
            assert process.stdin and process.stdout
            if process.stdout.readline() != "ready\n":
                raise SystemExit("an end of the transport did not start")
        for process in reversed(processes):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        sender, receiver = (json.loads(process.communicate(timeout=120)[0]) for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return {
        "goodput_bps": receiver["goodput_bps"],
        "sender_gbps_per_core": sender["gbps_per_core"],
        "receiver_gbps_per_core": receiver["gbps_per_core"],
        "packets_per_needed": sender["packets_per_needed"],
    }


def tcp(names: tuple[str, str], seconds: float, algorithm: str) -> dict[str, float]:
    """Return what a transfer by iperf3 did."""
    listen = ["ip", "netns", "exec", names[1], "iperf3", "-s", "-1", "-B", RECEIVER, "--forceflush"]
    with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            for text in server.stdout:
                if "listening" in text:
                    break
            run = ["ip", "netns", "exec", names[0], "iperf3", "-c", RECEIVER, "-J"]
            run += ["-t", str(seconds), "-O", "1", "-C", algorithm]
            done = subprocess.run(run, capture_output=True, text=True, check=True, timeout=seconds + 30)
        finally:
            server.terminate()
    found = json.loads(done.stdout)["end"]
    return {"goodput_bps": found["sum_received"]["bits_per_second"]}


def measure(rounds: int, seconds: float) -> dict[str, Any]:
    """Run every method on every path in turn, and return the summary."""
    rows: list[dict[str, Any]] = []
    for path in PATHS:
        with link(path.shaped) as names:
            for number in range(rounds):
                messages = WARM_ROUNDS + max(round(seconds * min(path.line, 4e9) / (path.values * 32)), 5)
                rows.append({"path": path.name, "method": "gradlane", **transport(names, path, messages)})
                for algorithm in ("cubic", "bbr") if path.shaped else ():
                    rows.append({"path": path.name, "method": f"tcp {algorithm}", **tcp(names, seconds, algorithm)})
                print(f"{path.name} {number + 1}: ", *(f"{row['method']} {row['goodput_bps'] / 1e6:,.1f} Mbit/s" for row in rows[-3 if path.shaped else -1 :]))  # fmt: skip # noqa: E501

    def middle(path: str, method: str, key: str) -> float:
        return median(row[key] for row in rows if (row["path"], row["method"]) == (path, method))

    best = max(middle("shaped", f"tcp {algorithm}", "goodput_bps") for algorithm in ("cubic", "bbr"))
    ends = {role: middle("plain", "gradlane", f"{role}_gbps_per_core") for role in ("sender", "receiver")}
    return {
        "goodput_vs_tcp": middle("shaped", "gradlane", "goodput_bps") / best,
        "veth_gbps_per_core": min(ends.values()),
        "veth_gbps_per_core_by_end": ends,
        "rows": rows,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="of each transfer")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--end", choices=["send", "receive"], help=argparse.SUPPRESS)
    parser.add_argument("--values", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--line", type=float, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.end:
        print(json.dumps(end(options.end, options.values, options.rounds, options.line)), flush=True)
        return 0
    if os.geteuid():
        print("the transport benchmark makes network namespaces: run it as root", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    summary = measure(options.repeat, options.seconds)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(summary, indent=2) + "\n")
    print(f"goodput over TCP's      {summary['goodput_vs_tcp']:.3f}  (shaped to {SHAPED_BPS / 1e6:g} Mbit/s)")
    ends = summary["veth_gbps_per_core_by_end"]
    print(f"Gbit per CPU second     sender {ends['sender']:.1f}, receiver {ends['receiver']:.1f}  (plain veth)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
