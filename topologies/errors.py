# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The errors that a user may meet, each of which prints as one line and has an exit code.

GradlaneError
├── UsageError      the request was wrong: bad YAML, unknown name, missing root          exit code 2
└── FailureError    the request was right, the world was not: port in use, switch died   exit code 1
"""

from __future__ import annotations

from pathlib import Path


class GradlaneError(Exception):
    """The base of every error that a user may meet."""

    exit_code = 1


class FailureError(GradlaneError):
    """Something outside the request failed: a port in use, a switch that died, a missing kernel feature."""

    exit_code = 1


class UsageError(GradlaneError):
    """The request itself is wrong; names the file, line and field where it can.

    `line` counts from 1. The message reads `file:line: field: message`, each part only where known.
    """

    exit_code = 2

    def __init__(
        self, message: str, *, file: str | Path | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        self.message = message
        self.file = None if file is None else str(file)
        self.line = line
        self.field = field
        place = [] if self.file is None else [self.file if line is None else f"{self.file}:{line}"]
        if field:
            place.append(field)
        super().__init__(": ".join([*place, message]))
