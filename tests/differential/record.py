# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Compile the templates and record what BMv2 does with them: `python -m tests.differential.record [NAME ...]`.

Needs p4c-bm2-ss, simple_switch_grpc and simple_switch_CLI on PATH. Writes compiled/ (JSON without what only debuggers
read, P4Info, the hash of each source) and recorded/, one file for each template: the outcome of seed 0 on BMv2.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.differential.embedded import embedded
from tests.differential.oracle import bmv2
from tests.differential.outcome import Outcome, differences
from tests.differential.program import COMPILED, HERE, SOURCES, Program
from tests.differential.templates import TEMPLATES, Template

RECORDED = HERE / "recorded"
HASHES = COMPILED / "sources.json"


def slim(document: Any) -> Any:
    """Leave out where in the source things stand."""
    if isinstance(document, dict):
        return {key: slim(value) for key, value in document.items() if key not in ("source_info", "program")}
    return [slim(each) for each in document] if isinstance(document, list) else document


def by_turns(document: Any) -> None:
    """Let selectors named for it take turns: BMv2 can, but v1model has no name for it."""
    for pipeline in document["pipelines"]:
        for profile in pipeline["action_profiles"]:
            if profile["name"].endswith("turn_selector"):
                profile["selector"]["algo"] = "round_robin"


def source_hash(program: Program) -> str:
    """Return the SHA-256 of a template's source."""
    return hashlib.sha256((SOURCES / f"{program.name}.p4").read_bytes()).hexdigest()


def compile_template(program: Program) -> None:
    """Compile a template into compiled/."""
    source = (SOURCES / f"{program.name}.p4").relative_to(Path.cwd())
    # p4c warns of every table with an action profile that it has no default action (p4c issue 5101).
    line = ["p4c-bm2-ss", "--arch", "v1model", "--Wdisable=unsupported"]
    line += ["--p4runtime-files", str(program.p4info), "-o", str(program.json)]
    done = subprocess.run([*line, str(source)], capture_output=True, text=True, check=False)
    if done.returncode or done.stderr.strip():
        raise SystemExit(f"{source}: {done.stderr.strip()}")
    document = slim(json.loads(program.json.read_text()))
    by_turns(document)
    program.json.write_text(json.dumps(document, separators=(",", ":")) + "\n")


def compare(template: Template, seed: int) -> tuple[Outcome, list[str]]:
    """Run a case on both switches: BMv2's outcome, and where the embedded switch differs."""
    case = template.case(seed)
    with embedded(template.program, case) as switch:
        ours = switch.outcome()
    with bmv2(template.program, case) as oracle:
        theirs = oracle.outcome(ours.frames)
    return theirs, differences(theirs.lines(), ours.lines(), case.frames)


def main() -> int:
    """Compile and record the templates named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", default=[], choices=[*TEMPLATES, []])
    parser.add_argument("--no-compile", action="store_true", help="record only")
    options = parser.parse_args()
    COMPILED.mkdir(exist_ok=True)
    RECORDED.mkdir(exist_ok=True)
    hashes = json.loads(HASHES.read_text()) if HASHES.exists() else {}
    failed = False
    for name in options.names or TEMPLATES:
        template = TEMPLATES[name]
        if not options.no_compile:
            compile_template(template.program)
            hashes[name] = source_hash(template.program)
        theirs, said = compare(template, 0)
        print(f"{name}: {len(theirs.frames)} frames, {len(said)} treated differently")
        print("\n".join(said), end="\n" if said else "")
        failed |= bool(said)
        (RECORDED / f"{name}.txt").write_text("\n".join(theirs.lines()) + "\n")
    HASHES.write_text(json.dumps(hashes, indent=1, sort_keys=True) + "\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
