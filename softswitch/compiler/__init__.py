# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The compiler from BMv2 JSON (v1model, as p4c-bm2-ss writes it) to C."""

from __future__ import annotations

from typing import Any

from softswitch.compiler.model import read_program
from softswitch.compiler.program import write_program
from softswitch.compiler.unit import Unit
from softswitch.errors import ProgramError

__all__ = ["compile_program"]


def compile_program(document: dict[str, Any], source_name: str) -> str:
    """Return the C text of a program; raises ProgramError with source and place for what is broken or unknown."""
    try:
        return write_program(Unit(read_program(document)), source_name)
    except ProgramError as error:
        raise error.located(source=source_name) from None
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise ProgramError(f"malformed BMv2 JSON ({type(error).__name__}: {error})", source=source_name) from error
