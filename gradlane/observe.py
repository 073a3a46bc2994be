# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the switches counted between two moments, for the traffic part, which knows no controller."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from controller.compiler.classification import classes
from controller.fleet import on_each
from controller.p4rt.entities import Between, Call, Exact, FieldMatch, Masked, TableEntry
from controller.policy import Policy
from controller.reconcile import Controller
from controller.telemetry import REASONS, Counts, ProgramCounts, delay_quantile_us, program_counts
from controller.views import Drop, drops
from topologies.errors import FailureError
from topologies.model import Fabric, Port
from topologies.routes import next_hops
from topologies.state import RunningFabric
from traffic.replay.observe import Observation, PathShares
from traffic.replay.summary import Classifier, Kind
from traffic.report import Delay


@dataclass(frozen=True)
class Snapshot:
    """What all switches have counted so far: their programs by switch, and all drops by reason."""

    counts: Mapping[str, ProgramCounts]
    drops: Mapping[str, int]


@dataclass(frozen=True)
class Interval:
    """What all switches counted from one moment to another."""

    fabric: Fabric
    before: Snapshot
    after: Snapshot

    def forwarded(self, switch: str) -> Counts:
        """Return the packets that a switch let pass, of shape (port index, class)."""
        before, after = self.before.counts[switch], self.after.counts[switch]
        return (after.kept + after.marked + after.trimmed) - (before.kept + before.marked + before.trimmed)

    def paths(self, sink: str) -> PathShares:
        """Return how each switch with a choice of paths towards a host split its packets over the next hops to it.

        The counters know no destinations: other traffic through the same ports counts too.
        """
        shares: dict[str, dict[str, float]] = {}
        for switch, hosts in next_hops(self.fabric).items():
            ports = [self.fabric.port(switch, number) for number in hosts[sink]]
            sent = [int(self.forwarded(switch)[port.index].sum()) for port in ports]
            if len(ports) > 1 and (total := sum(sent)):
                shares[switch] = {port.peer.node: packets / total for port, packets in zip(ports, sent, strict=True)}
        return shares

    def congested(self) -> Port:
        """Return the port to which the programs dropped or trimmed most packets, else the busiest."""
        ports = [port for switch in self.fabric.switches for port in self.fabric.ports(switch.name)]
        return max(ports, key=lambda port: (self._lost(port), int(self.forwarded(port.switch)[port.index].sum())))

    def _lost(self, port: Port) -> int:
        after, before = self.after.counts[port.switch], self.before.counts[port.switch]
        dropped, trimmed = after.dropped - before.dropped, after.trimmed - before.trimmed
        return int(dropped[port.index].sum() + trimmed[port.index].sum())

    def drops(self) -> dict[str, int]:
        """Return the packets that all switches dropped, by reason: the program's, `tail`, and the switch's own."""
        reasons = dict.fromkeys([*REASONS[1:], *self.after.drops])
        return {reason: self.after.drops.get(reason, 0) - self.before.drops.get(reason, 0) for reason in reasons}

    def delays(self, port: Port) -> dict[int, Delay]:
        """Return the queueing delay of every class that a port sent."""
        after, before = self.after.counts[port.switch].delays, self.before.counts[port.switch].delays
        found = {}
        for class_, delays in enumerate(after[port.index] - before[port.index]):
            p50, p99 = delay_quantile_us(delays, 0.5), delay_quantile_us(delays, 0.99)
            if p50 is not None and p99 is not None:
                found[class_] = Delay(round(p50, 1), round(p99, 1), int(delays.sum()))
        return found


def snapshot(controller: Controller) -> Snapshot:
    """Look at every switch. Raises FailureError if one does not answer."""

    def work(name: str) -> tuple[ProgramCounts, list[Drop]]:
        with controller.connect(name) as connection:
            return program_counts(connection, controller.program.pipeline), drops(controller, name)

    counts: dict[str, ProgramCounts] = {}
    by_reason: Counter[str] = Counter()
    for name, found in on_each(controller.running.switches, work).items():
        if isinstance(found, FailureError):
            raise found
        counts[name], dropped = found
        for drop in dropped:
            by_reason[drop.reason] += drop.packets
    return Snapshot(counts, by_reason)


def classifier(policy: Policy) -> Classifier:
    """Return a function that classifies as the entries do that the controller writes for `policy`."""
    entries = sorted(
        (entity for entity in classes(policy) if isinstance(entity, TableEntry)), key=lambda e: -e.priority
    )
    rules = [(e.table, e.match, dict(e.action.arguments)["class"]) for e in entries if isinstance(e.action, Call)]

    def classify(kind: Kind) -> int:
        table = "gradient_class" if kind.gradient else "dscp_class"
        for of_table, match, class_ in rules:
            if of_table == table and all(_matches(wanted, getattr(kind, field)) for field, wanted in match):
                return class_
        return 0

    return classify


def _matches(match: FieldMatch, value: int) -> bool:
    match match:
        case Exact(wanted):
            return value == wanted
        case Masked(wanted, mask):
            return value & mask == wanted
        case Between(low, high):
            return low <= value <= high
    raise TypeError(f"classes are not told by {match}")


def observe(running: RunningFabric) -> Observation:
    """Begin to observe the running fabric, under the policy that it was given last."""
    controller = Controller.find()
    revision = controller.history.current()
    if revision is None:
        raise FailureError(f"fabric {running.fabric.name} was given no policy yet; see `gradctl policy apply`")
    before = snapshot(controller)
    return Observation(
        classifier(revision.policy), lambda sink: Interval(running.fabric, before, snapshot(controller)).paths(sink)
    )
