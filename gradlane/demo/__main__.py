# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What `make demo` does: `python -m gradlane.demo`, or with `--full`.

Trains the same model over the same congested fabric by baselines and by Gradlane, and writes a table, summary.json and
report.html into build/demo.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from gradlane.demo import plan as plans
from gradlane.demo import report, statistics
from gradlane.demo.bed import Bed, Roles, TcpTuning, load_fabric
from gradlane.demo.experiment import Experiment
from gradlane.demo.plan import BASELINES, METHODS, OURS, Method, Plan
from gradlane.demo.statistics import Training
from gradlane.run import slowed
from topologies.errors import GradlaneError, UsageError
from topologies.model import Fabric
from topologies.units import format_rate, parse_rate
from traffic.training.networks import RECIPES

OUTPUT = Path("build/demo")
TUNED = "p3"
"""The method on which TCP is tuned: the best of the baselines under congestion."""
MOST_CPU = 0.6
HALVED = 1.7
"""How much longer rounds must get at half the rate, if the network is the bottleneck."""
GUESS_SECONDS = 1.6
"""A round under load, to say beforehand how long a run takes."""


def run(
    plan: Plan, console: Console, *, output: Path = OUTPUT, instance: int | None = 0, real_time: bool = True
) -> dict[str, Any]:
    """Run the whole plan and return summary.json's content. Raises GradlaneError; leaves nothing running."""
    console.print(f"about {plan.seconds(GUESS_SECONDS) / 60:.0f} minutes")
    methods = [METHODS[name] for name in plan.methods if METHODS[name].available()]
    missing = [METHODS[name].title for name in plan.methods if not METHODS[name].available()]
    if missing:
        console.print(f"left out, since PyTorch is not installed: {', '.join(missing)}")
    trainings: list[Training] = []
    uncongested: dict[str, float] = {}
    checks: list[str] = []
    conditions = _conditions(plan)
    with Bed(_fabric(plan.rate), Roles(), instance=instance, real_time=real_time) as bed:
        experiment = Experiment(bed, plan, plan.rate, lambda text: console.print(text, markup=False), output)
        for level in plan.levels:
            tuning = _tune(experiment, level, methods, console)
            conditions.append(f"{level}: TCP tuned to {tuning}")
            if not uncongested:
                for method in methods:
                    uncongested[method.name] = experiment.uncongested(method, plan.trial_rounds)
                    console.print(
                        f"  without background, {method.name}: {uncongested[method.name] * 1e3:.0f} ms a round"
                    )
            for place, seed in enumerate(plan.seeds):
                trainings += experiment.trainings(level, methods, seed, first_draw=1 + place * plan.draws)
    if len(plan.seeds) > 1:
        checks += _half_rate(plan, uncongested, instance, real_time, console, output)
    summary = summarise(plan, trainings, uncongested, checks, conditions)
    report.write(summary, trainings, output)
    report.show(summary, console)
    console.print(f"\nwritten: {output}/summary.json, {output}/report.html")
    return summary


def summarise(
    plan: Plan,
    trainings: Sequence[Training],
    uncongested: dict[str, float],
    checks: Sequence[str],
    conditions: Sequence[str],
) -> dict[str, Any]:
    """Return summary.json's content."""
    targets = RECIPES[plan.model].targets
    rows = []
    for level in plan.levels:
        for name in dict.fromkeys(training.method for training in trainings):
            mine = [training for training in trainings if (training.method, training.level) == (name, level)]
            whole = [
                t for t in trainings if t.level == level and METHODS[t.method].exact and t.method not in plan.sampled
            ]
            reference = [training for training in whole if training.method == whole[0].method]
            rows.append(statistics.row(mine, plan.model, targets, reference if name in plan.sampled else ()))
    summary: dict[str, Any] = {
        "levels": list(plan.levels),
        "seeds": list(plan.seeds),
        "draws": plan.draws,
        "rate_bps": plan.rate,
        "rows": rows,
        "uncongested_round_s": uncongested,
        "ratios": statistics.ratios(rows, OURS, BASELINES, ("topk",)),
        "conditions": list(conditions),
    }
    by = {(row["congestion"], row["method"]): row for row in rows}
    summary["congestion"], summary["removed"], summary["ring"], summary["unfair"] = {}, {}, {}, []
    found = list(checks)
    for level in plan.levels:
        present = [name for name in BASELINES if (level, name) in by]
        if not present:
            continue
        best = min(present, key=lambda name: by[level, name]["round_s"]["mean"])
        slow = by[level, best]["round_s"]["mean"]
        factor = slow / uncongested[best]
        summary["congestion"][level] = {"baseline": best, "factor": factor}
        found.append(
            f"congestion {level}: {METHODS[best].title} takes {factor:.2f} times its uncongested round "
            f"(wanted about {plans.WANTED[level]})"
        )
        if (level, OURS) in by and slow > uncongested[best]:
            mine = by[level, OURS]["round_s"]["mean"]
            summary["removed"][level] = (slow - mine) / (slow - uncongested[best])
        if (level, "ring") in by and (level, "gloo") in by:
            summary["ring"][level] = by[level, "gloo"]["round_s"]["mean"] / by[level, "ring"]["round_s"]["mean"]
        for name in dict.fromkeys(row["method"] for row in rows):
            worse = statistics.unfair(by[level, name]["background"], by[level, best]["background"])
            summary["unfair"] += [f"background under {name}, {level}: {text}" for text in worse]
    for row in rows:
        who = f"{row['method']}, {row['congestion']}"
        busy = {part: share for part, share in row["cpu"].items() if share > MOST_CPU}
        found += [
            f"{row['method']}, {row['congestion']}: {part} at {share:.0%} of a processor"
            for part, share in busy.items()
        ]
        if not row["replicas_equal"]:
            found.append(f"{who}: replicas differ")
    summary["checks"] = found
    summary["findings"] = report.findings(summary)
    return summary


def _reference(plan: Plan, trainings: Sequence[Training], name: str, level: str) -> list[Training]:
    """Return the trainings of the first exact method that did all its rounds, for one that did not; else none."""
    if name not in plan.sampled:
        return []
    exact = [name for name in plan.methods if METHODS[name].exact and name not in plan.sampled]
    return [training for training in trainings if training.level == level and training.method in exact[:1]]


def _fabric(rate: float) -> Fabric:
    fabric = load_fabric()
    return slowed(fabric, round(fabric.links[0].rate_bps / rate)) if fabric.links[0].rate_bps else fabric


def _tune(experiment: Experiment, level: str, methods: Sequence[Method], console: Console) -> TcpTuning:
    if not any(method.tcp for method in methods):
        return experiment.tuning
    console.print(
        f"{level}: tuning TCP ({len(experiment.plan.tunings)} settings, {experiment.plan.trial_rounds} rounds of each)"
    )
    trials = experiment.tune(level, METHODS[TUNED])
    for tuning, seconds in sorted(trials.items(), key=lambda pair: pair[1]):
        chosen = " <- chosen" if tuning == experiment.tuning else ""
        console.print(f"  {seconds * 1e3:.0f} ms  {tuning}{chosen}", markup=False)
    return experiment.tuning


def _half_rate(
    plan: Plan, uncongested: dict[str, float], instance: int | None, real_time: bool, console: Console, output: Path
) -> list[str]:
    """Check that the network is the bottleneck: at half the rate rounds must get much longer."""
    half = replace(plan, rate=plan.rate / 2)
    found = []
    with Bed(_fabric(half.rate), Roles(), instance=instance, real_time=real_time) as bed:
        experiment = Experiment(bed, half, half.rate, lambda _: None, output)
        for name in (TUNED, OURS):
            factor = experiment.uncongested(METHODS[name], plan.trial_rounds) / uncongested[name]
            enough = "the network is the bottleneck" if factor >= HALVED else f"at least {HALVED} if the network were"
            found.append(f"half the rate makes {name}'s rounds {factor:.2f} times as long: {enough}")
            console.print(found[-1])
    return found


def _conditions(plan: Plan) -> list[str]:
    return [
        f"every link at {format_rate(int(plan.rate))}bit/s, 2 leaves, 2 spines, 4 workers, 2 server shards",
        f"{len(plan.seeds)} seed(s), {plan.draws} hash draws for each: new addresses and ports for everybody",
        "methods take turns within each draw; the same seeds, batches, computing, packet size and background",
        "background is one stored trace; it stands in the class of the job's front layer and is never judged",
        "times to accuracy are sums of measured rounds of a training that really ran; accuracies are computed aside",
        *(
            f"but {name} did {plan.draws * plan.sampled_rounds} rounds: its time to accuracy is its mean round times "
            "the rounds that an exact method needed, since all exact methods take the same steps, to rounding"
            for name in plan.sampled
        ),
    ]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit code. A user's mistake prints one line."""
    parser = argparse.ArgumentParser(prog="python -m gradlane.demo", description=__doc__)
    parser.add_argument("--full", action="store_true", help="both levels, 3 seeds, 8 hash draws, every method")
    parser.add_argument("--rate", help="of every link, such as 25M: less where processors are the bottleneck")
    options = parser.parse_args(arguments)
    plan = plans.FULL if options.full else plans.SHORT
    began = time.monotonic()
    try:
        if options.rate:
            try:
                plan = replace(plan, rate=float(parse_rate(options.rate)))
            except ValueError as error:
                raise UsageError(f"--rate: {error}") from None
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 220)
        run(plan, console)
        console.print(f"took {(time.monotonic() - began) / 60:.1f} minutes")
    except GradlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: {error.filename or 'demo'}: {error.strerror or error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
