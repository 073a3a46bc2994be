# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Build C with the system's compiler, once per content; call batch.c on numpy frame matrices."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import cffi
import numpy as np

from topologies.errors import FailureError
from traffic.packer import Packets

SOURCE = Path(__file__).with_name("batch.c")
FLAGS = ("-O2", "-Wall", "-Wextra", "-shared", "-fPIC")
SANITIZING = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined")
DECLARATIONS = """
struct pace { double due_ns, rate, line_rate; uint32_t overhead, burst; uint64_t late_ns; };
int64_t batch_send(int fd, const uint8_t *frames, uint32_t stride, const uint32_t *lengths, uint32_t count,
                   struct pace *pace);
int32_t batch_receive(int fd, uint8_t *frames, uint32_t stride, uint32_t *lengths, uint32_t count, int timeout_ms);
"""
MAX_BURST = 16
MAX_BATCH = 512


def cache_folder() -> Path:
    """Return where built libraries are kept: GRADLANE_CACHE, else gradlane under the user's cache folder."""
    if chosen := os.environ.get("GRADLANE_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gradlane"


def sanitized() -> bool:
    """Say whether GRADLANE_SANITIZE asks for builds with address and undefined-behaviour sanitizers."""
    return os.environ.get("GRADLANE_SANITIZE", "") not in ("", "0")


def build(*sources: Path, headers: Sequence[Path] = ()) -> Path:
    """Return the shared library of C sources (batch.c unless told), compiling them if they were never built here.

    `headers` are those that the sources include by name. Raises FailureError without a C compiler, or where the
    compiler fails.
    """
    sources = sources or (SOURCE,)
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise FailureError("no C compiler (cc) on PATH; on Debian or Ubuntu: apt install gcc")
    flags = (*FLAGS, *SANITIZING) if sanitized() else FLAGS
    contents = [source.read_bytes() for source in (*sources, *headers)]
    key = hashlib.sha256(b"\0".join([*contents, compiler.encode(), *map(str.encode, flags)])).hexdigest()[:24]
    library = cache_folder() / f"traffic-{key}.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    partial = library.with_name(f".{library.name}.{os.getpid()}")
    try:
        command = [compiler, *flags, "-o", str(partial), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr[:200])
            raise FailureError(f"{compiler} could not build {sources[0].name}: {first}")
        partial.replace(library)
    finally:
        partial.unlink(missing_ok=True)
    return library


@cache
def load() -> tuple[cffi.FFI, Any]:
    """Return the library, building it if need be; call it before time counts, since it takes a tenth of a second."""
    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS)
    return ffi, ffi.dlopen(str(build()))


@dataclass
class Pace:
    """When a sender's packets are due: state that goes on from one call of `send` to the next."""

    rate: float
    """Bits of whole frames per second."""
    line_rate: float
    """What a burst never exceeds, also when the sender catches up, in the same unit."""
    overhead: int
    """Bytes of a frame that are not in the rows: lower headers."""
    burst: int = 8
    """Packets at once, 1..16."""
    due_ns: float = 0.0
    """CLOCK_MONOTONIC time at which the next packet is due."""
    late_ns: int = 0
    """The latest that a burst left after it was due."""


def send(fd: int, packets: Packets, pace: Pace) -> None:
    """Send all packets on a connected socket, each when the pace says it is due. Raises OSError."""
    ffi, library = load()
    state = ffi.new("struct pace *", vars(pace))
    sent = library.batch_send(
        fd,
        ffi.from_buffer("uint8_t[]", packets.frames),
        packets.frames.shape[1],
        ffi.from_buffer("uint32_t[]", packets.lengths),
        len(packets),
        state,
    )
    pace.due_ns, pace.late_ns = state.due_ns, state.late_ns
    if sent < 0:
        raise OSError(-sent, os.strerror(-sent))


class Receiver:
    """Takes packets from a socket in batches into one matrix that it uses again."""

    def __init__(self, fd: int, stride: int, batch: int = MAX_BATCH) -> None:
        self._fd = fd
        self._packets = Packets(np.zeros((batch, stride), np.uint8), np.zeros(batch, np.uint32))

    def take(self, timeout_ms: int) -> Packets:
        """Wait at most `timeout_ms`, return what arrived (none, perhaps): valid until the next call.

        A packet longer than the stride has its true length in `lengths`. Raises OSError.
        """
        ffi, library = load()
        frames, lengths = self._packets.frames, self._packets.lengths
        taken = library.batch_receive(
            self._fd,
            ffi.from_buffer("uint8_t[]", frames, require_writable=True),
            frames.shape[1],
            ffi.from_buffer("uint32_t[]", lengths, require_writable=True),
            len(lengths),
            timeout_ms,
        )
        if taken < 0:
            raise OSError(-taken, os.strerror(-taken))
        return Packets(frames[:taken], lengths[:taken])
