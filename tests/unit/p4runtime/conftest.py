# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A switch that runs the program of everything.py, and its P4Runtime endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import everything
import pytest

from softswitch.build import build
from softswitch.native import sanitized
from softswitch.p4runtime.endpoint import Endpoint
from softswitch.switch import Switch


@pytest.fixture(scope="session")
def program_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The program's JSON and its P4Info."""
    return everything.write(tmp_path_factory.mktemp("everything"))


@pytest.fixture(scope="session")
def library(program_files: tuple[Path, Path]) -> Path:
    """The compiled program."""
    return build(program_files[0], sanitize=sanitized())


@pytest.fixture
def switch(program_files: tuple[Path, Path], library: Path) -> Iterator[Switch]:
    """A switch with virtual ports 1 to 8, a CPU port, and a virtual clock at one second."""
    with Switch() as switch:
        switch.set_clock(10**9)
        switch.set_cpu_port(everything.CPU_PORT)
        for port in range(1, 9):
            switch.add_port(port)
        switch.load_library(library)
        switch.p4runtime.bind(program_files[1].read_text(), program_files[0].read_bytes())
        yield switch


@pytest.fixture
def endpoint(switch: Switch) -> Iterator[Endpoint]:
    """The switch's P4Runtime endpoint."""
    yield switch.p4runtime
    switch.p4runtime.close()
