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

from gradlane.demo import parts, report, studies, tuner
from gradlane.demo import plan as plans
from gradlane.demo.bed import Bed, Roles, TcpTuning, load_fabric
from gradlane.demo.experiment import Experiment
from gradlane.demo.parts import Measured
from gradlane.demo.plan import METHODS, Method, Part, Plan
from gradlane.demo.summary import summarise
from topologies.errors import GradlaneError, UsageError
from topologies.units import format_rate, parse_rate

OUTPUT = Path("build/demo")


def run(
    plan: Plan,
    console: Console,
    *,
    output: Path = OUTPUT,
    stored: bool = False,
    instance: int | None = 0,
    real_time: bool = True,
) -> dict[str, Any]:
    """Run every part of the plan and return summary.json's content. Raises GradlaneError; leaves nothing running.

    With `stored` parts and studies are kept in output/parts and output/studies, none that is there is run again, and
    all that are there count. Where nothing was trained there is no summary.
    """
    folder = output / "parts"
    left = [part for part in plan.parts if not (stored and parts.file_of(folder, part).exists())]
    notes = output / "studies"
    asked = [name for name in plan.studies if not (stored and parts.file_of_study(notes, name).exists())]
    expected = sum(plan.seconds(part) for part in left) + sum(studies.seconds(plan, name) for name in asked)
    console.print(f"about {minutes(expected)}")
    measured: list[Measured] = []
    if left:
        with Bed(load_fabric(plan.rate), Roles(), instance=instance, real_time=real_time) as bed:
            if bed.refused:
                console.print(bed.refused)
            for number, part in enumerate(left):
                console.print(f"{part.name} ({number + 1} of {len(left)}, about {minutes(plan.seconds(part))})")
                measured.append(_measure(bed, plan, part, console, output))
                if stored:
                    measured[-1].save(folder)
    for name in asked:
        console.print(f"{name} (about {minutes(studies.seconds(plan, name))})")
        found = (
            studies.sweep(plan, console)
            if name == "tolerance"
            else studies.half_rate(plan, instance, real_time, console, output)
        )
        parts.save_study(notes, name, found)
    if stored:
        measured = [parts.load(file) for file in sorted(folder.glob("*.json"))]
    if not measured:
        return {}
    summary = summarise(plan, measured, _conditions(plan, measured))
    if stored:
        summary["checks"] += parts.load_study(notes, "half-rate")
        summary["tolerance"] = parts.load_study(notes, "tolerance")
    summary["findings"] = report.findings(summary)
    report.write(summary, [training for each in measured for training in each.trainings], output)
    report.show(summary, console)
    console.print(f"\nwritten: {output}/summary.json, {output}/report.html")
    return summary


def minutes(seconds: float) -> str:
    """Say how long that is."""
    count = max(round(seconds / 60), 1)
    return f"{count} minute{'s' * (count > 1)}" if count < 120 else f"{count / 60:.1f} hours"


def _measure(bed: Bed, plan: Plan, part: Part, console: Console, output: Path) -> Measured:
    methods = [METHODS[name] for name in part.methods if METHODS[name].available()]
    missing = [METHODS[name].title for name in part.methods if not METHODS[name].available()]
    if missing:
        console.print(f"left out, since PyTorch is not installed: {', '.join(missing)}")
    experiment = Experiment(bed, plan, part, lambda text: console.print(text, markup=False), output)
    tuning = _tune(experiment, methods, console)
    uncongested = {}
    for method in methods:
        uncongested[method.name] = experiment.uncongested(method, plan.calm_rounds)
        console.print(f"  without background, {method.name}: {uncongested[method.name] * 1e3:.0f} ms a round")
    return Measured(part, experiment.trainings(methods), uncongested, tuning)


def _tune(experiment: Experiment, methods: Sequence[Method], console: Console) -> TcpTuning:
    if not any(method.tcp for method in methods):
        return experiment.tuning
    if len(experiment.plan.tunings) == 1:
        experiment.tuning = experiment.plan.tunings[0]
        return experiment.tuning
    turns = tuner.turns(len(experiment.plan.tunings), experiment.plan.trial_rounds)
    tried = "; ".join(f"{turn.settings} settings, {turn.rounds} rounds of each" for turn in turns)
    console.print(f"tuning TCP, each turn in another hash draw: {tried}")
    trials = experiment.tune(METHODS[plans.TUNED])
    for tuning, rounds in sorted(trials.items(), key=lambda pair: (-len(pair[1]), sum(pair[1]) / len(pair[1]))):
        chosen = " <- chosen" if tuning == experiment.tuning else ""
        mean = sum(rounds) / len(rounds) * 1e3
        console.print(f"  {mean:.0f} ms, mean of {len(rounds)}: {tuning}{chosen}", markup=False)
    return experiment.tuning


def _conditions(plan: Plan, measured: Sequence[Measured]) -> list[str]:
    seeds = {each.part.seed for each in measured}
    return [
        f"every link at {format_rate(int(plan.rate))}bit/s, 2 leaves, 2 spines, 4 workers, 2 server shards",
        f"{len(seeds)} seed(s), {plan.draws} hash draws for each: new addresses and ports for everybody",
        "methods take turns within each draw; the same seeds, batches, computing, packet size and background",
        "background is one stored trace, of a second job like the first: its layers stand in the same classes",
        "times to accuracy are sums of measured rounds of a training that really ran; accuracies are computed aside",
        *(
            f"but {name} did {plan.draws * plan.sampled_rounds} rounds: its time to accuracy is its mean round times "
            "the rounds that an exact method needed, since all exact methods take the same steps, to rounding"
            for name in plan.sampled
        ),
    ]


def _narrowed(plan: Plan, options: argparse.Namespace) -> Plan:
    """Return the plan as the options would have it. Raises UsageError."""
    if options.rate:
        try:
            plan = replace(plan, rate=float(parse_rate(options.rate)))
        except ValueError as error:
            raise UsageError(f"--rate: {error}") from None
    if options.part:
        names = {part.name: part for part in plan.parts}
        for name in options.part:
            if name not in (*names, *plan.studies):
                raise UsageError(f"--part: there is no {name!r}; there are {', '.join((*names, *plan.studies))}")
        chosen = tuple(names[name] for name in options.part if name in names)
        plan = replace(plan, parts=chosen, studies=tuple(name for name in plan.studies if name in options.part))
    if options.methods:
        methods = tuple(options.methods.split(","))
        for name in methods:
            if name not in METHODS:
                raise UsageError(f"--methods: there is no {name!r}; there are {', '.join(METHODS)}")
        plan = replace(plan, parts=tuple(replace(part, methods=methods) for part in plan.parts))
    if options.tcp:
        plan = replace(plan, tunings=(_tuning(options.tcp),))
    for name in ("draws", "rounds", "trial_rounds"):
        if value := getattr(options, name):
            plan = replace(plan, **{name: value})
    return plan


def _tuning(text: str) -> TcpTuning:
    """Read CONGESTION,RTO,QUEUE. Raises UsageError."""
    known = {(t.congestion, str(t.least_rto_ms), str(t.queue_packets)): t for t in plans.FULL.tunings}
    if (given := tuple(text.split(","))) not in known:
        raise UsageError(f"--tcp: there is no {text!r}; there are {'; '.join(map(','.join, known))}")
    return known[given]  # type: ignore[index]


def main(arguments: list[str] | None = None) -> int:
    """Run the command; returns its exit code. A user's mistake prints one line."""
    parser = argparse.ArgumentParser(prog="python -m gradlane.demo", description=__doc__)
    parser.add_argument(
        "--full", action="store_true", help="both levels, 3 seeds, 8 hash draws, every method and model"
    )
    parser.add_argument(
        "--part",
        action="append",
        metavar="LEVEL/MODEL/SEED",
        help="of --full: run this part, or study, alone; may be repeated",
    )
    parser.add_argument("--methods", metavar="NAME,...", help="run these alone")
    parser.add_argument("--draws", type=int, help="hash draws for each seed")
    parser.add_argument("--rounds", type=int, help="of each training, all draws together")
    parser.add_argument("--trial-rounds", type=int, help="of each TCP setting at first; without background twice that")
    parser.add_argument("--tcp", metavar="CONGESTION,RTO,QUEUE", help="use these settings, such as cubic,5,64, untuned")
    parser.add_argument("--rate", help="of every link, such as 25M: less where processors are the bottleneck")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    try:
        if options.part and not options.full:
            raise UsageError("--part is of --full")
        plan = _narrowed(plans.FULL if options.full else plans.SHORT, options)
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 220)
        run(plan, console, stored=options.full)
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
