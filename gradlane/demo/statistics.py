# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""From what the hosts tell to figures: rounds, times to accuracy, losses, background, ratios between methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gradlane.demo.agents import Answer
from traffic.exchanges.background import PAYLOAD

ROUNDS_FOR_P99 = 300
MATCHING_ACCURACY = 0.005
"""Final accuracies that differ by no more count as equal."""
TOGETHER = "the job's hosts and the switches together"
FAIR = 0.10
"""How far background may fall behind what it is under the baseline."""


@dataclass
class Segment:
    """Some rounds of one training in one hash draw."""

    rounds: NDArray[np.float64]
    """Seconds of each: backward pass, exchange, and the next forward pass, until the slowest worker has done that."""
    accuracies: list[tuple[int, float]]
    """(rounds that the training had done, accuracy)."""
    bytes_per_round: float
    """That a worker's network card sent."""
    lost: dict[str, Any]
    background: dict[str, float]
    cpu: dict[str, float]
    same: bool
    """Whether all replicas ended equal, bit by bit."""

    @staticmethod
    def of(
        workers: Sequence[Answer],
        servers: Sequence[Answer],
        background: dict[str, float],
        switch_cpu: float,
        processors: int,
    ) -> Segment:
        """Join the answers of a segment's hosts; `switch_cpu` is the switches' share of all processors."""
        ends = np.array([answer["ends"] for answer in workers]).max(axis=0)
        begin = max(answer["begin"] for answer in workers)
        hosts = sum(answer["cpu"] for answer in (*workers, *servers) if answer)
        return Segment(
            rounds=np.diff(np.concatenate([[begin], ends])),
            accuracies=[(int(number), float(accuracy)) for number, accuracy in workers[0]["accuracies"]],
            bytes_per_round=sum(answer["bytes"] for answer in workers) / len(workers) / len(ends),
            lost=_joined([answer["lost"] for answer in workers]),
            background=background,
            cpu={
                "worker": max(answer["cpu"] for answer in workers),
                "server": max((answer["cpu"] for answer in servers if answer), default=0.0),
                "switches": switch_cpu,
                TOGETHER: hosts / processors + switch_cpu,
            },
            same=len({answer["digest"] for answer in workers}) == 1,
        )


@dataclass
class Training:
    """One method's training of one model from one seed under one level of congestion."""

    method: str
    level: str
    seed: int
    segments: list[Segment] = field(default_factory=list)
    """One for each hash draw."""
    model: str = "mlp"
    compute: float = 0.0
    """Declared time of computing over that of communication."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; `from_dict` reads them back."""
        return {**asdict(self), "segments": [{**asdict(s), "rounds": s.rounds.tolist()} for s in self.segments]}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> Training:
        """Read back what `as_dict` gave."""
        segments = [
            Segment(
                **{
                    **segment,
                    "rounds": np.array(segment["rounds"]),
                    "accuracies": [(int(number), float(accuracy)) for number, accuracy in segment["accuracies"]],
                }
            )
            for segment in values["segments"]
        ]
        return Training(**{**values, "segments": segments})

    @property
    def rounds(self) -> NDArray[np.float64]:
        """Seconds of every round."""
        return np.concatenate([segment.rounds for segment in self.segments])

    @property
    def curve(self) -> list[tuple[float, float]]:
        """(seconds of training, accuracy), in order."""
        elapsed = np.concatenate([[0.0], np.cumsum(self.rounds)])
        return [(float(elapsed[number]), accuracy) for s in self.segments for number, accuracy in s.accuracies]

    def rounds_to(self, target: float) -> int | None:
        """Return after how many rounds the accuracy was first reached."""
        reached = (number for segment in self.segments for number, accuracy in segment.accuracies if accuracy >= target)
        return next(reached, None)

    def seconds_to(self, target: float) -> float | None:
        """Return after how many seconds of training the accuracy was first reached."""
        number = self.rounds_to(target)
        return None if number is None else float(self.rounds[:number].sum())

    @property
    def final_accuracy(self) -> float:
        """The mean of the last five accuracies: a single one jumps by half a point."""
        return float(np.mean([accuracy for s in self.segments for _, accuracy in s.accuracies][-5:]))


def row(trainings: Sequence[Training], targets: Sequence[float], reference: Sequence[Training] = ()) -> dict[str, Any]:
    """Return summary.json's row of one method at one level, over its seeds.

    With a `reference`, whose trainings go round by round as these do, to rounding, times to accuracy are composed: the
    reference's rounds, each as long as the mean of these; and the accuracy is the reference's.
    """
    row = _row(trainings, targets)
    row["composed"] = bool(reference)
    if reference:
        whole = _row(reference, targets)
        row["accuracy"], row["rounds_to"] = whole["accuracy"], whole["rounds_to"]
        mean = row["round_s"]["mean"]
        row["tta_s"] = {target: number and number * mean for target, number in whole["rounds_to"].items()}
        row["tta_spread_s"] = dict.fromkeys(row["tta_s"])
    return row


def _row(trainings: Sequence[Training], targets: Sequence[float]) -> dict[str, Any]:
    rounds = np.concatenate([training.rounds for training in trainings])
    segments = [segment for training in trainings for segment in training.segments]
    watched = [segment.background for segment in segments if segment.background]
    finals = [training.final_accuracy for training in trainings]
    return {
        "method": trainings[0].method,
        "model": trainings[0].model,
        "compute": trainings[0].compute,
        "congestion": trainings[0].level,
        "round_s": {
            "mean": float(rounds.mean()),
            **{f"p{share}": float(np.quantile(rounds, share / 100)) for share in (50, 95, 99)},
        },
        "rounds": len(rounds),
        "by_draw_s": [float(segment.rounds.mean()) for segment in segments],
        "rounds_to": {f"{t:g}": middle([training.rounds_to(t) for training in trainings]) for t in targets},
        "tta_s": {f"{t:g}": middle([training.seconds_to(t) for training in trainings]) for t in targets},
        "tta_spread_s": {f"{t:g}": _spread([training.seconds_to(t) for training in trainings]) for t in targets},
        "accuracy": {"mean": float(np.mean(finals)), "std": float(np.std(finals))},
        "loss": _joined([segment.lost for segment in segments]),
        "bytes": float(np.mean([segment.bytes_per_round for segment in segments])),
        "background": {
            key: float(np.mean([figures[key] for figures in watched])) for key in (watched[0] if watched else {})
        },
        "cpu": {key: float(np.mean([segment.cpu[key] for segment in segments])) for key in segments[0].cpu},
        "replicas_equal": all(segment.same for segment in segments),
    }


def ratios(rows: Sequence[Mapping[str, Any]], ours: str, baselines: Sequence[str], others: Sequence[str]) -> Any:
    """Return `tta`, `round` and `p99` by level and baseline, and `best`: heavy, against the best of the baselines.

    Of the times to accuracy the highest target counts that both have reached; None where there is none.
    """
    found: dict[str, Any] = {"tta": {}, "round": {}, "p99": {}, "best": None}
    by = {(r["congestion"], r["method"]): r for r in rows}
    for level in dict.fromkeys(r["congestion"] for r in rows):
        mine = by.get((level, ours))
        if mine is None:
            continue
        theirs = {name: by[level, name] for name in (*baselines, *others) if (level, name) in by}
        found["tta"][level] = {name: _tta_ratio(its, mine) for name, its in theirs.items()}
        for key, quantity in (("round", "mean"), ("p99", "p99")):
            found[key][level] = {
                name: its["round_s"][quantity] / mine["round_s"][quantity] for name, its in theirs.items()
            }
    heavy = [found["tta"].get("heavy", {}).get(name) for name in baselines]
    reached = [ratio for ratio in heavy if ratio is not None]
    found["best"] = min(reached) if reached else None
    return found


def gains(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many times faster a method's rounds are than another's in the same hash draws: median, least, most."""
    pairs = zip(before["by_draw_s"], after["by_draw_s"], strict=True)
    ratios = sorted(slow / quick for slow, quick in pairs)
    return {"gain": float(median(ratios)), "spread": [ratios[0], ratios[-1]]}


def background_figures(answers: Sequence[Answer], begin: float, end: float) -> dict[str, float]:
    """Return goodput, share delivered and completion times of the bursts that were due while the job trained.

    `begin` and `end` are CLOCK_MONOTONIC. A burst is complete when its last packet has arrived; one that lost any never
    is, and counts as infinitely late: else a network would look quick that drops a burst's tail.
    """
    due: dict[int, tuple[int, float]] = {}
    came: dict[int, tuple[int, float]] = {}
    for answer in answers:
        due |= {number: (packets, at) for number, packets, at in answer["sent"] if begin <= at < end}
        came |= {number: (packets, last) for number, packets, last in answer["arrived"]}
    if not due or end <= begin:
        return {}
    arrived = sum(came[number][0] for number in due if number in came)
    completions = [
        came[number][1] - at if number in came and came[number][0] >= packets else float("inf")
        for number, (packets, at) in due.items()
    ]
    return {
        "goodput_bps": arrived * PAYLOAD * 8 / (end - begin),
        "delivered": arrived / sum(packets for packets, _ in due.values()),
        "complete": float(np.isfinite(completions).mean()),
        "completion_p50_s": float(np.quantile(completions, 0.5, method="higher")),
        "completion_p99_s": float(np.quantile(completions, 0.99, method="higher")),
    }


def unfair(mine: Mapping[str, float], baseline: Mapping[str, float]) -> list[str]:
    """Return in which figures background is worse off under a method than under the baseline.

    Nothing where a method's segments were too short for a burst to be due in them.
    """
    if not mine or not baseline:
        return []
    found = []
    for key in ("delivered", "complete"):
        if mine[key] < (1 - FAIR) * baseline[key]:
            found.append(f"{key} {mine[key]:.1%} instead of {baseline[key]:.1%}")
    for key in ("completion_p50_s", "completion_p99_s"):
        if mine[key] > (1 + FAIR) * baseline[key] + COMPLETION_RESOLUTION:
            found.append(f"{key} {mine[key] * 1e3:.0f} ms instead of {baseline[key] * 1e3:.0f} ms")
    return found


COMPLETION_RESOLUTION = 0.002
"""Seconds: how often a sink looks."""


def _tta_ratio(theirs: Mapping[str, Any], mine: Mapping[str, Any]) -> float | None:
    for target in sorted(mine["tta_s"], key=float, reverse=True):
        if mine["tta_s"][target] and theirs["tta_s"].get(target):
            return float(theirs["tta_s"][target] / mine["tta_s"][target])
    return None


def middle(values: Sequence[float | None]) -> float | None:
    """Return the median, None if fewer than half were reached; what was not reached counts as infinitely late."""
    found = median(float("inf") if value is None else value for value in values)
    return None if found == float("inf") else float(found)


def _spread(values: Sequence[float | None]) -> list[float] | None:
    reached = [value for value in values if value is not None]
    return [float(min(reached)), float(max(reached))] if reached else None


def _joined(lost: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Add up counts of (sent, lost) by layer and by importance."""
    return {
        key: np.sum([np.array(part[key]) for part in lost if key in part], axis=0).tolist()
        for key in ("by_layer", "by_importance")
        if any(part.get(key) for part in lost)
    }
