# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Compile the P4 programs, and hold what is committed under `p4src/compiled` to its sources.

`python -m p4src.build` compiles what the compilers on PATH can compile, and checks hashes where there is none;
`--check` changes nothing and fails if sources and artefacts have drifted apart.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2

from p4src.assembly import AssemblyError, check_assembly, check_stages

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = Path("p4src/v1model/gradlane.p4")
COMPILED = Path("p4src/compiled")
JSON = "gradlane.json"
P4INFO = "gradlane.p4info.txtpb"
MANIFEST = "manifest.json"
TNA_PROGRAM = Path("p4src/tna/gradlane.p4")
SCRATCH = Path("build/p4")


class BuildError(Exception):
    """A compile failed, or sources and artefacts have drifted apart: one line says which."""


@dataclass(frozen=True)
class Manifest:
    """What `p4src/compiled` was made of, and by what."""

    compiler: str
    commit: str
    command: list[str]
    sources: dict[str, str]
    artefacts: dict[str, str]

    @classmethod
    def load(cls, root: Path) -> Manifest:
        """Read the committed manifest; raises BuildError if there is none or it is no manifest."""
        path = root / COMPILED / MANIFEST
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError) as error:
            raise BuildError(f"{COMPILED / MANIFEST}: {error}") from error

    def save(self, root: Path) -> None:
        """Write the manifest beside the artefacts."""
        (root / COMPILED / MANIFEST).write_text(json.dumps(asdict(self), indent=2) + "\n")


def sources(root: Path) -> dict[str, str]:
    """Hash every file that the v1model program is made of: path from the root -> SHA-256."""
    files = [*(root / "p4src/shared").glob("*.p4"), *(root / "p4src/v1model").glob("*.p4")]
    return {str(file.relative_to(root)): _sha256(file) for file in sorted(files)}


def compiler_version() -> tuple[str, str] | None:
    """Name the p4c-bm2-ss on PATH: its version and its commit; None if there is no such compiler."""
    if shutil.which("p4c-bm2-ss") is None:
        return None
    done = _run(["p4c-bm2-ss", "--version"], ROOT)
    text = done.stdout + done.stderr
    version = re.search(r"Version\s+(\S+)", text)
    commit = re.search(r"SHA:\s*([0-9a-f]+)", text)
    return version[1] if version else "unknown", commit[1] if commit else "unknown"


def command(into: Path) -> list[str]:
    """Give the command that compiles the v1model program into a directory (a path from the root)."""
    return [
        "p4c-bm2-ss", "--arch", "v1model",
        "--p4runtime-files", str(into / P4INFO), "-o", str(into / JSON), str(PROGRAM),
    ]  # fmt: skip


def compile_v1model(root: Path, into: Path) -> None:
    """Compile the v1model program; raises BuildError on an error, and on a warning that is not p4c issue 5101."""
    (root / into).mkdir(parents=True, exist_ok=True)
    done = _run(command(into), root)
    if done.returncode != 0:
        raise BuildError(f"{PROGRAM}: {complaint(done.stderr)}")
    if unexpected := unexpected_warnings(done.stderr):
        raise BuildError(f"{PROGRAM}: {unexpected[0]}")
    compiled = root / into / JSON
    # The compiler names its own include files by absolute path.
    compiled.write_text(re.sub(r'"[^"]*/p4include/', '"p4include/', compiled.read_text()))


# A warning that says nothing of our programs: that a table with a selector has no default action (p4c issue 5101).
EXPECTED_WARNINGS = re.compile(r"path_group\w*.*default_action|default_action.*path_group")


def unexpected_warnings(stderr: str) -> list[str]:
    """List a compiler's warnings, save those that it gives without cause."""
    return [line.strip() for line in stderr.splitlines() if "warning:" in line and not EXPECTED_WARNINGS.search(line)]


def complaint(output: str) -> str:
    """Say in one line what a compiler stopped at: its first error, and where it leaves that to later lines, the place.

    The Tofino back end gives many of its errors a headline, and below it the statement, and the action to be changed.
    """
    lines = [line.strip() for line in output.splitlines()]
    start = next((number for number, line in enumerate(lines) if "error:" in line), None)
    if start is None:
        return next(filter(None, lines), "the compiler said nothing")
    parts = [lines[start]]
    if not PLACE.match(lines[start]):
        end = next((number for number in range(start + 1, len(lines)) if "error:" in lines[number]), len(lines))
        below = lines[start + 1 : end]
        for number, line in enumerate(below):
            if PLACE.match(line):
                parts.append(" ".join([line, *below[number + 1 : number + 2]]))
                break
        parts += [line for line in below if "must be rewritten" in line][:1]
    return " | ".join(parts)


PLACE = re.compile(r"\S+\.p4\(\d+\):")


def compile_tna(root: Path) -> list[str]:
    """Check the TNA program with whatever is on PATH and say, a line each, what was checked."""
    said = []
    if include := tna_include():
        done = _run(["p4test", "-D__TARGET_TOFINO__=1", "-I", str(include), str(TNA_PROGRAM)], root)
        if done.returncode != 0:
            raise BuildError(f"{TNA_PROGRAM}: {complaint(done.stderr)}")
        if unexpected := unexpected_warnings(done.stderr):
            raise BuildError(f"{TNA_PROGRAM}: {unexpected[0]}")
        said.append("tna: p4test accepts the program")
    else:
        said.append("tna: not checked: no p4test with TNA's include files on PATH")

    if shutil.which("p4c-barefoot") is not None:
        out = SCRATCH / "tna"
        shutil.rmtree(root / out, ignore_errors=True)  # no assembly of an earlier run may be read for this one's
        (root / out).mkdir(parents=True)
        done = _run(["p4c", "--target", "tofino", "--arch", "tna", "-o", str(out), str(TNA_PROGRAM)], root)
        log = out / "compiler.log"
        (root / log).write_text(done.stdout + done.stderr)
        if done.returncode != 0:
            raise BuildError(f"{TNA_PROGRAM}: {complaint(done.stderr)} (all of it in {log})")
        if unexpected := unexpected_warnings(done.stderr):
            raise BuildError(f"{TNA_PROGRAM}: {unexpected[0]} (all of it in {log})")
        assembly = next((root / out).rglob("*.bfa"), None)
        if assembly is None:
            raise BuildError(f"{TNA_PROGRAM}: p4c wrote no assembly")
        try:
            text = assembly.read_text()
            found, stages = check_assembly(root, text), check_stages(text)
        except AssemblyError as error:
            raise BuildError(f"{assembly.relative_to(root)}: {error}") from error
        said.append(f"tna: compiled for Tofino; tables in {stages} stages, {found} select values of the parsers found")
    else:
        said.append("tna: not compiled: p4c on PATH has no Tofino back end")
    return said


def tna_include() -> Path | None:
    """Find TNA's include files: where TNA_INCLUDE says, or beside the p4test on PATH."""
    found = shutil.which("p4test")
    if found is None:
        return None
    share = Path(found).resolve().parent.parent / "share"
    for folder in (Path(os.environ.get("TNA_INCLUDE", "")), share / "p4c/p4include", share / "p4include"):
        if (folder / "tna.p4").exists():
            return folder
    return None


def build(root: Path = ROOT) -> list[str]:
    """Compile both programs and commit v1model's artefacts to `p4src/compiled`; say what was done, a line each."""
    found = compiler_version()
    if found is None:
        return ["v1model: not compiled: no p4c-bm2-ss on PATH", *check(root)]
    compile_v1model(root, COMPILED)
    artefacts = {name: _sha256(root / COMPILED / name) for name in (JSON, P4INFO)}
    Manifest(found[0], found[1], command(COMPILED), sources(root), artefacts).save(root)
    return [f"v1model: compiled by p4c {found[0]} ({found[1]}) into {COMPILED}", *compile_tna(root)]


def check(root: Path = ROOT) -> list[str]:
    """Compare sources and artefacts; raises BuildError if they have drifted apart.

    Hashes are compared everywhere. Where a compiler is at hand the program is compiled too: with the manifest's
    compiler the result must be equal to the byte, with another one P4Info must be equal.
    """
    manifest = Manifest.load(root)
    check_hashes(root, manifest)
    found = compiler_version()
    if found is None:
        return ["v1model: sources and artefacts match the manifest"]

    compile_v1model(root, SCRATCH)
    if found[1] == manifest.commit:
        for name in manifest.artefacts:
            if (root / SCRATCH / name).read_bytes() != (root / COMPILED / name).read_bytes():
                raise BuildError(f"{COMPILED / name}: is not what the compiler makes of the sources")
        return [f"v1model: artefacts are, to the byte, what p4c {found[0]} makes of the sources", *compile_tna(root)]
    if read_p4info(root / SCRATCH / P4INFO) != read_p4info(root / COMPILED / P4INFO):
        raise BuildError(f"{COMPILED / P4INFO}: p4c {found[0]} ({found[1]}) makes another P4Info of the sources")
    return [f"v1model: P4Info is what p4c {found[0]} ({found[1]}) makes of the sources", *compile_tna(root)]


def check_hashes(root: Path, manifest: Manifest) -> None:
    """Hold sources and artefacts to the manifest's hashes; raises BuildError naming the first that differs."""
    now = sources(root)
    for path in sorted(now.keys() | manifest.sources.keys()):
        if now.get(path) != manifest.sources.get(path):
            raise BuildError(f"{path}: changed since {COMPILED} was compiled; run `make p4` where p4c is installed")
    for name, digest in manifest.artefacts.items():
        artefact = root / COMPILED / name
        if not artefact.exists() or _sha256(artefact) != digest:
            raise BuildError(f"{COMPILED / name}: is not the file that the manifest names")


def read_p4info(path: Path) -> p4info_pb2.P4Info:
    """Read a P4Info in text form."""
    return text_format.Parse(path.read_text(), p4info_pb2.P4Info())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 0: well, 1: failed or drifted, 2: wrong usage."""
    parser = argparse.ArgumentParser(prog="python -m p4src.build", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="change nothing, fail on drift")
    options = parser.parse_args(arguments)
    try:
        for line in check() if options.check else build():
            print(line)
    except BuildError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(arguments, cwd=folder, capture_output=True, text=True, check=False)
    except OSError as error:
        raise BuildError(f"{arguments[0]}: {error}") from error


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
