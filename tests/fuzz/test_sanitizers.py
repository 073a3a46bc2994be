# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The switch's and the transport's tests once more, on C with address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from softswitch.build import compiler_command
from softswitch.native import sanitized

TESTS = Path(__file__).parents[1]
SUITES = (
    "unit/softswitch_engine",
    "unit/softswitch_compiler",
    "unit/p4runtime",
    "conformance",
    "pipeline",
    "differential",
    "unit/transport",
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build cache for all suites."""
    return tmp_path_factory.mktemp("cache")


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.skipif(sanitized(), reason="this is that run")
@pytest.mark.parametrize("suite", SUITES)
def test_a_suite_is_clean_under_sanitizers(suite: str, cache: Path) -> None:
    runtimes = [
        subprocess.run([*compiler_command(), f"-print-file-name={name}"], capture_output=True, text=True, check=True)
        for name in ("libasan.so", "libubsan.so")
    ]
    paths = [Path(runtime.stdout.strip()) for runtime in runtimes]
    if not all(path.is_absolute() and path.exists() for path in paths):
        pytest.skip("the compiler has no sanitizer libraries of its own")
    environment = {
        **os.environ,
        "GRADLANE_SANITIZE": "1",
        "GRADLANE_CACHE": str(cache),
        "LD_PRELOAD": ":".join(map(str, paths)),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own allocations are no leaks of ours
    }
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long and not fabric",
        "--timeout", "600", str(TESTS / suite),
    ]  # fmt: skip
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
