# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl`: thin shells over the controller's library calls. Every listing has --json."""

from __future__ import annotations

from controller.cli import live, policy, show, topology
from controller.cli.common import new_app, run

__all__ = ["app", "run"]

app = new_app("See and set what a running Gradlane fabric does.")
app.add_typer(policy.app, name="policy")
app.add_typer(topology.app, name="topology")
show.add_to(app)
live.add_to(app)
