# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A switch that runs the hand-made program of forward.c."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from softswitch.build import library, tables_library
from softswitch.native import sanitized
from softswitch.switch import Switch


@pytest.fixture(scope="session")
def program() -> Path:
    """The compiled forward.c."""
    source = Path(__file__).parent / "forward.c"
    sanitize = sanitized()
    return library("forward", [source], needs=[tables_library(sanitize=sanitize)], sanitize=sanitize)


@pytest.fixture
def switch(program: Path) -> Iterator[Switch]:
    """A switch with virtual ports 1 to 4, whose account is checked at the end."""
    with Switch() as switch:
        switch.load_library(program)
        for port in (1, 2, 3, 4):
            switch.add_port(port)
        switch.port_events()
        yield switch
        account = switch.account()
        assert account.received + account.copied == account.sent + account.dropped + account.queued
        assert account.dropped == sum(count for cause, count in switch.drops().items() if cause != "digest_overflow")
