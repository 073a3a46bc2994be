# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Fabrics: one model, its YAML files, the routes through it, and Mininet that runs it."""

from __future__ import annotations

from pathlib import Path

from topologies.errors import FailureError, GradlaneError, UsageError
from topologies.model import Fabric, Host, Link, Port, Switch
from topologies.routes import next_hops


def load(name_or_path: str | Path) -> Fabric:
    """Load the fabric of that name (`leaf_spine`), or from the YAML file at that path.

    Raises UsageError: unknown name, unreadable file, malformed YAML, or a field that is wrong.
    """
    from topologies import loading  # here, so that who reads no YAML does not wait for pydantic's schemas

    return loading.load(name_or_path)


def names() -> list[str]:
    """Return the names of the topologies that come with Gradlane."""
    from topologies import loading

    return loading.names()


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
