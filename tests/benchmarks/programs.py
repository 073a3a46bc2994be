# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The programs that are measured: how each is installed on a switch, and the frames that it forwards from 1 to 2."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from softswitch.build import library, tables_library
from softswitch.switch import Switch

FORWARD = Path(__file__).parents[1] / "unit" / "softswitch_engine" / "forward.c"
FLOWS = 1000
MARK_BYTES = 16


class Program(ABC):
    """A P4 program with its entries and its traffic."""

    name: str
    mark_offset: int  # where 16 bytes of the frame are free for the tester

    @abstractmethod
    def install(self, switch: Switch) -> None:
        """Load the program and its entries."""

    @abstractmethod
    def frames(self, size: int) -> list[bytes]:
        """Return frames of `size` bytes, of many flows, that port 1 receives and port 2 sends."""


class Wire(Program):
    """The hand-made program of the engine's tests: what ports and traffic manager cost, with next to no pipeline."""

    name = "wire"
    mark_offset = 40

    def install(self, switch: Switch) -> None:
        """Load the program; it has no entries."""
        switch.load_library(library("forward", [FORWARD], needs=[tables_library()]))

    def frames(self, size: int) -> list[bytes]:
        """Return Ethernet frames of no protocol."""
        return [b"\x02" * 12 + b"\x88\xb6" + flow.to_bytes(4, "big") + bytes(size - 18) for flow in range(FLOWS)]


PROGRAMS: dict[str, Program] = {program.name: program for program in (Wire(),)}
