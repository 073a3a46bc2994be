# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Build C with the system's compiler, once per content; call batch.c on numpy frame matrices."""

import hashlib
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
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
COMPILERS = (["cc"], ["gcc"], ["clang"])
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
    compiler = _compiler()
    flags = (*FLAGS, *SANITIZING) if sanitized() else FLAGS
    contents = [source.read_bytes() for source in (*sources, *headers)]
    key = hashlib.sha256(b"\0".join([*contents, *map(str.encode, [*compiler, *flags])])).hexdigest()[:24]
    library = cache_folder() / f"traffic-{key}.so"
    if library.exists():
        return library
    partial = library.with_name(f".{library.name}.{os.getpid()}")
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        command = [*compiler, *flags, "-o", str(partial), *map(str, sources)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            first = next(
                (line for line in said if "error" in line), said[0] if said else f"it ended with {done.returncode}"
            )
            raise FailureError(f"{compiler[0]} could not build {sources[0].name}: {first}")
        if not partial.exists():
            raise FailureError(f"{compiler[0]} ended well and built nothing of {sources[0].name}: it is no C compiler")
        with partial.open("rb") as built:
            os.fsync(built.fileno())  # a name must not outlive a power cut without its content
        partial.replace(library)
    except OSError as error:
        raise FailureError(f"cannot build {sources[0].name} in {library.parent}: {error.strerror}") from None
    finally:
        with suppress(OSError):
            partial.unlink()
    return library


def _compiler() -> list[str]:
    """Return the C compiler's command: $CC, which may bring arguments, else cc, gcc or clang on PATH."""
    try:
        named = shlex.split(os.environ.get("CC", ""))
    except ValueError as error:
        raise FailureError(f"$CC: {str(error).lower()}: {os.environ['CC']}") from None
    for name, *arguments in [named] if named else COMPILERS:
        if found := shutil.which(name):
            return [found, *arguments]
    raise FailureError(f"no C compiler on PATH ({' '.join(named) or 'cc'}); on Debian or Ubuntu: apt install gcc")


def opened(ffi: cffi.FFI, library: Path) -> Any:
    """Load a built library. Raises FailureError where it is none, as after a power cut."""
    try:
        return ffi.dlopen(str(library))
    except OSError as error:
        reason = str(error).partition(".  ")[0]  # cffi goes on to say where else it looked
        raise FailureError(f"{reason}; remove it, and it is built anew") from None


@cache
def load() -> tuple[cffi.FFI, Any]:
    """Return the library, building it if need be; call it before time counts, since it takes a tenth of a second."""
    ffi = cffi.FFI()
    ffi.cdef(DECLARATIONS)
    return ffi, opened(ffi, build())


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
