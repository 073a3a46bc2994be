# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The fabric of the demo with an agent in every host: new addresses for each hash draw, policies, TCP's settings."""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import topologies
from controller.device import Program
from controller.p4rt.pipeline import Pipeline
from controller.policy import Policy
from controller.reconcile import Controller
from gradlane.demo.agents import Agent, Answer, ask, collect
from topologies import addresses, processes
from topologies.errors import FailureError
from topologies.mininet_fabric import MininetFabric
from topologies.model import Fabric
from traffic import native
from traffic.exchanges import data
from traffic.exchanges.agent import Place
from traffic.exchanges.methods import Wiring
from traffic.transport import core

FABRIC = Path(__file__).with_name("fabric.yaml")
START_SECONDS = 60.0
DEADLINE_S = 15.0
LAST_DRAW = 253


@dataclass(frozen=True)
class Roles:
    """Which host does what."""

    workers: tuple[str, ...] = ("h1", "h2", "h7", "h8")
    servers: tuple[str, ...] = ("h3", "h9")
    hot: tuple[str, ...] = ("h4", "h10")
    """One behind each leaf; they keep a spine busy."""
    bursting: tuple[str, ...] = ("h5", "h6", "h11", "h12")
    """They burst, all at once, to a host of the job."""

    @property
    def job(self) -> tuple[str, ...]:
        """The hosts of the job."""
        return self.workers + self.servers


@dataclass(frozen=True)
class TcpTuning:
    """What the hosts' routes say of TCP, and how deep the switches' queues are."""

    congestion: str = "cubic"
    least_rto_ms: int = 200
    queue_packets: int = 256

    def __str__(self) -> str:
        return f"{self.congestion}, least RTO {self.least_rto_ms} ms, {self.queue_packets}-packet queues"


class Bed:
    """A fabric that is up, with agents; a context manager that leaves nothing behind."""

    def __init__(self, fabric: Fabric, roles: Roles, *, instance: int | None = 0, real_time: bool = True) -> None:
        """Hold a fabric; with `real_time` switches and hosts run before everything else on the machine."""
        self._net = MininetFabric(fabric, instance=instance)
        self.roles = roles
        self._real_time = real_time
        self._stack = ExitStack()
        self.workers: dict[int, Agent] = {}
        self.servers: dict[int, Agent] = {}
        self.others: dict[str, Agent] = {}
        self.refused = ""
        """Why switches and hosts do not run in real time, though they should."""
        self._pipeline = Pipeline.load()
        self._controller: Controller
        self._installed: Policy | None = None
        """The policy for the addresses of the current draw, once it is in the switches."""

    def __enter__(self) -> Bed:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *details: Any) -> None:
        self._stack.__exit__(*details)

    @property
    def fabric(self) -> Fabric:
        """The fabric under the addresses of the current draw."""
        return self._controller.running.fabric

    @property
    def controller(self) -> Controller:
        """Of the fabric under the addresses of the current draw."""
        return self._controller

    def check(self) -> None:
        """Raise FailureError if a switch has died."""
        self._net.check()

    def address(self, host: str) -> str:
        """Return a host's IPv4 address in the current draw."""
        return self.fabric.host(host).ipv4

    def draw(self, number: int) -> None:
        """Give every host another IPv4 address, so that flows hash to other paths. Policies are installed after."""
        fabric = renumbered(self._net.fabric, number)
        running = replace(self._net.running, fabric=fabric)
        self._installed = None
        self._controller = Controller(running, self._net.state_path, Program(self._pipeline), DEADLINE_S)
        for host in fabric.hosts:
            self._inside(
                host.name, "ip", "address", "replace", f"{host.ipv4}/32", "dev", fabric.interface(host.name, 0)
            )

    def install(self, policy: Policy) -> None:
        """Install a policy for the addresses of the current draw, unless it is there. Raises FailureError."""
        if policy != self._installed:
            self._controller.apply(policy).check()
            self._installed = policy

    def tune(self, tuning: TcpTuning) -> None:
        """Have the hosts' TCP follow the tuning's congestion control and least RTO."""
        for name in self.roles.job:
            interface = self.fabric.interface(name, 0)
            route = ["via", addresses.GATEWAY_IPV4, "dev", interface, "onlink", "src", self.address(name)]
            metrics = ["rto_min", f"{tuning.least_rto_ms}ms", "congctl", tuning.congestion]
            self._inside(name, "ip", "route", "replace", "default", *route, *metrics)

    def start_background(self, trace: Path, longest: float, lead: float = 0.3) -> None:
        """Begin the trace, so many seconds from now."""
        where = {host.name: host.ipv4 for host in self.fabric.hosts}
        begin = time.monotonic() + lead
        arguments = {"trace": str(trace), "addresses": where, "begin": begin, "longest": longest}
        ask(self.others, "start", START_SECONDS, self.check, **arguments)

    def stop_background(self) -> list[Answer]:
        """End the trace; returns what each host has sent and received of it."""
        return list(ask(self.others, "close", START_SECONDS, self.check).values())

    def open(self, track: str, model: str, seed: int, wiring: Wiring) -> int:
        """Open an exchange in all hosts of the job; returns the rounds that the track has done."""
        described = wiring.as_dict()
        if wiring.servers:
            ask(self.servers, "open", START_SECONDS, self.check, model=model, wiring=described)
        arguments = {"track": track, "model": model, "seed": seed, "wiring": described}
        answers = ask(self.workers, "open", START_SECONDS, self.check, **arguments)
        return int(answers[0]["rounds"])

    def train(self, rounds: int, every: int, compute: float, seconds: float) -> list[Answer]:
        """Train in all workers; returns their answers by rank."""
        return list(
            ask(self.workers, "train", seconds, self.check, rounds=rounds, every=every, compute=compute).values()
        )

    def close(self) -> list[Answer]:
        """Close the exchange everywhere; returns the servers' answers.

        Workers first: one that takes its leave of a server that is gone waits for as long as a job is patient.
        """
        ask(self.workers, "close", START_SECONDS, self.check)
        return list(ask(self.servers, "close", START_SECONDS, self.check).values())

    def forget(self, track: str) -> None:
        """Drop a track."""
        ask(self.workers, "forget", START_SECONDS, self.check, track=track)

    def switch_cpu_seconds(self) -> float:
        """Return the processor time that the switches have used, all together."""
        return sum(_cpu_seconds(pid) for pid in self._switch_pids())

    def _start(self, stack: ExitStack) -> None:
        native.build()  # here, where a missing compiler is an error of this process
        core.load()
        stack.enter_context(self._net)
        folder = Path(stack.enter_context(processes.scratch("demo", processes.environment(self._net.running.run))))
        data.save(folder)
        roles = self.roles
        count = len(roles.workers)

        def start(role: str, name: str, number: int) -> Agent:
            return stack.enter_context(Agent(self._net.running, Place(role, name, number, count, str(folder))))

        self.workers = {rank: start("worker", name, rank) for rank, name in enumerate(roles.workers)}
        self.servers = {number: start("server", name, number) for number, name in enumerate(roles.servers)}
        self.others = {host.name: start("background", host.name, 0) for host in self._net.fabric.hosts}
        everybody = [*self.workers.values(), *self.servers.values(), *self.others.values()]
        collect(dict(enumerate(everybody)), START_SECONDS, self._net.check)
        if self._real_time:
            pids = (*(agent.pid for agent in everybody), *self._switch_pids())
            if refusals := {why for pid in pids if (why := in_real_time(pid))}:
                self.refused = (
                    f"no real time for switches and hosts ({', '.join(refusals)}): what else runs on this machine shows"
                )
        self.draw(0)

    def _switch_pids(self) -> set[int]:
        return {switch.process.pid for switch in self._net.running.switches.values() if switch.process}

    def _inside(self, host: str, *command: str) -> None:
        pid = self._net.running.hosts[host].process.pid
        done = subprocess.run([*processes.inside(pid), *command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise FailureError(f"{' '.join(command)} in {host}: {done.stderr.strip()}")


def renumbered(fabric: Fabric, draw: int) -> Fabric:
    """Return the fabric with the IPv4 addresses of a hash draw: 10.<draw + 1>.<leaf>.<host>, in place of 10.0."""
    if not 0 <= draw <= LAST_DRAW:
        raise ValueError(f"there are {LAST_DRAW + 1} draws, not {draw + 1}")
    hosts = []
    for host in fabric.hosts:
        _, _, leaf, number = host.ipv4.split(".")
        hosts.append(replace(host, ipv4=f"10.{draw + 1}.{leaf}.{number}"))
    return replace(fabric, hosts=tuple(hosts))


def load_fabric(rate: float | None = None) -> Fabric:
    """Return the demo's fabric, with links of this rate in bit/s, unless they keep theirs."""
    fabric = topologies.load(FABRIC)
    if rate is None:
        return fabric
    bps = round(rate)
    return replace(fabric, links=tuple(replace(link, rate_bps=bps, reverse_rate_bps=bps) for link in fabric.links))


def in_real_time(pid: int) -> str:
    """Let all threads of a process go before what is no fabric's: else others' computing shows. Returns why not."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        try:
            os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))
        except ProcessLookupError:  # the thread has ended
            continue
        except OSError as error:
            return error.strerror or str(error)
    return ""


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
