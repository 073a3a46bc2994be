# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the demo compares, under which load, how often: methods, levels of congestion, the two sizes of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from controller.policy import Policy
from gradlane.demo import policies, tuner
from gradlane.demo.bed import Roles, TcpTuning
from traffic.exchanges import gloo
from traffic.exchanges.background import Burst, Trace
from traffic.exchanges.collective import CollectiveSettings
from traffic.exchanges.gloo import GlooSettings
from traffic.exchanges.methods import Kind
from traffic.exchanges.networks import RECIPES
from traffic.exchanges.tcp import TcpSettings

TCP_PORT, GLOO_PORT = 18400, 18500
P3_PIECE, PIECE = 16384, 65536
"""Values."""
TOLERANCE, LEFT_OUT = 0.4, 0.3
"""Of what workers send, and of the means that they get."""
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


def _ours(
    name: str, title: str, policy: Callable[[TcpTuning], Policy], piece: int | None = PIECE, **settings: object
) -> Method:
    servers = settings.get("collective", "ps") == "ps"

    def kind(rate: float) -> Kind:
        return CollectiveSettings(rate, **settings)  # type: ignore[arg-type]

    return Method(name, title, kind, policy, piece, servers, exact="tolerance" not in settings)


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
    _ours("transport", "ours: the transport alone, FIFO", _fifo),
    _ours("spray", "ours: + spraying", lambda t: policies.gradlane(t.queue_packets, priority=False, drop=False)),
    _ours("priority", "ours: + priority", lambda t: policies.gradlane(t.queue_packets, drop=False), by_priority=True),
    _ours("drop", "ours: + selective drop", _gradlane, by_priority=True),
    _ours("gradlane", f"ours, whole: + bounded loss, {TOLERANCE:.0%}", _gradlane, by_priority=True,
          tolerance=TOLERANCE, left_out=LEFT_OUT),
    _ours("ring", f"ours: ring, bounded loss, {TOLERANCE:.0%}", _gradlane, by_priority=True,
          tolerance=TOLERANCE, left_out=LEFT_OUT, collective="ring"),
    _ours("gradlane16", "ours: bounded loss, 15/16, whole tensors", _gradlane, None, by_priority=True,
          tolerance=1 - COMPRESSED, left_out=1 - 4 * COMPRESSED),
)  # fmt: skip
METHODS = {method.name: method for method in _ALL}
OURS = "gradlane"
TUNED = "p3"
"""On it TCP is tuned and the level of congestion is told: of the baselines it does best under congestion."""
BASELINES = tuple(method.name for method in _ALL if method.baseline)
DEFAULT = ("gloo", "ps", "p3", "transport", OURS)
ABLATION = ("transport", "spray", "priority", "drop", OURS)
"""Each is the one before and one step more."""
COMPRESSING = ("topk", "gradlane16")


@dataclass(frozen=True)
class Load:
    """Background, in terms of the links' rate."""

    hot: float
    """Share of the hot spine that a steady stream takes, in both directions."""
    every: float
    """Mean seconds between two incasts on a host of the job, at 100 Mbit/s."""
    incast_bytes: int
    """That each of the bursting hosts sends at once."""

    def trace(self, roles: Roles, rate: float, seed: int, seconds: float = 20.0, layers: Sequence[int] = (1,)) -> Trace:
        """Return the bursts of `seconds`, the same for the same seed; of `layers` sizes come their layers' shares."""
        random = np.random.default_rng(seed)
        drawn = np.random.default_rng((seed, 1)).choice  # apart, so that times do not depend on the model
        shares = np.array(layers) / sum(layers)

        def layer() -> int:
            return int(drawn(len(shares), p=shares))

        slot = 1e6 / rate
        size = int(self.hot * rate * slot / 8 * PAYLOAD_SHARE)
        bursts = []
        if size:
            for source, target in (roles.hot, roles.hot[::-1]):
                for number in range(int(seconds / slot)):
                    at = number * slot
                    bursts.append(Burst(at, source, target, size, self.hot * rate, HOT_PATH, layer()))
        at = 0.0
        while (at := at + random.exponential(self.every * 1e8 / rate)) < seconds:
            target = roles.job[random.integers(len(roles.job))]
            of, speed = layer(), NIC_SHARE * rate
            bursts += [Burst(at, source, target, self.incast_bytes, speed, layer=of) for source in roles.bursting]
        return Trace(seconds, tuple(sorted(bursts, key=lambda burst: burst.at)))


HOT_PATH = 1
"""The first spine."""
PAYLOAD_SHARE = 1440 / 1514
NIC_SHARE = 0.95
LEVELS = {"light": Load(0.85, 0.07, 30_000), "heavy": Load(0.94, 0.05, 40_000)}
WANTED = {"light": 1.3, "heavy": 2.2}
"""Mean round of the tuned baseline over its uncongested one."""


@dataclass(frozen=True)
class Part:
    """What is run and stored by itself: one level, one model and one seed, by several methods."""

    level: str
    model: str
    seed: int
    methods: tuple[str, ...]
    compute: float = 0.0
    """Declared time of computing over that of the gradients on a server's link; 0: as long as numpy needs."""

    @property
    def name(self) -> str:
        """By which `--part` knows it."""
        return f"{self.level}/{self.case}/{self.seed}"

    @property
    def case(self) -> str:
        """The model, and how long it computes if that is declared."""
        return f"{self.model}-{self.compute:g}" if self.compute else self.model

    def communication(self, rate: float) -> float:
        """Return the seconds that all workers' gradients take on a server's link: no round is shorter."""
        roles = Roles()
        return 32 * sum(self.layers) * len(roles.workers) / len(roles.servers) / PAYLOAD_SHARE / rate

    @property
    def layers(self) -> list[int]:
        """The values of each layer."""
        sizes: dict[int, int] = {}
        for parameter in RECIPES[self.model].build(0).parameters:
            sizes[parameter.layer] = sizes.get(parameter.layer, 0) + parameter.size
        return [sizes[layer] for layer in sorted(sizes)]

    def declared(self, rate: float) -> float:
        """Return the declared seconds of computing in a round."""
        return self.compute * self.communication(rate)


@dataclass(frozen=True)
class Plan:
    """One run of the demo."""

    parts: tuple[Part, ...]
    draws: int
    """Hash draws that a training goes through, one after another."""
    rounds: int
    """Of a training, all draws together."""
    trial_rounds: int
    """For each setting in the tuner's first turn; without background twice as many are measured."""
    rate: float
    """Of every link, bit/s."""
    accuracy_every: int = 2
    """Rounds."""
    sampled: tuple[str, ...] = ()
    """Exact methods that do a part of the rounds: their times to accuracy are composed (see statistics.row)."""
    sampled_rounds: int = 0
    """For each draw."""
    tunings: tuple[TcpTuning, ...] = tuple(tuner.candidates())
    """Of TCP, to choose from."""
    studies: tuple[str, ...] = ()
    """Of STUDIES, what is done beside the trainings."""

    @property
    def calm_rounds(self) -> int:
        """How many rounds of each method are measured without background."""
        return 2 * self.trial_rounds

    def rounds_a_draw(self, method: str) -> int:
        """Return how many rounds of a method follow one another in a hash draw."""
        return self.sampled_rounds if method in self.sampled else -(-self.rounds // self.draws)

    def seconds(self, part: Part) -> float:
        """Estimate how long a part takes."""
        turns = tuner.turns(len(self.tunings), self.trial_rounds) if len(self.tunings) > 1 else []
        segments = len(part.methods) * (self.draws + 1) + sum(turn.settings for turn in turns)
        trials = sum(turn.settings * turn.rounds for turn in turns)
        total = STARTING + segments * SWITCHING + trials * self.round_seconds(part, "p3", part.level)
        for name in part.methods:
            total += (self.calm_rounds + WARM_ROUNDS) * self.round_seconds(part, name, "none")
            total += self.draws * self.rounds_a_draw(name) * self.round_seconds(part, name, part.level)
        return total

    def round_seconds(self, part: Part, method: str, level: str) -> float:
        """Guess how long a round takes, from what it took where this was measured."""
        return part.communication(self.rate) * (PACE[level][METHODS[method].tcp] + part.compute / 2)


WARM_ROUNDS = 1
"""Without background, that do not count: these are few, and connections are new in the first."""
STARTING = 20.0
"""Seconds until the fabric is up, and for the accuracies and the report."""
SWITCHING = 1.5
"""Seconds between two segments: policy, connections, background."""
PACE = {"none": (1.3, 1.7), "light": (1.4, 2.2), "heavy": (1.5, 4.0)}
"""A round over the time that the gradients take on a server's link: ours, and TCP's."""
RATE = 30e6
"""At 50 Mbit/s hosts and switches need all of two cores."""
SHORT = Plan(
    (Part("heavy", "mlp", 1, DEFAULT),), draws=3, rounds=42, trial_rounds=1, rate=RATE,
    sampled=("gloo", "ps", "transport"), sampled_rounds=2,
)  # fmt: skip
STUDIES = ("half-rate", "tolerance")
"""Whether the network is the bottleneck, and what loss costs without a network (studies.py)."""
PRIORITY_STUDY = ("ps", "p3", "spray", "priority", OURS)
FULL = Plan(
    (
        *(
            Part(level, model, seed, tuple(METHODS))
            for seed in (1, 2, 3)
            for model in ("mlp", "cnn")
            for level in ("heavy", "light")
        ),
        *(Part("heavy", "deep", 1, PRIORITY_STUDY, compute) for compute in (0.25, 0.5, 1.0)),
    ),
    draws=8, rounds=104, trial_rounds=4, rate=RATE, studies=STUDIES,
)  # fmt: skip  # 3 x 104 rounds for the 99th percentile
