# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The C side of the switch: its declarations for cffi, read from the headers themselves, and its loaded library."""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from cffi import FFI

from softswitch.build import RUNTIME, library, tables_library
from softswitch.errors import BuildError

HEADERS = ("program.h", "table.h", "engine.h")
ENGINE_SOURCES = (
    "engine.c",
    "lock.c",
    "pipeline.c",
    "replication.c",
    "traffic.c",
    "pool.c",
    "ring.c",
    "capture.c",
    "port.c",
    "watch.c",
    "port_virtual.c",
    "port_pcap.c",
    "port_packet.c",
    "port_xdp.c",
)
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_INLINE = re.compile(r"static inline[^{;]*\{.*?\n\}", re.DOTALL)
_ATTRIBUTE = re.compile(r"__attribute__\s*\(\(.*?\)\)\s*", re.DOTALL)
_NUMBER = re.compile(r"#define\s+\w+\s+\d+\s*$")


def sanitized() -> bool:
    """Say whether GRADLANE_SANITIZE asks for the build with address and undefined-behaviour sanitizers."""
    return os.environ.get("GRADLANE_SANITIZE", "") not in ("", "0")


def declarations(header: Path) -> str:
    """Return a header as cffi reads it: no comments, and of the preprocessor's lines only plain numbers."""
    text = header.read_text()
    for noise in (_COMMENT, _INLINE, _ATTRIBUTE):
        text = noise.sub("", text)
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if not line.startswith("#") or _NUMBER.match(line))


def engine_library() -> Path:
    """Build the engine, or find it in the cache."""
    sanitize = sanitized()
    return library(
        "engine",
        [RUNTIME / source for source in ENGINE_SOURCES],
        needs=[tables_library(sanitize=sanitize)],
        flags=("-D_GNU_SOURCE", "-pthread"),
        libraries=("-ldl",),
        sanitize=sanitize,
    )


@lru_cache(maxsize=1)
def ffi() -> FFI:
    """Return the declarations of program.h, table.h and engine.h."""
    interface = FFI()
    for header in HEADERS:
        interface.cdef(declarations(RUNTIME / header), override=True)
    return interface


def opened(interface: FFI, library: Path) -> Any:
    """Load a library from the cache. Raises BuildError where it is none, as after a power cut."""
    try:
        return interface.dlopen(str(library))
    except OSError as error:
        reason = str(error).partition(".  ")[0]  # cffi goes on to say where else it looked
        raise BuildError(f"{reason}; remove it, and it is built anew") from None


@lru_cache(maxsize=1)
def engine() -> Any:
    """Return the functions of engine.h and, through the library, those of table.h; calls release the GIL."""
    return opened(ffi(), engine_library())
