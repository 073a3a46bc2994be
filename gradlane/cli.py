# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl`: the controller's verbs and the traffic's, which know nothing of each other, under one name."""

from __future__ import annotations

import signal
import sys
from typing import TYPE_CHECKING

from controller.cli import add_late, app, run
from traffic.replay.cli import add_replay

if TYPE_CHECKING:
    from topologies.state import RunningFabric
    from traffic.replay.observe import Observation


def _observe(running: RunningFabric) -> Observation:
    from gradlane.observe import observe

    return observe(running)


add_late(app, "trace", "traffic.cli:trace_app", "Record the gradients of a real training job, and look at a recording.")
add_late(
    app,
    "schedule",
    "traffic.collectives.tacos.cli:schedule_app",
    "Synthesise, verify, show, export and compare schedules of collectives.",
)
add_replay(app, _observe)


def main() -> None:
    """Run gradctl and end with its exit code. SIGTERM unwinds it: a replay ends its processes and drops its files."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(run(app))


if __name__ == "__main__":
    main()
