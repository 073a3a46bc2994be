# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Measure the controller on fabrics of embedded switches: entries, telemetry, reaction to a cut link.

`make bench BENCH=controller` prints and writes build/bench/controller.json: `entries` (seconds to install and read back
10,000 entries on one switch), `telemetry` (share of a core that 20 switches at 1 Hz cost), `reroute` (milliseconds from
the first to the last packet lost to a cut link, of one sent each millisecond), `reinstall` (seconds until a switch
killed under load answers again, and from then until it has program and entries); medians with minimum and maximum.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import topologies
from controller import policy
from controller.meter import Meter
from controller.p4rt.entities import Call, Prefix, TableEntry
from controller.reconcile import Controller, install
from controller.reroute import Rerouted, Rerouter
from tests.benchmarks.bed import spread
from topologies import processes
from topologies.mininet_fabric import MininetFabric

OUTPUT = Path("build/bench/controller.json")
ENTRIES = 10_000
LOOKS, LOOK_SECONDS = 10, 1.0
PACKETS, PACKET_SECONDS = 1500, 0.001
LOAD_PACKETS, LOAD_SECONDS = 40_000, 0.0001
CUT_AFTER = 0.3
PATIENCE = 60.0

SENDER = """
import socket, struct, sys, time
to, count, gap = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
flows = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(16)]  # some take the link, however they hash
due = time.monotonic()
for number in range(count):
    flows[number % 16].sendto(struct.pack("!I", number), (to, 9000))
    due += gap
    time.sleep(max(0.0, due - time.monotonic()))
for _ in range(20):
    flows[0].sendto(struct.pack("!I", count), (to, 9000))
    time.sleep(gap)
"""
RECEIVER = """
import socket, struct, sys
count, arrived = int(sys.argv[1]), set()
inside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
inside.settimeout(30)
inside.bind(("", 9000))
print("ready", flush=True)
while count not in arrived:
    arrived.add(struct.unpack("!I", inside.recv(16))[0])
lost = sorted(set(range(count)) - arrived)
print(lost[-1] - lost[0] + 1 if lost else 0, len(lost))
"""


@contextmanager
def running(topology: str) -> Iterator[MininetFabric]:
    """Run a fabric of its own names, under the default policy."""
    with processes.scratch("bench", os.environ) as folder:
        options: dict[str, Any] = {"instance": None, "state_path": Path(folder) / "fabric.json", "logs": folder}
        with MininetFabric(topologies.load(topology), "softswitch", **options) as net:
            install(net.state_path, "dlcp")
            yield net


def entries(rounds: int) -> dict[str, float]:
    """Return seconds to install 10,000 routes beside the policy's entries and to read everything back."""
    seconds = []
    with running("single") as net:
        controller = Controller.find(net.state_path)
        name = controller.names()[0]
        desired = controller.compile(policy.load("dlcp"))[name]
        routes = tuple(
            TableEntry(
                "ipv4_route",
                (("destination", Prefix(0x0B00_0000 + number, 32)),),
                Call("set_next_hop", (("next_hop", 1),)),
            )
            for number in range(ENTRIES)
        )
        for _ in range(rounds):
            with controller.device(name) as device:
                began = time.monotonic()
                applied = device.apply(replace(desired, entities=desired.entities + routes))
                seconds.append(time.monotonic() - began)
                if applied.error is not None or applied.changed != ENTRIES:
                    raise SystemExit(f"{applied.changed} of {ENTRIES} entries installed: {applied.error}")
                device.apply(desired)
    return spread(seconds)


def telemetry() -> dict[str, float]:
    """Return the share of a core that looking at 20 switches once a second takes here."""
    shares = []
    with running("fat_tree_4") as net, Meter(Controller.find(net.state_path)) as meter:
        meter.look()
        for _ in range(LOOKS):
            began, cpu = time.monotonic(), time.process_time()
            look = meter.look()
            if look.errors:
                raise SystemExit(next(iter(look.errors.values())))
            time.sleep(max(0.0, LOOK_SECONDS - (time.monotonic() - began)))
            shares.append((time.process_time() - cpu) / (time.monotonic() - began))
    return spread(shares)


def reroute(rounds: int) -> dict[str, float]:
    """Return milliseconds between the first and the last packet that a cut link cost."""
    outages = []
    with running("leaf_spine") as net:
        told: SimpleQueue[Rerouted] = SimpleQueue()
        target = net.fabric.host("h5").ipv4
        for _ in range(rounds):
            with Rerouter(Controller.find(net.state_path), told.put):
                receive = [sys.executable, "-c", RECEIVER, str(PACKETS)]
                with net.hosts["h5"].popen(receive, stdout=subprocess.PIPE, text=True) as receiver:
                    receiver.stdout.readline()
                    send = [sys.executable, "-c", SENDER, target, str(PACKETS), str(PACKET_SECONDS)]
                    with net.hosts["h1"].popen(send) as sender:
                        time.sleep(CUT_AFTER)
                        net.link_down("leaf2", "spine1")
                        sender.wait(PATIENCE)
                    window, lost = map(int, receiver.communicate(timeout=PATIENCE)[0].split())
                outages.append(window * PACKET_SECONDS * 1000)
                print(f"cut link: {lost} of {PACKETS} packets lost within {outages[-1]:.0f} ms", flush=True)
                net.link_up("leaf2", "spine1")
                while told.get(timeout=PATIENCE).failed:
                    pass
    return spread(outages)


def reinstall(rounds: int) -> dict[str, dict[str, float]]:
    """Kill a switch under load, start it anew, and return the seconds that it and its controller take."""
    starts, installs = [], []
    with running("single") as net, Rerouter(Controller.find(net.state_path), (told := SimpleQueue[Rerouted]()).put):
        target = net.fabric.host("h2").ipv4
        died = threading.Event()
        net.on_switch_death(lambda _: died.set())
        for _ in range(rounds):
            load = [sys.executable, "-c", SENDER, target, str(LOAD_PACKETS), str(LOAD_SECONDS)]
            with net.hosts["h1"].popen(load) as sender:
                time.sleep(CUT_AFTER)
                died.clear()
                process = net.running.switches["s1"].process
                assert process is not None
                os.kill(process.pid, signal.SIGKILL)
                if not died.wait(PATIENCE):
                    raise SystemExit("the switch's end is not noticed")
                began = time.monotonic()
                net.start_switch("s1")
                answered = time.monotonic()
                while not (reaction := told.get(timeout=PATIENCE)).changed.get("s1"):
                    if reaction.errors:
                        raise SystemExit(next(iter(reaction.errors.values())))
                installs.append(max(time.monotonic() - answered, reaction.seconds))
                starts.append(answered - began)
                sender.kill()
            print(
                f"killed switch: answers after {starts[-1]:.2f} s, has its entries {installs[-1]:.2f} s later",
                flush=True,
            )
    return {"start": spread(starts), "install": spread(installs)}


def main(arguments: list[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args(arguments)
    if os.geteuid():
        print("the controller benchmark runs Mininet fabrics: run it as root", file=sys.stderr)
        return 2
    result = {
        "entries": {"count": ENTRIES, "seconds": entries(options.rounds)},
        "telemetry": {"switches": 20, "hertz": 1 / LOOK_SECONDS, "cores": telemetry()},
        "reroute": {"outage_ms": reroute(options.rounds)},
        "reinstall": {"seconds": reinstall(options.rounds)},
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps(result, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
