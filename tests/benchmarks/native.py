# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The benchmark's C: load generator and sink, the forwarders measured against, the pipeline alone."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from cffi import FFI

from softswitch.build import library
from softswitch.native import declarations
from softswitch.native import ffi as engine_ffi

HERE = Path(__file__).parent
SOURCES = ("tester.c", "forwarder.c", "pipeline_alone.c")
BURST = 16


@lru_cache(maxsize=1)
def ffi() -> FFI:
    """Return the declarations of tester.h, on those of the engine."""
    interface = FFI()
    interface.include(engine_ffi())
    interface.cdef(declarations(HERE / "tester.h"))
    return interface


@lru_cache(maxsize=1)
def bench() -> Any:
    """Return the functions of tester.h; calls release the GIL."""
    flags = ("-D_GNU_SOURCE", f"-I{HERE}")
    return ffi().dlopen(str(library("benchmark", [HERE / source for source in SOURCES], flags=flags)))
