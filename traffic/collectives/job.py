# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the ranks and servers of a job agree on, as one value and as a JSON file."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import math
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from topologies.errors import FailureError, UsageError
from traffic.collectives.plan import Plan, plan_of
from traffic.transport.authentication import Seal
from traffic.transport.loss import ErrorFeedback, Fill
from traffic.transport.rate import RateSettings
from traffic.transport.settings import Settings
from traffic.transport.timing import MILLISECOND, SECOND
from traffic.transport.tolerance import Direction, Tolerance
from traffic.wire import FRAME_OVERHEAD, FULL_FRAME, GRADIENT_PORT, IPV4_VALUES, IPV6_VALUES, MTU, VALUE_BYTES, DataType

PARAMETER_SERVER = "ps"


BURST = 8
"""Packets of each worker that may stand in a queue without being congestion."""
MAX_AHEAD = 4
"""Quanta of a peer's rate in a burst: where all send to one link, a burst takes a quantum of the link's."""
HEADROOM = 0.985
"""Share of a link that its only sender uses: a queue that was left when it made up for lost time drains, and what is in
its lower classes gets its turn."""
LONGEST_FEEDBACK = 20 * MILLISECOND
"""Between two reports to a sender: it eases off no sooner."""
RARE_FEEDBACK = 100 * MILLISECOND
"""To one whose link is its own, and its rate with it: what reports cost hosts is more than what they say."""
ARREARS, TOGETHER, LONGEST_TOGETHER = 40 * MILLISECOND, 4, 20 * MILLISECOND
"""Lost time that such a sender makes up for, packets of a burst, each of which wakes a process at every hop, and their
time on the link: nobody else's stand in the queue behind them, which has room for 80 ms by default."""


class Op(Enum):
    """What becomes of the ranks' values."""

    SUM = "sum"
    MEAN = "mean"
    WEIGHTED_MEAN = "weighted_mean"
    """By the samples behind each rank's values."""


@dataclass(frozen=True)
class Budget:
    """Loss over a whole training (transport's LossBudget), which sets the tolerance of pushes round by round."""

    share: float
    """Mean share of the values that may be lost."""
    rounds: int
    """Length of the training."""


@dataclass(frozen=True)
class Job:
    """A job's members and rules. Raises UsageError for what makes no sense."""

    number: int
    workers: tuple[str, ...]
    """Addresses; the index is the rank. Each has its own: the fabric knows gradients by one port."""
    servers: tuple[str, ...] = ()
    """Addresses of parameter servers."""
    collective: str = PARAMETER_SERVER
    """"ps", "ring", "halving_doubling", or the path of a schedule file."""
    op: Op = Op.MEAN
    wire: DataType = DataType.FLOAT32
    """How values travel. Sums are made in float32."""
    tolerance: Tolerance = field(default_factory=lambda: Tolerance(push=0.0))
    """What may be lost: of a push, by the network; of a pull, that is of a sum, it is left out by whoever made the sum,
    for all ranks alike, so that they stay equal."""
    budget: Budget | None = None
    fill: Fill = Fill.ZERO
    """What stands in for a lost value where it would have been added."""
    error_feedback: bool | None = None
    """Send what was lost with the next round's; None: above 10 % of tolerance, where zeros stand in for it."""
    eager: bool = True
    """Take no more of a message once the tolerance is met; else what is on its way too."""
    line_rate: float = 10e9
    """Of the hosts' links, bit/s."""
    port: int = GRADIENT_PORT
    patience: float = 5.0
    """Seconds of silence after which a rank or server is lost."""
    timeout: float = 120.0
    """Seconds that a tensor may take though all are alive."""
    connect_timeout: float = 30.0
    """Seconds to wait for the others at the start."""
    key: str | None = None
    """The job's secret in hexadecimal: control messages must carry its MAC."""

    def __post_init__(self) -> None:
        addresses = [*self.workers, *self.servers]
        if not self.workers:
            raise UsageError("a job has at least one worker")
        if len(set(addresses)) != len(addresses):
            raise UsageError("every rank and server has an address of its own")
        for address in addresses:
            try:
                ipaddress.ip_address(address)
            except ValueError:
                raise UsageError(f"{address!r} is no IP address") from None
        if len({ipaddress.ip_address(address).version for address in addresses}) > 1:
            raise UsageError("a job's addresses are all IPv4 or all IPv6")
        if len(addresses) > 1 << 16 or self.number not in range(1 << 16):
            raise UsageError("a job's number and its ranks are below 65,536")
        if (self.collective == PARAMETER_SERVER) != bool(self.servers):
            raise UsageError("a job has parameter servers if, and only if, its collective is ps")
        numbers = self.patience, self.timeout, self.connect_timeout, self.line_rate
        if not all(0 < number < math.inf for number in numbers):
            raise UsageError("times and rates of a job are above zero, and finite")
        if not 0 < self.port < 1 << 16:
            raise UsageError(f"a job's port is from 1 to 65535, not {self.port}")
        if self.budget is not None and not (0 <= self.budget.share <= 1 and self.budget.rounds >= 1):
            raise UsageError("a job's budget is a share from 0 to 1 of at least one round")
        try:
            Seal(self._key)
        except ValueError as error:
            raise UsageError(f"the job's key: {error}") from None

    # ---- members

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all nodes: the workers, then the servers."""
        return self.workers + self.servers

    def who(self, node: int) -> str:
        """Return what to call a node in a message to a person."""
        if node < len(self.workers):
            return f"rank {node} ({self.workers[node]})"
        return f"server {node - len(self.workers)} ({self.addresses[node]})"

    @cached_property
    def plan(self) -> Plan:
        """How the collective goes. Raises UsageError for a file that is no schedule of these workers."""
        return plan_of(self.collective, len(self.workers), len(self.servers))

    # ---- rules

    @property
    def ipv6(self) -> bool:
        """Whether the addresses are IPv6's."""
        return ":" in self.workers[0]

    @property
    def per_packet(self) -> int:
        """Values in a full packet."""
        return (IPV6_VALUES if self.ipv6 else IPV4_VALUES) * 4 // VALUE_BYTES[self.wire]

    @property
    def _key(self) -> bytes | None:
        return bytes.fromhex(self.key) if self.key is not None else None

    @property
    def feeds_back(self) -> bool:
        """Whether lost values are sent with the next round's: what something else stood in for would count twice."""
        return self.owes_left_out if self.error_feedback is not None or self.fill is Fill.ZERO else False

    @property
    def owes_left_out(self) -> bool:
        """Whether what was left out of a sum is added to the next round's."""
        if self.error_feedback is not None:
            return self.error_feedback
        most = self.budget.share if self.budget else max(self.tolerance.push, *self.tolerance.by_class.values(), 0.0)
        return ErrorFeedback.wanted(max(most, self.tolerance.pull))

    def tolerated(self, layer: int, round_number: int) -> float:
        """Return the share that may be lost of values that are to be summed."""
        return self.tolerance.of(Direction.PUSH, layer, round_number)

    def left_out(self, layer: int, round_number: int) -> float:
        """Return the share of a sum that its ranks do without, the least important packets of it."""
        return self.tolerance.of(Direction.PULL, layer, round_number)

    @property
    def settings(self) -> Settings:
        """The transport's, once all have met."""
        rate, default = self._rates, Settings()
        least, most = default.feedback
        often = min(max(rate.target_delay, least), LONGEST_FEEDBACK)
        return Settings(
            rate=rate,
            ahead=min(len(self.workers), MAX_AHEAD),
            feedback=(often, max(often, most)),
            key=self._key,
            patience=round(self.patience * SECOND),
            overdue=round(self.timeout * SECOND),
            per_packet=IPV6_VALUES if self.ipv6 else IPV4_VALUES,
            frame_overhead=FRAME_OVERHEAD[6 if self.ipv6 else 4],
        )

    def settings_between(self, source: int, destination: int) -> Settings:
        """Return the transport's from one node to another (itself: to all), slower where a schedule's links are."""
        settings, way = self.settings, (source, destination)
        line = min(settings.rate.line, self.plan.rates.get(way, settings.rate.line))
        known = way in self.plan.rates
        certain = self.plan.reserved and known
        alone = (HEADROOM if source != destination else 1.0) * line
        bounds = replace(
            settings.rate,
            line=alone if certain else line,
            fair=line if known else settings.rate.fair,
            initial=alone if certain else min(settings.rate.initial, line),
            least=alone if certain else min(settings.rate.least, line),
        )
        if not certain or (destination, source) not in self.plan.rates:
            return replace(settings, rate=bounds)
        quantum = max(settings.quantum, round(TOGETHER * 8 * FULL_FRAME * SECOND / self.line_rate))
        return replace(
            settings,
            rate=bounds,
            feedback=(RARE_FEEDBACK, RARE_FEEDBACK),
            arrears=ARREARS,
            quantum=quantum,
            ahead=max(min(math.ceil(self.line_rate / line / HEADROOM), LONGEST_TOGETHER // quantum), 1),
        )

    @property
    def _rates(self) -> RateSettings:
        """Bounds that follow from who may send to one link at once: all workers, in rounds that begin together.

        Some packets of each in a queue are no congestion.
        """
        workers, default = len(self.workers), RateSettings()
        bursts = workers * BURST * 8 * MTU / self.line_rate
        fair = self.line_rate / self.plan.most_senders
        return RateSettings(
            line=self.line_rate,
            initial=max(fair, default.least),
            fair=fair,
            least=min(max(self.line_rate / (2 * workers), default.least), self.line_rate),
            target_delay=max(round(bursts * SECOND), default.target_delay),
        )

    def meeting(self, node: int) -> Settings:
        """Return the transport's of a node at the start, when others may not be there yet."""
        wait = round(self.connect_timeout * SECOND)
        return replace(self.settings_between(node, node), patience=wait, overdue=wait)

    # ---- as JSON

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        plain = {**asdict(self), "op": self.op.value, "wire": self.wire.name.lower(), "fill": self.fill.value}
        tolerance = self.tolerance
        plain["tolerance"] = {
            "push": tolerance.push,
            "pull": tolerance.pull,
            "by_class": {str(class_): share for class_, share in tolerance.by_class.items()},
            "schedule": [list(pair) for pair in tolerance.schedule],
        }
        return plain

    @staticmethod
    def of_dict(plain: dict[str, Any]) -> Job:
        """Return the job of `as_dict`'s values; all but number and workers may be absent. Raises UsageError."""
        try:
            if unknown := set(plain) - {known.name for known in fields(Job)}:
                raise ValueError(f"a job has no {sorted(unknown)[0]!r}")
            given = dict(plain)
            for name in ("workers", "servers"):
                if name in given:
                    given[name] = tuple(map(str, given[name]))
            if "op" in given:
                given["op"] = Op(given["op"])
            if "wire" in given:
                given["wire"] = DataType[str(given["wire"]).upper()]
            if "fill" in given:
                given["fill"] = Fill(given["fill"])
            if "tolerance" in given:
                given["tolerance"] = _tolerance(given["tolerance"])
            if given.get("budget") is not None:
                given["budget"] = Budget(**given["budget"])
            return Job(**given)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise UsageError(f"is no job: {error}") from None

    def save(self, file: Path) -> None:
        """Write the job as JSON. Raises FailureError."""
        try:
            file.write_text(json.dumps(self.as_dict(), indent=2) + "\n")
        except OSError as error:
            raise FailureError(f"cannot write {file}: {error.strerror or error}") from None

    @staticmethod
    def load(file: Path) -> Job:
        """Read a job. Raises UsageError that names the file."""
        try:
            plain = json.loads(file.read_text())
            return Job.of_dict(plain)
        except UsageError as error:
            raise UsageError(error.message, file=file) from None
        except OSError as error:
            raise UsageError(f"cannot read: {error.strerror or error}", file=file) from None
        except ValueError as error:
            raise UsageError(f"is no JSON: {error}", file=file) from None

    @cached_property
    def fingerprint(self) -> bytes:
        """32 bytes that differ where jobs differ; of a schedule file its sends count, not its path."""
        plain = self.as_dict()
        plain["key"] = None
        plain["collective"] = [self.plan.collective, *map(repr, self.plan.sends)]
        return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).digest()


def _tolerance(plain: dict[str, Any]) -> Tolerance:
    return Tolerance(
        push=float(plain.get("push", 0.0)),
        pull=float(plain.get("pull", 0.0)),
        by_class={int(class_): float(share) for class_, share in plain.get("by_class", {}).items()},
        schedule=tuple((int(first), float(factor)) for first, factor in plain.get("schedule", ())),
    )
