# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The errors a user of the embedded switch may meet.

SwitchError                 anything below, one line of text
├── ProgramError            a BMv2 JSON file that is broken, or asks for what the switch does not know
├── BuildError              no C compiler, or it refused what the program compiler wrote
├── SettingsError           a start option or a fabric file that is wrong (exit 2)
├── PortError               an interface that is missing, in use, or not permitted
└── StfError                a packet test that is malformed
"""

from __future__ import annotations


class SwitchError(Exception):
    """Say in one line what went wrong."""


class ProgramError(SwitchError):
    """Name the program and the place in it that cannot be compiled.

    `source` is the file or program name, `place` a path such as `actions/ingress.mark/primitives[3]`.
    """

    def __init__(self, message: str, *, place: str = "", source: str = "") -> None:
        self.message = message
        self.place = place
        self.source = source
        line = ": ".join(part for part in (source, place, message) if part)
        super().__init__(line if line.isprintable() else line.encode("unicode_escape").decode())

    def located(self, *, source: str = "", place: str = "") -> ProgramError:
        """Return the same error with the outer part of its place, or its source, filled in."""
        joined = "/".join(part for part in (place, self.place) if part)
        return ProgramError(self.message, place=joined, source=self.source or source)


class BuildError(SwitchError):
    """Name the C compiler's trouble."""


class SettingsError(SwitchError):
    """Name the option, or the file and the field."""


class PortError(SwitchError):
    """Name the port and the interface."""


class StfError(SwitchError):
    """Name the packet test, the line and the mistake."""
