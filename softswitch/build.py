# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Build C with the system's compiler into shared libraries, cached by the content of everything that went in.

Three kinds of library stand on each other: the tables library (table.h: what a control plane and a compiled program
share), a program library (`build`, one per BMv2 JSON file), and the engine's library (`library("engine", ...)` with
the tables library among its `needs`). A program finds the tables library beside it in the cache, and the loader keeps
one copy of it in a process.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from softswitch.compiler import compile_program
from softswitch.errors import BuildError, ProgramError

RUNTIME = Path(__file__).resolve().parent / "runtime"
TABLES_SOURCES = (
    "table.c",
    "rules.c",
    "vectors.c",
    "action_profile.c",
    "meter.c",
    "register.c",
    "value_set.c",
    "checksum.c",
    "log.c",
)
FLAGS = (
    "-O2",
    "-g1",
    "-fPIC",
    "-std=gnu11",
    "-D_GNU_SOURCE",
    "-Wall",
    "-Wextra",
    "-fvisibility=default",
    # Headers are written field by field: one wide load of several fields would wait for all those stores.
    "-fno-tree-slp-vectorize",
    "-fno-semantic-interposition",
)
SANITIZE_FLAGS = ("-O1", "-fsanitize=address,undefined", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined")
COMPILERS = ("cc", "gcc", "clang")


def cache_directory() -> Path:
    """Return the cache's directory, made if missing: GRADLANE_CACHE, else $XDG_CACHE_HOME/gradlane."""
    override = os.environ.get("GRADLANE_CACHE")
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    directory = Path(override) if override else Path(home) / "gradlane"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BuildError(f"cannot make the build cache {directory}: {error.strerror}") from error
    return directory


def compiler_command() -> list[str]:
    """Return the C compiler's command ($CC, else cc, gcc or clang on PATH)."""
    named = _words("CC")
    for command in [named] if named else [[name] for name in COMPILERS]:
        if shutil.which(command[0]):
            return command
    wanted = " ".join(named) or ", ".join(COMPILERS)
    raise BuildError(f"no C compiler found ({wanted}): install gcc or clang, or set CC")


def _words(variable: str) -> list[str]:
    """Return the words of an environment variable, as a shell reads them; raises BuildError where none could."""
    try:
        return shlex.split(os.environ.get(variable, ""))
    except ValueError as error:
        raise BuildError(f"${variable}: {str(error).lower()}: {os.environ[variable]}") from None


@lru_cache(maxsize=8)
def _compiler_identity(command: tuple[str, ...]) -> str:
    result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False, env=_environment())
    return f"{result.stdout.partition(chr(10))[0]} {_processor()}"


@lru_cache(maxsize=1)
def _processor() -> str:
    """Name the instruction set that -march=native stands for, since a cache may be shared between machines."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return platform.machine() + " " + hashlib.sha256(line.encode()).hexdigest()[:16]
    return platform.machine()


def _machine_flags() -> tuple[str, ...]:
    return ("-march=native",) if platform.machine() in ("x86_64", "aarch64") else ()


def _digest(*parts: bytes) -> str:
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "big"))
        state.update(part)
    return state.hexdigest()[:32]


def _headers() -> Iterator[bytes]:
    for header in sorted(RUNTIME.glob("*.h")):
        yield header.name.encode()
        yield header.read_bytes()


def library(
    name: str,
    sources: Sequence[Path],
    *,
    needs: Sequence[Path] = (),
    flags: Sequence[str] = (),
    libraries: Sequence[str] = (),
    sanitize: bool = False,
) -> Path:
    """Compile C sources into one shared library in the cache and return its path.

    `needs` are libraries made by this function; the result loads them from beside itself. `flags` go to the
    compiler and `libraries` (such as "-lpthread") to the end of its command line.
    """
    command = compiler_command()
    options = [*FLAGS, *_machine_flags(), *(SANITIZE_FLAGS if sanitize else ()), *flags]
    contents = [part for source in sources for part in (source.name.encode(), source.read_bytes())]
    key = _digest(
        _compiler_identity(tuple(command)).encode(),
        " ".join([*options, *libraries]).encode(),
        *(need.name.encode() for need in needs),
        *contents,
        *_headers(),
    )
    target = cache_directory() / f"{name}-{key}.so"
    if not target.exists():
        with _alone(target):
            if not target.exists():  # another process may have built it meanwhile
                _compile(command, options, [str(source) for source in sources], list(needs), list(libraries), target)
    return target


@contextlib.contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Let one process at a time build a library; its lock ends with it, whatever becomes of it."""
    path = target.with_suffix(".lock")
    try:
        lock = path.open("w")
    except OSError as error:
        raise BuildError(f"cannot write into the build cache {target.parent}: {error.strerror}") from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            path.unlink(missing_ok=True)


def _environment() -> dict[str, str]:
    """Return the environment for the compiler: without the sanitizer's libraries that this process may run under."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}


def _compile(
    command: list[str], options: list[str], sources: list[str], needs: list[Path], libraries: list[str], target: Path
) -> None:
    try:
        folder = tempfile.TemporaryDirectory(dir=target.parent, prefix=".build-")
    except OSError as error:
        raise BuildError(f"cannot write into the build cache {target.parent}: {error.strerror}") from error
    with folder as scratch:
        output = Path(scratch) / target.name
        objects = [str(Path(scratch) / f"{number}.o") for number in range(len(sources))]
        compiling = [*command, *options, f"-I{RUNTIME}", "-c", "-o"]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            pairs = zip(objects, sources, strict=True)
            list(pool.map(lambda pair: _run([*compiling, *pair], target.name), pairs))
        linking = [
            *command, *options, "-shared", f"-Wl,-soname,{target.name}", "-Wl,-rpath,$ORIGIN", "-o", str(output),
            *objects, *(str(need) for need in needs), *libraries,
        ]  # fmt: skip
        _run(linking, target.name)
        if not output.exists():
            raise BuildError(f"{command[0]} ended well and wrote no {target.name}: it is no C compiler")
        with output.open("rb") as built:
            os.fsync(built.fileno())  # a name must not outlive a power cut without its content
        output.replace(target)


def _run(line: list[str], name: str) -> None:
    """Run the compiler. Raises BuildError with its first error."""
    try:
        result = subprocess.run(line, capture_output=True, text=True, check=False, env=_environment())
    except OSError as error:
        raise BuildError(f"cannot run {line[0]}: {error.strerror}") from error
    if result.returncode:
        said = [text.strip() for text in result.stderr.splitlines() if text.strip()]
        first = next(
            (text for text in said if "error" in text), said[0] if said else f"it ended with {result.returncode}"
        )
        raise BuildError(f"{line[0]} failed on {name}: {first}")


def tables_library(*, sanitize: bool = False) -> Path:
    """Build the library behind table.h, which programs and the engine share."""
    return library("tables", [RUNTIME / source for source in TABLES_SOURCES], sanitize=sanitize)


def load_json(path: Path) -> dict[str, object]:
    """Read a BMv2 JSON file."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise ProgramError(error.strerror or str(error), source=str(path)) from error
    except (ValueError, RecursionError) as error:
        raise ProgramError(f"not JSON: {error}", source=str(path)) from error
    if not isinstance(document, dict):
        raise ProgramError("not a BMv2 program: the top is no object", source=str(path))
    return document


def build(json_path: str | Path, *, sanitize: bool = False) -> Path:
    """Compile a BMv2 JSON program to a shared library that exports `ss_program`, and return its path.

    $CFLAGS are its last flags: "-O0" halves the time that a small program takes to compile, and its speed.

    Raises ProgramError when the program is broken or asks for something unknown, BuildError without a C compiler.
    """
    path = Path(json_path)
    text = compile_program(load_json(path), str(path))
    with tempfile.TemporaryDirectory(prefix="softswitch-") as scratch:
        source = Path(scratch) / "program.c"
        source.write_text(text)
        return library(
            f"program-{path.stem}",
            [source],
            needs=[tables_library(sanitize=sanitize)],
            flags=_words("CFLAGS"),
            sanitize=sanitize,
        )
