# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How the switches of a fabric are run: one module for each target."""

from topologies.errors import UsageError
from topologies.runners.base import Runner, SwitchProcess
from topologies.runners.bmv2 import Bmv2Runner
from topologies.runners.softswitch import SoftswitchRunner

TARGETS: dict[str, type[Runner]] = {"softswitch": SoftswitchRunner, "bmv2": Bmv2Runner}


def runner_for(target: str) -> type[Runner]:
    """Return the runner of a target by name; UsageError if there is none."""
    if target not in TARGETS:
        raise UsageError(f"there is no target {target!r}; it is one of {', '.join(TARGETS)}")
    return TARGETS[target]


__all__ = ["TARGETS", "Bmv2Runner", "Runner", "SoftswitchRunner", "SwitchProcess", "runner_for"]
