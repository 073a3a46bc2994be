# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Write control_pb2.py and its types, control_pb2.pyi, from control.proto: `python -m p4src.control.generate`.

It takes protoc 3.21 on PATH, as Debian 12's protobuf-compiler has it; newer ones write code that protobuf 3.20, which
p4runtime-shell needs, does not read.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PROTO = "p4src/control/control.proto"
NAMES = ("control_pb2.py", "control_pb2.pyi")
HEAD = "# SPDX-FileCopyrightText: 2026 The Gradlane developers\n# SPDX-License-Identifier: Apache-2.0\n"


def generate() -> dict[str, str]:
    """Return what the generated files should hold, by name."""
    protoc = shutil.which("protoc")
    if protoc is None:
        raise FileNotFoundError("protoc is not on PATH: install protobuf-compiler")
    with tempfile.TemporaryDirectory() as scratch:
        command = [protoc, f"--proto_path={ROOT}", f"--python_out={scratch}", f"--pyi_out={scratch}", PROTO]
        subprocess.run(command, check=True, cwd=ROOT)
        return {name: HEAD + (Path(scratch) / PROTO).with_name(name).read_text() for name in NAMES}


def is_possible() -> bool:
    """Say whether the protoc that the generated code needs is on PATH."""
    protoc = shutil.which("protoc")
    if protoc is None:
        return False
    version = subprocess.run([protoc, "--version"], capture_output=True, text=True, check=False).stdout
    return version.split()[-1:] != [] and version.split()[-1].startswith("3.21.")


def main() -> int:
    """Regenerate the file in place."""
    try:
        for name, text in generate().items():
            (HERE / name).write_text(text)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"generate: {error}", file=sys.stderr)
        return 1
    print(f"{', '.join(NAMES)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
