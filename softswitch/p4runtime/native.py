# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The C side of P4Runtime and the control channel: a library beside the engine's, declared by its headers."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from cffi import FFI

from softswitch.build import RUNTIME, library, tables_library
from softswitch.native import declarations, engine_library, opened, sanitized
from softswitch.native import ffi as engine_ffi

HEADERS = ("p4runtime.h", "control.h")
SOURCES = (
    "control.c",
    "p4runtime_session.c",
    "p4runtime_write.c",
    "p4runtime_undo.c",
    "p4runtime_actions.c",
    "p4runtime_entries.c",
    "p4runtime_profile.c",
    "p4runtime_arrays.c",
    "p4runtime_read.c",
    "p4runtime_copy.c",
)


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
    """Return the declarations of the headers, on those of the engine."""
    interface = FFI()
    interface.include(engine_ffi())
    for header in HEADERS:
        interface.cdef(declarations(RUNTIME / header))
    return interface


@lru_cache(maxsize=1)
def p4runtime() -> Any:
    """Return the functions of the headers; those of engine.h and table.h are in `softswitch.native.engine`."""
    return opened(ffi(), p4runtime_library())
