# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the demo compares, under which load, how often: methods, levels of congestion, the two sizes of a run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from controller.policy import Policy
from gradlane.demo import policies, tuner
from gradlane.demo.bed import Roles, TcpTuning
from traffic.training import gloo
from traffic.training.background import Burst, Trace
from traffic.training.collective import CollectiveSettings
from traffic.training.gloo import GlooSettings
from traffic.training.methods import Kind
from traffic.training.tcp import TcpSettings

TCP_PORT, GLOO_PORT = 18400, 18500
P3_PIECE, PIECE = 16384, 65536
"""Values."""
TOLERANCE = 0.4
COMPRESSED = 1 / 16


@dataclass(frozen=True)
class Method:
    """One way to exchange gradients, and the policy under which the fabric carries them."""

    name: str
    title: str
    kind: Callable[[float], Kind]
    """From the rate of the hosts' links, in bit/s."""
    policy: Callable[[TcpTuning], Policy]
    largest_piece: int | None = None
    servers: bool = True
    baseline: bool = False
    """One of (1) to (3): what is to be beaten."""
    exact: bool = False
    """Every round's mean is exact: a training goes round by round as any other exact one, to rounding."""
    available: Callable[[], bool] = lambda: True

    @property
    def tcp(self) -> bool:
        """Whether TCP's tuning concerns it."""
        return not isinstance(self.kind(1e8), CollectiveSettings)


def _fifo(tuning: TcpTuning) -> Policy:
    return policies.fifo(tuning.queue_packets)


def _gradlane(tuning: TcpTuning) -> Policy:
    return policies.gradlane(tuning.queue_packets)


def _ours(name: str, title: str, policy: Callable[[TcpTuning], Policy], **settings: object) -> Method:
    servers = settings.get("collective", "ps") == "ps"

    def kind(rate: float) -> Kind:
        return CollectiveSettings(rate, **settings)  # type: ignore[arg-type]

    return Method(name, title, kind, policy, PIECE, servers, exact="tolerance" not in settings)


def _tcp(name: str, title: str, piece: int | None, *, baseline: bool = False, **settings: object) -> Method:
    def kind(rate: float) -> Kind:
        return TcpSettings(TCP_PORT, **settings)  # type: ignore[arg-type]

    return Method(name, title, kind, _fifo, piece, baseline=baseline, exact="kept_share" not in settings)


_ALL = (
    Method(
        "gloo", "Gloo all-reduce over TCP", lambda _: GlooSettings(GLOO_PORT), _fifo, servers=False, baseline=True,
        exact=True, available=gloo.available,
    ),
    _tcp("ps", "parameter servers over TCP, as tensors come", None, baseline=True),
    _tcp("p3", "parameter servers over TCP, by priority, in pieces", P3_PIECE, baseline=True, by_priority=True),
    _tcp("topk", "parameter servers over TCP, block top-k 1/16", P3_PIECE, by_priority=True, kept_share=COMPRESSED),
    _ours("transport", "our transport, nothing lost, FIFO", _fifo),
    _ours("spray", "+ spraying", lambda t: policies.gradlane(t.queue_packets, priority=False, drop=False)),
    _ours("priority", "+ priority", lambda t: policies.gradlane(t.queue_packets, drop=False), by_priority=True),
    _ours("drop", "+ selective drop", _gradlane, by_priority=True),
    _ours("gradlane", f"+ bounded loss, {TOLERANCE:.0%}", _gradlane, by_priority=True,
          tolerance=TOLERANCE),
    _ours("ring", f"ring, bounded loss, {TOLERANCE:.0%}", _gradlane, by_priority=True,
          tolerance=TOLERANCE, collective="ring"),
    _ours("gradlane16", "bounded loss, 15/16", _gradlane, by_priority=True,
          tolerance=1 - COMPRESSED),
)  # fmt: skip
METHODS = {method.name: method for method in _ALL}
OURS = "gradlane"
BASELINES = tuple(method.name for method in _ALL if method.baseline)
DEFAULT = ("gloo", "ps", "p3", "transport", OURS)


@dataclass(frozen=True)
class Load:
    """Background, in terms of the links' rate."""

    hot: float
    """Share of the hot spine that a steady stream takes, in both directions."""
    every: float
    """Mean seconds between two incasts on a host of the job, at 100 Mbit/s."""
    incast_bytes: int
    """That each of the bursting hosts sends at once."""

    def trace(self, roles: Roles, rate: float, seed: int, seconds: float = 20.0) -> Trace:
        """Return the bursts of `seconds`, the same for the same seed."""
        random = np.random.default_rng(seed)
        slot = 4e6 / rate
        size = int(self.hot * rate * slot / 8 * PAYLOAD_SHARE)
        bursts = []
        if size:
            for source, target in (roles.hot, roles.hot[::-1]):
                for number in range(int(seconds / slot)):
                    bursts.append(Burst(number * slot, source, target, size, self.hot * rate, HOT_PATH))
        at = 0.0
        while (at := at + random.exponential(self.every * 1e8 / rate)) < seconds:
            target = roles.job[random.integers(len(roles.job))]
            bursts += [Burst(at, source, target, self.incast_bytes, NIC_SHARE * rate) for source in roles.bursting]
        return Trace(seconds, tuple(sorted(bursts, key=lambda burst: burst.at)))


HOT_PATH = 1
"""The first spine."""
PAYLOAD_SHARE = 1440 / 1514
NIC_SHARE = 0.95
LEVELS = {"light": Load(0.5, 0.1, 20_000), "heavy": Load(0.9, 0.06, 40_000)}
WANTED = {"light": 1.3, "heavy": 2.2}
"""Mean round of the tuned baseline over its uncongested one."""


@dataclass(frozen=True)
class Plan:
    """One run of the demo."""

    levels: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    draws: int
    """Hash draws that a training goes through, one after another."""
    rounds: int
    """Of a training, all draws together."""
    trial_rounds: int
    """For each setting that the tuner tries."""
    rate: float
    """Of every link, bit/s."""
    model: str = "mlp"
    accuracy_every: int = 2
    """Rounds."""
    sampled: tuple[str, ...] = ()
    """Exact methods that do a part of the rounds: their times to accuracy are composed (see statistics.row)."""
    sampled_rounds: int = 0
    """For each draw."""
    tunings: tuple[TcpTuning, ...] = tuple(tuner.candidates())
    """Of TCP, to choose from."""

    def rounds_a_draw(self, method: str) -> int:
        """Return how many rounds of a method follow one another in a hash draw."""
        return self.sampled_rounds if method in self.sampled else -(-self.rounds // self.draws)

    def seconds(self, round_seconds: float) -> float:
        """Estimate the duration, given what a round takes."""
        trainings = len(self.levels) * len(self.seeds)
        segments = trainings * len(self.methods) * self.draws
        rounds = trainings * self.draws * sum(self.rounds_a_draw(method) for method in self.methods)
        tuning = len(self.levels) * len(self.tunings) * (self.trial_rounds + 1)
        segments += len(self.levels) * len(self.tunings) + len(self.methods)
        return 15 + segments * SWITCHING + (rounds + tuning) * round_seconds


SWITCHING = 1.5
"""Seconds between two segments: policy, connections, background."""
RATE = 50e6
"""What two cores carry with less than 60 % of either: at 100 Mbit/s four workers, two servers and four switches need both."""  # noqa: E501
SHORT = Plan(
    ("heavy",), DEFAULT, (1,), draws=3, rounds=42, trial_rounds=1, rate=RATE,
    sampled=("gloo", "ps", "transport"), sampled_rounds=4,
)  # fmt: skip
FULL = Plan(
    ("light", "heavy"), tuple(METHODS), (1, 2, 3), draws=8, rounds=104, trial_rounds=8, rate=RATE
)  # 3 x 104 rounds for the 99th percentile
