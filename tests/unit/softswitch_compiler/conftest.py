# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from bmv2_json import ProgramBuilder

from softswitch.switch import Switch

Load = Callable[..., Switch]


@pytest.fixture(autouse=True)
def quickly_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred programs that see few packets; pipeline, differential and STF tests compile as users do."""
    monkeypatch.setenv("CFLAGS", "-O0")


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Return a function that compiles a program and gives a switch with virtual ports 0 to 7."""
    with ExitStack() as stack:

        def start(program: ProgramBuilder, first: str | None = None, egress: str | None = None) -> Switch:
            switch = stack.enter_context(Switch(frames=256, frame_bytes=3800))
            switch.load(program.write(tmp_path, first, egress))
            for port in range(8):
                switch.add_port(port)
            return switch

        yield start
