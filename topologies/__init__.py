# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Fabrics: one model, its YAML files, the routes through it, and Mininet that runs it."""

from topologies.errors import FailureError, GradlaneError, UsageError
from topologies.loading import load, names
from topologies.model import Fabric, Host, Link, Port, Switch
from topologies.routes import next_hops

__all__ = [
    "Fabric",
    "FailureError",
    "GradlaneError",
    "Host",
    "Link",
    "Port",
    "Switch",
    "UsageError",
    "load",
    "names",
    "next_hops",
]
