# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The controller: turns one policy and one fabric into what every switch holds, and keeps it so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from controller.reconcile import Controller, Report, install

__all__ = ["Controller", "Report", "install"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: who compiles a policy and talks to no switch does not wait for gRPC.
    if name in __all__:
        from controller import reconcile

        return getattr(reconcile, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
