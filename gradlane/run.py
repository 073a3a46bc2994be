# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What `make run` does: `python -m gradlane --topology leaf_spine --policy dlcp --target softswitch`.

Starts the fabric, installs the policy, sends a recorded training job over it from four workers to one server, faster
than the server's link, shows what the fabric did with it, trains live with the same hosts over the transport, and opens
Mininet's prompt if there is a terminal.
"""

from __future__ import annotations

import argparse
import logging
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from rich.console import Console

import topologies
from controller import cli as gradctl
from controller import policy as policies
from controller.policy import Policy
from controller.reconcile import Controller, install
from controller.reroute import Rerouter
from gradlane import live, observe, uneven
from gradlane.prepare import prepare
from gradlane.uneven_job import Trained
from topologies.errors import GradlaneError, UsageError
from topologies.mininet_fabric import MininetFabric
from topologies.model import Fabric
from topologies.units import format_rate
from traffic import report
from traffic.hosts import site_of
from traffic.live import Round
from traffic.replay import session
from traffic.replay.session import Timing
from traffic.replay.sources import trace_stream
from traffic.replay.stream import Stream
from traffic.replay.summary import Kind, Summary, summarise
from traffic.report import RunReport
from traffic.wire import FRAME_OVERHEAD, GradientType

OVERLOAD = 0.3
"""How much more than the last link carries the workers send."""
WORKERS = 4
PAUSE = 0.03
"""Seconds between rounds, in which workers compute and queues drain."""
SECONDS, FLOW_HASH_SECONDS, TRAINING_SECONDS = 12.0, 4.0, 12.0
FLOW_HASH, FLOW_HASH_POLICY = "flow_hash", "ecmp_flow"
OUTPUT = Path("build/run")
SLOWDOWN = {"bmv2": 5}
"""Targets that need tens of microseconds of CPU for a packet have links this many times slower."""

_FABRIC_LOG = logging.getLogger("topologies.mininet_fabric")


@dataclass(frozen=True)
class Incast:
    """Several workers that send to one server, together faster than its link."""

    workers: tuple[str, ...]
    server: str
    rate_bps: int
    """Of the server's link."""

    @staticmethod
    def of(fabric: Fabric) -> Incast:
        """Choose hosts: workers from the first switch on, the server behind the last. Raises UsageError."""
        last = [switch.name for switch in fabric.switches if fabric.hosts_of(switch.name)][-1]
        behind_last = fabric.hosts_of(last)
        server = behind_last[0] if len(behind_last) < len(fabric.hosts) else behind_last[-1]
        workers = tuple(host.name for host in fabric.hosts if host != server)[:WORKERS]
        if len(workers) < 2:
            raise UsageError(f"fabric {fabric.name} has {len(fabric.hosts)} hosts; an incast needs at least 3")
        rate = fabric.link(server.name, last).rate_from(last)
        if rate is None:
            raise UsageError(
                f"the link of {server.name} has no rate, so nothing can congest it; give `host_link` a rate"
            )
        return Incast(workers, server.name, rate)

    def timing(self, streams: list[Stream], seconds: float) -> Timing:
        """Return how to send whole rounds for about `seconds`."""
        rate = self.rate_bps * (1 + OVERLOAD) / len(self.workers)
        round_seconds = 8 * max(stream.bytes_per_round(FRAME_OVERHEAD[4]) for stream in streams) / rate + PAUSE
        return Timing(rate, ceil(seconds / round_seconds), PAUSE)


@dataclass(frozen=True)
class Phase:
    """What one policy did with the incast."""

    mode: str
    summary: Summary
    interval: observe.Interval


class Experiment:
    """The incast on a fabric that is up, under one policy after another."""

    def __init__(self, net: MininetFabric, incast: Incast, streams: list[Stream]) -> None:
        self._net = net
        self._controller = Controller.find(net.state_path)
        self._incast = incast
        self._streams = streams

    def send(self, policy: Policy, seconds: float) -> Phase:
        """Send under `policy`, which is installed, for about `seconds`, and return what became of it."""
        incast, running = self._incast, self._net.running
        sources = [site_of(running, name) for name in incast.workers]
        server = site_of(running, incast.server)
        timing = incast.timing(self._streams, seconds)
        before = observe.snapshot(self._controller)
        outcome = session.run(list(zip(sources, self._streams, strict=True)), server, timing, self._net.check)
        self._net.check()
        after = observe.snapshot(self._controller)
        classify = observe.classifier(policy)
        front = Kind(gradient=True, job=1, type=GradientType.DATA, layer=0, dscp=0)
        mode = policy.paths.of_class(classify(front))
        return Phase(mode, summarise(outcome, classify), observe.Interval(running.fabric, before, after))


def run(
    topology: str,
    policy_name: str,
    target: str,
    console: Console,
    *,
    interactive: bool = False,
    seconds: float = SECONDS,
    flow_hash_seconds: float = FLOW_HASH_SECONDS,
    training_seconds: float = TRAINING_SECONDS,
    output: Path = OUTPUT,
    instance: int | None = 0,
    state_path: Path | None = None,
) -> RunReport:
    """Run everything from start to end. Raises GradlaneError; leaves nothing running.

    `instance` and `state_path` are those of MininetFabric.
    """
    fabric, policy = topologies.load(topology), policies.load(policy_name)
    if by := SLOWDOWN.get(target):
        fabric = slowed(fabric, by)
        console.print(f"{target} is slow: every link runs at 1/{by} of its rate")
    incast = Incast.of(fabric)
    recorded = prepare()
    streams = [trace_stream(recorded, worker) for worker in range(len(incast.workers))]
    began = time.monotonic()
    with MininetFabric(fabric, target, instance=instance, state_path=state_path) as net:
        installed = install(net.state_path, policy)
        startup = time.monotonic() - began
        console.print(
            f"{fabric.name}: {len(fabric.switches)} switches ({target}) and {len(fabric.hosts)} hosts under policy "
            f"{policy.name}, in {startup:.1f} s"
        )
        console.print(
            f"{' '.join(incast.workers)} send gradients of {recorded.workload} training to {incast.server}, "
            f"{1 + OVERLOAD:.0%} of what its link of {format_rate(incast.rate_bps)}bit/s carries"
        )
        for notice in installed.notices:
            console.print(f"note: {notice}")
        experiment = Experiment(net, incast, streams)
        asked = experiment.send(policy, seconds)
        phases = [asked]
        if asked.mode != FLOW_HASH:
            by_flow = policies.load(FLOW_HASH_POLICY)
            console.print(f"the same with one path per flow (policy {by_flow.name})")
            install(net.state_path, by_flow)
            phases.append(experiment.send(by_flow, flow_hash_seconds))
            install(net.state_path, policy)
        console.print(f"{' '.join(incast.workers)} train live with {incast.server} as their parameter server")

        def moved(told: Round) -> None:
            console.print(report.progress(told))

        training = live.train(net.running, incast.workers, incast.server, training_seconds, net.check, moved)
        net.check()
        congested = asked.interval.congested()
        result = RunReport(
            topology=fabric.name,
            policy=policy.name,
            target=target,
            startup_s=startup,
            overload=OVERLOAD,
            delivery=asked.summary,
            congested=f"{congested.switch} → {congested.peer.node}",
            queue_delay_us=asked.interval.delays(congested),
            paths={phase.mode: phase.interval.paths(incast.server) for phase in phases},
            drops=asked.interval.drops(),
            training=training,
        )
        report.write(result, output)
        report.show(result, console)
        console.print(f"\nwritten: {output}/summary.json, {output}/summary.png")
        if interactive:
            _open_prompt(net)
    return result


def run_uneven(
    topology: str,
    policy_name: str,
    target: str,
    console: Console,
    *,
    interactive: bool = False,
    output: Path = OUTPUT,
    instance: int | None = 0,
    state_path: Path | None = None,
) -> list[Trained]:
    """Train with workers of unequal speed, synchronously and with ABS-SGD. Raises GradlaneError as `run` does."""
    fabric, policy = topologies.load(topology), policies.load(policy_name)
    incast = Incast.of(fabric)
    with MininetFabric(fabric, target, instance=instance, state_path=state_path) as net:
        install(net.state_path, policy)
        console.print(f"{fabric.name} ({target}) under policy {policy.name}")
        found = uneven.run(net.running, incast.workers, incast.server, net.check, console, output)
        if interactive:
            _open_prompt(net)
    return found


def slowed(fabric: Fabric, by: int) -> Fabric:
    """Return the same fabric with links `by` times slower."""

    def slow(rate: int | None) -> int | None:
        return rate and rate // by

    links = (
        replace(link, rate_bps=slow(link.rate_bps), reverse_rate_bps=slow(link.reverse_rate_bps))
        for link in fabric.links
    )
    return replace(fabric, links=tuple(links))


def _open_prompt(net: MininetFabric) -> None:
    from mininet.log import lg  # after the fabric has told whether Mininet is there

    _FABRIC_LOG.removeFilter(_no_deaths)
    lg.propagate = False  # what Mininet prints is its log, which gradctl's log would print again
    with Rerouter(Controller.find(net.state_path)):
        net.prompt(verbs(net.state_path))


def _no_deaths(record: logging.LogRecord) -> bool:
    """Keep a switch's death out of the log where it ends the run, which says so itself."""
    return record.levelno < logging.ERROR


def verbs(state_path: Path) -> dict[str, Callable[[str], None]]:
    """Return what Mininet's prompt learns from gradctl, each with gradctl's own arguments and options."""

    def verb(name: str) -> Callable[[str], None]:
        def call(line: str) -> None:
            try:
                arguments = shlex.split(line)
            except ValueError as error:  # a quotation that nobody closed
                raise UsageError(f"{name} {line}: {error}") from None
            gradctl.run(gradctl.app, [name, "--fabric-state", str(state_path), *arguments])

        call.__doc__ = f"The same as `gradctl {name}`, with its arguments and options."
        return call

    return {name: verb(name) for name in ("queues", "drops", "paths")}


JOBS: dict[str, Callable[..., object]] = {"live": run, "abs_sgd": run_uneven}


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit code. A user's mistake prints one line."""
    parser = argparse.ArgumentParser(prog="python -m gradlane", description=__doc__)
    parser.add_argument("--topology", default="leaf_spine", help="name of a topology, or the path of its YAML file")
    parser.add_argument("--policy", default="dlcp", help="name of a policy, or the path of its YAML file")
    parser.add_argument("--target", default="softswitch", help="what runs the switches: softswitch, bmv2")
    parser.add_argument("--job", default="live", help=f"what the hosts do: {', '.join(JOBS)}")
    options = parser.parse_args(arguments)
    _FABRIC_LOG.addFilter(_no_deaths)
    try:
        if (job := JOBS.get(options.job)) is None:
            raise UsageError(f"there is no job {options.job!r}; there are {', '.join(JOBS)}")
        job(options.topology, options.policy, options.target, Console(highlight=False), interactive=sys.stdin.isatty())
    except GradlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:  # a folder that cannot be written, a disk that is full
        print(f"error: {error.filename or 'run'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0
