# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Compile every C file of the repository, and what the switch's compiler writes, with all warnings as errors."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from softswitch.build import FLAGS, RUNTIME, compiler_command, load_json
from softswitch.compiler import compile_program
from softswitch.errors import SwitchError

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = "softswitch", "traffic", "tests"
PROGRAMS = "p4src/compiled"
STRICT = (*FLAGS, "-Werror", f"-I{RUNTIME}", "-c", "-o", os.devnull)


def complaint(source: Path) -> str:
    """Return what the compiler says of a file: nothing, if it is clean."""
    own = ["-U_GNU_SOURCE"] if "#define _GNU_SOURCE" in source.read_text() else []
    command = [*compiler_command(), *STRICT, *own, str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stderr


def main() -> int:
    """Check all; print what the compiler says."""
    with tempfile.TemporaryDirectory(prefix="gradlane-c-") as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            compiler_command()
            sources = [source for name in FOLDERS for source in sorted((ROOT / name).rglob("*.c"))]
            for program in sorted((ROOT / PROGRAMS).glob("*.json")):
                if "pipeline" in (described := load_json(program)) or "pipelines" in described:
                    written = Path(folder) / f"{program.stem}.c"
                    written.write_text(compile_program(described, str(program)))
                    sources.append(written)
        except SwitchError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        complaints = list(filter(None, pool.map(complaint, sources)))
    print(*complaints, sep="", end="", file=sys.stderr)
    if not complaints:
        print(f"{len(sources)} C files without warnings")
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main())
