# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl`: the controller's verbs and the traffic's, which know nothing of each other, under one name."""

from __future__ import annotations

import signal
import sys

from controller.cli import app, run
from gradlane.observe import observe
from traffic.cli import add_replay, trace_app
from traffic.collectives.tacos.cli import schedule_app

app.add_typer(trace_app, name="trace")
app.add_typer(schedule_app, name="schedule")
add_replay(app, observe)


def main() -> None:
    """Run gradctl and end with its exit code. SIGTERM unwinds it: a replay ends its processes and drops its files."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(run(app))


if __name__ == "__main__":
    main()
