# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The C side of P4Runtime: a library beside the engine's, with its declarations read from p4runtime.h."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from cffi import FFI

from softswitch.build import RUNTIME, library, tables_library
from softswitch.native import declarations, engine_library, sanitized
from softswitch.native import ffi as engine_ffi

SOURCES = ("p4runtime_session.c", "p4runtime_write.c", "p4runtime_read.c", "p4runtime_copy.c")


def p4runtime_library() -> Path:
    """Build the P4Runtime library, or find it in the cache."""
    sanitize = sanitized()
    return library(
        "p4runtime",
        [RUNTIME / source for source in SOURCES],
        needs=[tables_library(sanitize=sanitize), engine_library()],
        sanitize=sanitize,
    )


@lru_cache(maxsize=1)
def ffi() -> FFI:
    """Return the declarations of p4runtime.h, on those of the engine."""
    interface = FFI()
    interface.include(engine_ffi())
    interface.cdef(declarations(RUNTIME / "p4runtime.h"))
    return interface


@lru_cache(maxsize=1)
def p4runtime() -> Any:
    """Return the functions of p4runtime.h, and through the library those of engine.h and table.h."""
    return ffi().dlopen(str(p4runtime_library()))
