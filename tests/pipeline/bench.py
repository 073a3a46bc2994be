# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A target under a policy, every frame and every count of it held to the reference model."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tests.pipeline.reference import OTHER_PORTS, Outcome, Policy, Reference
from tests.pipeline.targets import Target

COUNTERS = ("received", "faults", "kept", "kept_band", "marked", "trimmed", "dropped", "queue_delay")
Frames = list[tuple[int, bytes]]


class Bench:
    """Sends frames to a target and fails where the target and the model disagree."""

    def __init__(self, target: Target) -> None:
        self.target: Any = target
        self._reference = Reference(Policy())
        self._expected: Counter[tuple[str, int]] = Counter()
        self._before: dict[str, dict[int, int]] = {}

    def install(self, policy: Policy) -> Bench:
        """Write a policy into the empty target; counts are taken from here on."""
        self._reference = Reference(policy)
        self.target.write(policy)
        self._expected.clear()
        if hasattr(self.target, "fences"):
            self.target.fences.clear()
        self._before = {name: self.target.counters(name) for name in COUNTERS}
        return self

    def send(self, port: int, frame: bytes) -> Frames:
        """Send a frame, hold what leaves to the model, and return it."""
        return self.follow(port, frame).sent

    def follow(self, port: int, frame: bytes) -> Outcome:
        """Send a frame and return which of the outcomes that the model allows has come about."""
        outcomes = self._reference.process(port, frame, self.depth)
        got = self.target.send(port, frame)
        fitting = [outcome for outcome in outcomes if sorted(outcome.sent) == sorted(got)]
        if any(outcome.counted != fitting[0].counted for outcome in fitting):
            # Drops of different kinds look alike from outside.
            fitting = [outcome for outcome in fitting if self._is_counted(outcome)]
        if not fitting:
            raise AssertionError(
                f"{self.target.name}: port {port} <- {frame.hex()}\n  got   {_show(got)}\n"
                + "\n".join(f"  model {_show(outcome.sent)} {dict(outcome.counted)}" for outcome in outcomes)
            )
        self._expected += fitting[0].counted
        return fitting[0]

    def _is_counted(self, outcome: Outcome) -> bool:
        dropped = self.counts()["dropped"]
        expected = self._expected + outcome.counted
        return all(dropped.get(index, 0) == count for (name, index), count in expected.items() if name == "dropped")

    def depth(self, port: int, queue: int) -> int:
        """Give the depth that ingress sees."""
        if not self.target.live_depth:
            return 0
        return int(self.target.switch.stats(port).queues[queue].depth_bytes) >> 6

    def counts(self) -> dict[str, dict[int, int]]:
        """Count packets since `install`, by counter and index; queue_delay by port index and class.

        A target's own frames are left out.
        """
        own = self._of_fences()
        counts = {}
        for name in COUNTERS:
            now = Counter(self.target.counters(name))
            now.subtract(self._before[name])
            if name == "queue_delay":
                now = sum((Counter({index >> 6: count}) for index, count in now.items() if count), Counter())
            now.subtract(own.get(name, {}))
            counts[name] = {index: count for index, count in now.items() if count}
        return counts

    def _of_fences(self) -> dict[str, Counter[int]]:
        counted: dict[str, Counter[int]] = {}
        if fences := getattr(self.target, "fences", []):
            reference = Reference(self._reference.policy.with_rows(*self.target.rows))
            for port, frame in fences:
                (outcome,) = reference.process(port, frame)
                for (name, index), count in outcome.counted.items():
                    counted.setdefault(name, Counter())[index] += count
        return counted

    def check_counts(self, *, delays: bool = True) -> None:
        """Hold every counter to the model. `delays` is False while packets wait in queues."""
        expected: dict[str, dict[int, int]] = {name: {} for name in COUNTERS}
        for (name, index), count in self._expected.items():
            expected[name][index] = count
        counts = self.counts()
        for name in COUNTERS:
            if name != "queue_delay" or delays:
                assert counts[name] == expected[name], f"{self.target.name}: counter {name}"


def _show(frames: Frames) -> str:
    return ", ".join(f"{port} -> {frame.hex()}" for port, frame in frames) or "nothing"


def cell(index: int, traffic_class: int) -> int:
    """Index counters of port index and class."""
    return index * 8 + traffic_class


def drop_cell(index: int, traffic_class: int, reason: int, importance: int = 255) -> int:
    """Index `dropped`."""
    return ((index * 8 + traffic_class) * 8 + reason) * 8 + importance // 32


NO_INDEX = OTHER_PORTS
