# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the full run adds: whether the network is the bottleneck, and what loss itself costs, without a network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from gradlane.demo import statistics
from gradlane.demo.bed import Bed, Roles, load_fabric
from gradlane.demo.experiment import Experiment
from gradlane.demo.plan import METHODS, OURS, STARTING, SWITCHING, Part, Plan
from topologies import processes
from traffic.exchanges import data
from traffic.exchanges.networks import RECIPES
from traffic.exchanges.sweep import SWEEP, train

CHECKED = ("p3", OURS)
HALVED = 1.7
"""How much longer rounds must get at half the rate, if the network is the bottleneck."""
SWEEP_MODEL, SWEEP_SEEDS = "mlp", (1, 2, 3)
SWEPT_ROUND_SECONDS = 0.055


def seconds(plan: Plan, name: str) -> float:
    """Estimate how long a study takes."""
    if name == "tolerance":
        return len(SWEEP) * len(SWEEP_SEEDS) * plan.rounds * SWEPT_ROUND_SECONDS
    part = Part("none", SWEEP_MODEL, 1, CHECKED)
    rounds = sum(plan.calm_rounds * plan.round_seconds(part, name, "none") for name in CHECKED)
    return 3 * rounds + 2 * (STARTING + len(CHECKED) * SWITCHING)


def half_rate(plan: Plan, instance: int | None, real_time: bool, console: Console, output: Path) -> list[str]:
    """Check that the network is the bottleneck: at half the rate rounds must get much longer."""
    means: list[dict[str, float]] = []
    for rate in (plan.rate, plan.rate / 2):
        part = Part("none", SWEEP_MODEL, 1, CHECKED)
        with Bed(load_fabric(rate), Roles(), instance=instance, real_time=real_time) as bed:
            experiment = Experiment(bed, replace(plan, rate=rate), part, lambda _: None, output)
            means.append({name: experiment.uncongested(METHODS[name], plan.calm_rounds) for name in CHECKED})
    found = []
    for name in CHECKED:
        factor = means[1][name] / means[0][name]
        enough = "the network is the bottleneck" if factor >= HALVED else f"at least {HALVED} if the network were"
        found.append(f"half the rate makes {name}'s rounds {factor:.2f} times as long: {enough}")
        console.print(found[-1])
    return found


def sweep(plan: Plan, console: Console) -> list[dict[str, Any]]:
    """Train without a network while gradients lose packets, and return the rounds that it takes (median over seeds)."""
    recipe = RECIPES[SWEEP_MODEL]
    found = []
    with processes.scratch("demo", {}) as folder:
        data.save(Path(folder))
        samples = data.load(Path(folder))
        for case in SWEEP:
            outcomes = [train(recipe, samples, case, seed=seed, rounds=plan.rounds) for seed in SWEEP_SEEDS]
            row = {
                "lost": case.lost.value,
                "share": case.share,
                "left_out": case.left_out,
                "error_feedback": case.feedback,
                "rounds_to": {
                    f"{target:g}": statistics.middle([outcome.rounds_to[target] for outcome in outcomes])
                    for target in recipe.targets
                },
                "accuracy": median(outcome.accuracy for outcome in outcomes),
            }
            found.append(row)
            console.print(f"  {case}: rounds {row['rounds_to']}, {row['accuracy']:.1%}", markup=False)
    return found
