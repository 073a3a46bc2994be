# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Programs, entries and packets by coverage: libFuzzer drives engine and compiled programs, under sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from softswitch.build import RUNTIME, TABLES_SOURCES, load_json
from softswitch.compiler import compile_program
from softswitch.native import ENGINE_SOURCES
from tests.differential.templates import TEMPLATES
from tests.pipeline.targets import PROGRAM

HARNESS = Path(__file__).parent / "harness.c"
CHECKS = "address,undefined"
FLAGS = ["-std=gnu11", "-g", "-O1", "-D_GNU_SOURCE", "-fno-sanitize-recover=undefined", f"-I{RUNTIME}"]
PROGRAMS = {"gradlane": PROGRAM} | {name: template.program.json for name, template in TEMPLATES.items()}
SECONDS = int(os.environ.get("GRADLANE_FUZZ_SECONDS", "20"))


def clang(*arguments: str | Path) -> None:
    done = subprocess.run(["clang", *FLAGS, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def fuzzer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The engine with libFuzzer around it."""
    folder = tmp_path_factory.mktemp("fuzzer")
    if shutil.which("clang") is None:
        pytest.skip("no clang")
    probe = folder / "probe.c"
    probe.write_text("int LLVMFuzzerTestOneInput(const char *data, unsigned long size) { return !data && size; }")
    line = ["clang", f"-fsanitize=fuzzer,{CHECKS}", str(probe), "-o", str(folder / "probe")]
    if subprocess.run(line, capture_output=True, check=False).returncode:
        pytest.skip("clang has no libFuzzer")
    sources = [RUNTIME / name for name in (*ENGINE_SOURCES, *TABLES_SOURCES)]
    target = folder / "fuzzer"
    clang(f"-fsanitize=fuzzer,{CHECKS}", "-rdynamic", HARNESS, *sources, "-o", target, "-lpthread", "-ldl")
    return target


def seeds(name: str, folder: Path) -> None:
    """Begin with whole frames: those of the program's case, or of gradients."""
    folder.mkdir()
    if name == "gradlane":
        from tests.pipeline import packets

        frames = [bytes(packets.gradient()), bytes(packets.Frame(b"abc")), packets.arp_request(1)]
    else:
        frames = [frame for _, frame in TEMPLATES[name].case(0).frames[:40]]
    for place, frame in enumerate(frames):
        cut = frame[:255]
        (folder / str(place)).write_bytes(bytes([0, place % 4, len(cut)]) + cut)


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 500)
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_input_is_a_finding(name: str, fuzzer: Path, tmp_path: Path) -> None:
    source, program, corpus = tmp_path / "program.c", tmp_path / "program.so", tmp_path / "corpus"
    source.write_text(compile_program(load_json(PROGRAMS[name]), name))
    clang("-fsanitize=fuzzer-no-link,address", "-shared", "-fPIC", source, "-o", program)
    seeds(name, corpus)
    line = [str(fuzzer), f"-max_total_time={SECONDS}", "-max_len=700", "-seed=1", "-print_final_stats=1", str(corpus)]
    environment = os.environ | {"FUZZ_PROGRAM": str(program)}
    done = subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    runs = next(part for part in done.stderr.splitlines() if "number_of_executed_units" in part)
    assert int(runs.split()[-1]) > 20
