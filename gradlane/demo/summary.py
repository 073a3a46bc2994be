# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""From the measured parts to summary.json: a row for each method, and what the rows say of one another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import mean
from typing import Any

from gradlane.demo import plan as plans
from gradlane.demo import statistics
from gradlane.demo.parts import Measured
from gradlane.demo.plan import ABLATION, BASELINES, COMPRESSING, METHODS, OURS, Plan
from gradlane.demo.statistics import Training
from traffic.exchanges.networks import RECIPES

MOST_CPU = 0.6

Row = Mapping[str, Any]


def summarise(plan: Plan, measured: Sequence[Measured], conditions: Sequence[str]) -> dict[str, Any]:
    """Return summary.json's content. What stands at its top is of the first case, `cases` has every one."""
    groups: dict[tuple[str, str], list[Measured]] = {}
    for each in measured:
        groups.setdefault((each.part.case, each.part.level), []).append(each)
    rows: list[Row] = []
    cases: dict[str, Any] = {}
    checks: list[str] = []
    for (case, level), group in groups.items():
        mine = _rows(plan, group)
        rows += mine
        of_case = cases.setdefault(case, {"rows": [], "levels": {}})
        of_case["rows"] += mine
        of_case["levels"][level] = _level(case, level, group, {row["method"]: row for row in mine}, checks)
    for of_case in cases.values():
        of_case["ratios"] = statistics.ratios(of_case.pop("rows"), OURS, BASELINES, ("topk",))
    first = next(iter(cases.values()))
    return {
        "levels": list(first["levels"]),
        "seeds": sorted({each.part.seed for each in measured}),
        "draws": plan.draws,
        "rate_bps": plan.rate,
        "rows": rows,
        "ratios": first["ratios"],
        "cases": cases,
        "conditions": [
            *conditions,
            *(f"{each.part.name}: TCP tuned to {each.tuning}" for each in measured),
        ],
        "unfair": [
            text for of_case in cases.values() for level in of_case["levels"].values() for text in level["unfair"]
        ],
        "checks": checks,
    }


def _rows(plan: Plan, group: Sequence[Measured]) -> list[Row]:
    """Return a row for each method of one case at one level, over its seeds."""
    trainings = [training for each in group for training in each.trainings]
    targets = RECIPES[group[0].part.model].targets

    def of(method: str) -> list[Training]:
        return [training for training in trainings if training.method == method]

    names = list(dict.fromkeys(training.method for training in trainings))
    whole = [name for name in names if METHODS[name].exact and name not in plan.sampled]
    reference = of(whole[0]) if whole else []
    return [statistics.row(of(name), targets, reference if name in plan.sampled else ()) for name in names]


def _level(
    case: str, level: str, group: Sequence[Measured], by: Mapping[str, Row], checks: list[str]
) -> dict[str, Any]:
    """Return what the rows of one case at one level say of one another, and add what is not as it should be."""
    where = f"{case}, {level}"
    uncongested = {name: mean(each.uncongested[name] for each in group if name in each.uncongested) for name in by}
    found: dict[str, Any] = {"uncongested_round_s": uncongested, "unfair": []}
    present = [name for name in BASELINES if name in by]
    if present:
        best = min(present, key=lambda name: by[name]["round_s"]["mean"])
        slow, quick = by[best]["round_s"]["mean"], uncongested[best]
        tuned = plans.TUNED if plans.TUNED in by else best
        factor = by[tuned]["round_s"]["mean"] / uncongested[tuned]
        found["congestion"] = {"baseline": tuned, "factor": factor, "wanted": plans.WANTED[level], "fastest": best}
        if OURS in by and slow > quick:
            found["removed"] = (slow - by[OURS]["round_s"]["mean"]) / (slow - quick)
        for name in by:
            worse = statistics.unfair(by[name]["background"], by[best]["background"])
            found["unfair"] += [f"background under {name}, {where}: {text}" for text in worse]
    if {"ring", "gloo"} <= set(by):
        found["ring"] = statistics.gains(by["gloo"], by["ring"])
    found["ablation"] = [
        {"step": after, "over": before, **statistics.gains(by[before], by[after])}
        for before, after in pairwise(ABLATION)
        if {before, after} <= set(by)
    ]
    if {"ps", "p3"} <= set(by):
        found["tcp_priority"] = statistics.gains(by["ps"], by["p3"])
    if set(COMPRESSING) <= set(by):
        theirs, ours = (by[name]["round_s"] for name in COMPRESSING)
        found["compressed"] = {key: theirs[key] / ours[key] for key in ("mean", "p50", "p99")}
    found["busiest"] = [
        max(({"part": part, "share": row["cpu"][part], "method": name} for name, row in by.items()), key=_share)
        for part in next(iter(by.values()))["cpu"]
    ]
    for name, row in by.items():
        busy = {part: share for part, share in row["cpu"].items() if share > MOST_CPU}
        checks += [f"{name}, {where}: {part} at {share:.0%} of {_of(part)}" for part, share in busy.items()]
        if not row["replicas_equal"]:
            checks.append(f"{name}, {where}: replicas differ")
    return found


def _share(figure: Mapping[str, Any]) -> float:
    return float(figure["share"])


def _of(part: str) -> str:
    return "all processors" if part in ("switches", statistics.TOGETHER) else "a processor"
