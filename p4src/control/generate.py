# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Write control_pb2.py from control.proto: `python -m p4src.control.generate`, with protoc 3.21 on PATH.

Debian 12's protobuf-compiler is that version; newer ones write code that protobuf 3.20, which p4runtime-shell needs,
does not read.
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
GENERATED = HERE / "control_pb2.py"
HEAD = "# SPDX-FileCopyrightText: 2026 The Gradlane developers\n# SPDX-License-Identifier: Apache-2.0\n"


def generate() -> str:
    """Return what control_pb2.py should hold."""
    protoc = shutil.which("protoc")
    if protoc is None:
        raise FileNotFoundError("protoc is not on PATH: install protobuf-compiler")
    with tempfile.TemporaryDirectory() as scratch:
        subprocess.run([protoc, f"--proto_path={ROOT}", f"--python_out={scratch}", PROTO], check=True, cwd=ROOT)
        return HEAD + (Path(scratch) / PROTO).with_name("control_pb2.py").read_text()


def main() -> int:
    """Regenerate the file in place."""
    try:
        GENERATED.write_text(generate())
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"generate: {error}", file=sys.stderr)
        return 1
    print(f"{GENERATED.relative_to(ROOT)} written")
    return 0


if __name__ == "__main__":
    sys.exit(main())
