# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl`: thin shells over the controller's library calls. Every listing has --json."""

from __future__ import annotations

from controller.cli import live, show
from controller.cli.common import new_app, run
from controller.cli.late import add_late

__all__ = ["add_late", "app", "run"]

app = new_app("See and set what a running Gradlane fabric does.")
add_late(app, "policy", "controller.cli.policy:app", "What the fabric should do: check, plan, apply, show, roll back.")
add_late(app, "topology", "controller.cli.topology:app", "What a fabric may be: the form of topology files.")
show.add_to(app)
live.add_to(app)
