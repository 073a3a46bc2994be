# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The transport against TCP on the same path, and what it does per CPU second: build/bench/transport.json.

`fabric`: from h1 to h5 of leaf_spine, over switches and links of 100 Mbit/s. `shaped`: two namespaces joined by a veth
with a token bucket of 100 Mbit/s and a 64-packet queue at both ends, offloads off. `plain`: a veth with nothing in
between. Methods alternate; medians are reported. TCP is one warm connection, cubic's or bbr's, whichever does better.

    goodput_vs_tcp        goodput of the transport over that of TCP, fabric
    veth_gbps_per_core    Gbit per CPU second of the busier end, plain
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import topologies
from controller.reconcile import install
from tests.benchmarks.bed import ip
from topologies import namespaces, processes
from topologies.mininet_fabric import MininetFabric
from topologies.processes import go_first
from traffic.hosts import site_of
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
TCP_PORT = 5201
WARM_SECONDS = 1.0
ALGORITHMS = "cubic", "bbr"


@dataclass(frozen=True)
class Place:
    """Where an end of a transfer runs: the command that enters its namespace, and its address there."""

    enter: tuple[str, ...]
    address: str


Ends = tuple[Place, Place]


@contextlib.contextmanager
def fabric() -> Iterator[Ends]:
    """Give two hosts of a running fabric."""
    with processes.scratch("bench", os.environ) as folder:
        path = Path(folder) / "fabric.json"
        with MininetFabric(topologies.load("leaf_spine"), instance=None, state_path=path, logs=Path(folder)) as net:
            install(path, "dlcp").check()
            sites = [site_of(net.running, name) for name in ("h1", "h5")]
            yield Place(sites[0].enter, sites[0].station.ipv4), Place(sites[1].enter, sites[1].station.ipv4)


@contextlib.contextmanager
def veth(shaped: bool) -> Iterator[Ends]:
    """Give two namespaces that a veth joins, and always remove them."""
    with namespaces.made("sender", "receiver") as names:
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
        yield Place(("ip", "netns", "exec", names[0]), SENDER), Place(("ip", "netns", "exec", names[1]), RECEIVER)


@dataclass(frozen=True)
class Stretch:
    """A path, and how much of it a message takes."""

    name: str
    ends: Callable[[], contextlib.AbstractContextManager[Ends]]
    values: int
    line: float
    against_tcp: bool


PATHS = (
    Stretch("fabric", fabric, 270_000, SHAPED_BPS, True),
    Stretch("shaped", partial(veth, True), 270_000, SHAPED_BPS, True),
    Stretch("plain", partial(veth, False), 2_000_000, 40e9, False),
)


def end(role: str, mine: str, other: str, values: int, rounds: int, line: float) -> dict[str, float]:
    """Run one end of a transfer of `rounds` messages; called in its namespace."""
    settings = Settings(rate=RateSettings(line=line))
    data = np.random.default_rng(0).normal(size=values).astype(np.float32)
    outs = [np.zeros(values, np.float32) for _ in range(IN_FLIGHT)]
    with SocketEndpoint(mine, settings=settings) as endpoint:
        peer = endpoint.peer(other)
        print("ready", flush=True)
        sys.stdin.readline()
        flying: deque[Future[Any]] = deque()
        sent = 0

        def exchange(numbers: range) -> None:
            """Send or receive these messages, IN_FLIGHT at a time, and wait until the last is through."""
            nonlocal sent
            for number in (*numbers, *[None] * IN_FLIGHT):
                if flying and (number is None or len(flying) == IN_FLIGHT):
                    report = flying.popleft().result(60)
                    sent += report.sent if isinstance(report, SendReport) else 0
                if number is None:
                    continue
                ids = TensorId(round=number)
                if role == "send":
                    flying.append(endpoint.send(peer, data, ids))
                else:
                    out = outs[number % IN_FLIGHT]
                    flying.append(endpoint.receive(peer, ids, Expectation(out=out)).result)

        exchange(range(WARM_ROUNDS))
        for out in outs:
            out.fill(0)
        sent, began, cpu = 0, time.monotonic(), time.process_time()
        exchange(range(WARM_ROUNDS, rounds))
        seconds, used = time.monotonic() - began, time.process_time() - cpu
        if role == "receive" and not all(np.array_equal(out, data) for out in outs):
            raise SystemExit("values arrived that were not sent")
    bits = (rounds - WARM_ROUNDS) * values * 32
    packets = -(-values // 360) * (rounds - WARM_ROUNDS)
    return {
        "goodput_bps": bits / seconds,
        "gbps_per_core": bits / used / 1e9,
        "packets_per_needed": sent / packets if role == "send" else 1.0,
    }


def tcp_end(role: str, mine: str, other: str, seconds: float, algorithm: str) -> dict[str, float]:
    """Run one end of a TCP transfer; called in its namespace. The first second does not count."""
    with socket.socket() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())
        if role == "send":
            print("ready", flush=True)
            sys.stdin.readline()
            connection.connect((other, TCP_PORT))
            block, until = bytes(1 << 18), time.monotonic() + WARM_SECONDS + seconds
            while time.monotonic() < until:
                connection.sendall(block)
            return {}
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        connection.bind((mine, TCP_PORT))
        connection.listen()
        print("ready", flush=True)
        sys.stdin.readline()
        accepted, _ = connection.accept()
        with accepted:
            into, warm, taken = bytearray(1 << 18), time.monotonic() + WARM_SECONDS, 0
            last = warm
            while count := accepted.recv_into(into):
                last = time.monotonic()
                taken += count if last > warm else 0
        return {"goodput_bps": 8 * taken / (last - warm)}


def both(ends: Ends, *arguments: str) -> tuple[dict[str, float], dict[str, float]]:
    """Run both ends of a transfer in their namespaces and return what they report."""
    processes = []
    try:
        for number, role in enumerate(("send", "receive")):
            line = [*ends[number].enter, sys.executable, "-m", "tests.benchmarks.transport", "--end", role]
            line += ["--mine", ends[number].address, "--other", ends[1 - number].address, *arguments]
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            processes.append(subprocess.Popen(line, start_new_session=True, **pipes))
            go_first(processes[-1].pid)  # what else runs on the machine is not the path's
        for process in processes:
            assert process.stdin and process.stdout
            if process.stdout.readline() != "ready\n":
                raise SystemExit("an end of a transfer did not start")
        for process in reversed(processes):
            assert process.stdin
            process.stdin.write("go\n")
            process.stdin.flush()
        sender, receiver = (json.loads(process.communicate(timeout=120)[0]) for process in processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return sender, receiver


def transport(ends: Ends, path: Stretch, rounds: int) -> dict[str, float]:
    """Return what a transfer by the transport did."""
    sender, receiver = both(ends, "--values", str(path.values), "--rounds", str(rounds), "--line", str(path.line))
    return {
        "goodput_bps": receiver["goodput_bps"],
        "sender_gbps_per_core": sender["gbps_per_core"],
        "receiver_gbps_per_core": receiver["gbps_per_core"],
        "packets_per_needed": sender["packets_per_needed"],
    }


def tcp(ends: Ends, seconds: float, algorithm: str) -> dict[str, float]:
    """Return what a transfer by TCP did."""
    return both(ends, "--seconds", str(seconds), "--tcp", algorithm)[1]


def measure(rounds: int, seconds: float) -> dict[str, Any]:
    """Run every method on every path in turn, and return the summary."""
    rows: list[dict[str, Any]] = []
    for path in PATHS:
        with path.ends() as ends:
            for number in range(rounds):
                messages = WARM_ROUNDS + max(round(seconds * min(path.line, 4e9) / (path.values * 32)), 5)
                found = {"gradlane": transport(ends, path, messages)}
                if path.against_tcp:
                    found |= {f"tcp {algorithm}": tcp(ends, seconds, algorithm) for algorithm in ALGORITHMS}
                rows += [{"path": path.name, "method": method, **row} for method, row in found.items()]
                goodputs = [f"{method} {row['goodput_bps'] / 1e6:,.1f} Mbit/s" for method, row in found.items()]
                print(f"{path.name} {number + 1}: {', '.join(goodputs)}", flush=True)

    def middle(path: str, method: str, key: str) -> float:
        return median(row[key] for row in rows if (row["path"], row["method"]) == (path, method))

    ratios = {
        path.name: middle(path.name, "gradlane", "goodput_bps")
        / max(middle(path.name, f"tcp {algorithm}", "goodput_bps") for algorithm in ALGORITHMS)
        for path in PATHS
        if path.against_tcp
    }
    ends_do = {role: middle("plain", "gradlane", f"{role}_gbps_per_core") for role in ("sender", "receiver")}
    return {
        "goodput_vs_tcp": ratios["fabric"],
        "goodput_vs_tcp_by_path": ratios,
        "veth_gbps_per_core": min(ends_do.values()),
        "veth_gbps_per_core_by_end": ends_do,
        "rows": rows,
    }


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4, help="of each transfer")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    parser.add_argument("--end", choices=["send", "receive"], help=argparse.SUPPRESS)
    parser.add_argument("--mine", default="", help=argparse.SUPPRESS)
    parser.add_argument("--other", default="", help=argparse.SUPPRESS)
    parser.add_argument("--tcp", default="", help=argparse.SUPPRESS)
    parser.add_argument("--values", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--line", type=float, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.end:
        sides = options.end, options.mine, options.other
        if options.tcp:
            report = tcp_end(*sides, options.seconds, options.tcp)
        else:
            report = end(*sides, options.values, options.rounds, options.line)
        print(json.dumps(report), flush=True)
        return 0
    if os.geteuid():
        print("the transport benchmark makes network namespaces and a fabric: run it as root", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    summary = measure(options.repeat, options.seconds)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(summary, indent=2) + "\n")
    ratios = ", ".join(f"{path} {ratio:.3f}" for path, ratio in summary["goodput_vs_tcp_by_path"].items())
    print(f"goodput over TCP's      {ratios}  (links of {SHAPED_BPS / 1e6:g} Mbit/s)")
    ends = summary["veth_gbps_per_core_by_end"]
    print(f"Gbit per CPU second     sender {ends['sender']:.1f}, receiver {ends['receiver']:.1f}  (plain veth)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
