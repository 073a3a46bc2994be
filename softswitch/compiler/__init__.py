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
        said = f"malformed BMv2 JSON ({type(error).__name__}: {error})"
        raise ProgramError(said, place=_place_of(error), source=source_name) from error


def _place_of(error: BaseException) -> str:
    """Return the place in the program that was being read, as the innermost function that knows one tells it."""
    place, trace = "", error.__traceback__
    while trace is not None:
        known = trace.tb_frame.f_locals
        innermost = known.get("where") or known.get("place") or getattr(known.get("self"), "place", None)
        place, trace = innermost if isinstance(innermost, str) else place, trace.tb_next
    return place
