# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Run trainings on the bed: methods take turns, each hash draw gives all of them new paths, the load is the same."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gradlane.demo import plan as plans
from gradlane.demo import tuner
from gradlane.demo.bed import LAST_DRAW, Bed, TcpTuning
from gradlane.demo.plan import WARM_ROUNDS, Method, Part, Plan
from gradlane.demo.statistics import Segment, Training, background_figures
from topologies.errors import FailureError
from traffic.exchanges.methods import Wiring

SETTLE_SECONDS = 0.6
"""Between the start of background and the first round."""
ROUND_PATIENCE = 20.0
"""Seconds that a round may take on average before a segment is given up."""

Say = Callable[[str], None]


@dataclass
class Experiment:
    """A bed, and what runs on it."""

    bed: Bed
    plan: Plan
    part: Part
    say: Say
    traces: Path
    """Where background traces are stored."""
    tuning: TcpTuning = field(default_factory=TcpTuning)

    def trace(self) -> Path:
        """Return the stored trace of the level and model, the same in every run."""
        path = self.traces / f"background-{self.part.level}-{self.part.model}.json"
        load = plans.LEVELS[self.part.level]
        load.trace(self.bed.roles, self.plan.rate, seed=TRACE_SEED, layers=self.part.layers).save(path)
        return path

    def tune(self, method: Method) -> dict[TcpTuning, list[float]]:
        """Choose TCP's settings for the level, on one method, each turn in another hash draw, none of the trainings'.

        Returns the rounds of each. Raises FailureError if none works.
        """
        trace = self.trace()
        drawn = -1

        def trial(tuning: TcpTuning, turn: int, rounds: int) -> list[float]:
            nonlocal drawn
            if turn != drawn:
                drawn = turn
                self.bed.draw(LAST_DRAW - turn)
            found: list[float] = self.segment(method, rounds, trace, tuning, track="trial").rounds.tolist()
            return found

        self.tuning, trials = tuner.tune(trial, self.plan.tunings, self.plan.trial_rounds)
        self.bed.forget("trial")
        return trials

    def uncongested(self, method: Method, rounds: int) -> float:
        """Return the mean round without background."""
        segment = self.segment(method, rounds + WARM_ROUNDS, None, self.tuning, track="trial")
        self.bed.forget("trial")
        return float(segment.rounds[WARM_ROUNDS:].mean())

    def trainings(self, methods: Sequence[Method]) -> list[Training]:
        """Train by every method: in each draw every method does its share of the rounds, in turn."""
        plan, part = self.plan, self.part
        trace = self.trace()
        found = {
            method.name: Training(method.name, part.level, part.seed, model=part.model, compute=part.compute)
            for method in methods
        }
        for draw in range(plan.draws):
            self.bed.draw(1 + (part.seed - 1) * plan.draws + draw)
            turn = draw % len(methods)
            for method in (*methods[turn:], *methods[:turn]):
                track = f"{method.name}/{part.name}"
                segment = self.segment(method, plan.rounds_a_draw(method.name), trace, self.tuning, track)
                found[method.name].segments.append(segment)
                accuracy = segment.accuracies[-1][1] if segment.accuracies else float("nan")
                self.say(
                    f"  draw {draw + 1}, {method.name}: {segment.rounds.mean() * 1e3:.0f} ms a round, "
                    f"accuracy {accuracy:.1%}"
                )
        for method in methods:
            self.bed.forget(f"{method.name}/{part.name}")
        return list(found.values())

    def segment(self, method: Method, rounds: int, trace: Path | None, tuning: TcpTuning, track: str) -> Segment:
        """Run some rounds of a training by one method. Raises FailureError."""
        bed, roles = self.bed, self.bed.roles
        bed.install(method.policy(tuning))
        bed.tune(tuning)
        wiring = Wiring(
            kind=method.kind(self.plan.rate),
            workers=tuple(bed.address(name) for name in roles.workers),
            servers=tuple(bed.address(name) for name in roles.servers) if method.servers else (),
            largest_piece=method.largest_piece,
        )
        patience = rounds * ROUND_PATIENCE
        bed.open(track, self.part.model, self.part.seed, wiring)
        if trace is not None:
            bed.start_background(trace, patience)
            time.sleep(SETTLE_SECONDS)
        began, cpu = time.monotonic(), bed.switch_cpu_seconds()
        every = 0 if track == "trial" else self.plan.accuracy_every
        workers = bed.train(rounds, every, self.part.declared(self.plan.rate), patience)
        ended = time.monotonic()
        processors = os.cpu_count() or 1
        cpu = (bed.switch_cpu_seconds() - cpu) / (ended - began) / processors  # a thread for each switch
        figures: dict[str, float] = {}
        if trace is not None:
            figures = background_figures(bed.stop_background(), began, max(a["end"] for a in workers) - TAIL_SECONDS)
        servers = bed.close()
        segment = Segment.of(workers, servers, figures, cpu, processors)
        if not np.isfinite(segment.rounds).all():
            raise FailureError(f"{method.name} gave no times")
        return segment


TRACE_SEED = 7
TAIL_SECONDS = 0.3
"""Before the end: bursts that are due later may not have arrived when background stops."""
