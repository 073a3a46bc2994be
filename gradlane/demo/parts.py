# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a part of the full run has measured, stored, so that a long run can be done a part at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradlane.demo.bed import TcpTuning
from gradlane.demo.plan import Part
from gradlane.demo.statistics import Training
from topologies.errors import UsageError


@dataclass(frozen=True)
class Measured:
    """A part and its figures."""

    part: Part
    trainings: Sequence[Training]
    uncongested: Mapping[str, float]
    """By method, the mean seconds of a round without background."""
    tuning: TcpTuning

    def save(self, folder: Path) -> None:
        """Write it into a folder, under the part's name."""
        folder.mkdir(parents=True, exist_ok=True)
        plain = {
            "part": vars(self.part),
            "trainings": [training.as_dict() for training in self.trainings],
            "uncongested": dict(self.uncongested),
            "tuning": vars(self.tuning),
        }
        file_of(folder, self.part).write_text(json.dumps(plain) + "\n", encoding="utf-8")


def file_of(folder: Path, part: Part) -> Path:
    """Return where a part is stored."""
    return folder / f"{part.name.replace('/', '-')}.json"


def file_of_study(folder: Path, name: str) -> Path:
    """Return where a study is stored."""
    return folder / f"{name}.json"


def save_study(folder: Path, name: str, found: Sequence[Any]) -> None:
    """Write what a study has found into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file_of_study(folder, name).write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def load_study(folder: Path, name: str) -> list[Any]:
    """Read back what `save_study` wrote; nothing if it was not done. Raises UsageError."""
    file = file_of_study(folder, name)
    try:
        found: list[Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []
    except ValueError as error:
        raise UsageError(f"is no study of a demo: {error}", file=file) from None
    return found


def load(file: Path) -> Measured:
    """Read back what `save` wrote. Raises UsageError for a file that is no such part."""
    try:
        plain: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        part = plain["part"]
        return Measured(
            Part(**{**part, "methods": tuple(part["methods"])}),
            [Training.from_dict(values) for values in plain["trainings"]],
            plain["uncongested"],
            TcpTuning(**plain["tuning"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"is no part of a demo: {error}", file=file) from None
