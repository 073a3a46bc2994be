# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The transport's tests once more, on C built with address and undefined-behaviour sanitizers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from traffic.native import sanitized

HERE = Path(__file__).parent


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(sanitized(), reason="this is that run")
def test_the_transports_core_is_clean_under_sanitizers(tmp_path: Path) -> None:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    assert compiler is not None
    paths = [
        Path(subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip())
        for name in ("libasan.so", "libubsan.so")
    ]
    if not all(path.is_absolute() and path.exists() for path in paths):
        pytest.skip("the compiler has no sanitizer libraries of its own")
    environment = {
        **os.environ,
        "GRADLANE_SANITIZE": "1",
        "GRADLANE_CACHE": str(tmp_path),
        "LD_PRELOAD": ":".join(map(str, paths)),
        "ASAN_OPTIONS": "detect_leaks=0",  # Python's own allocations are no leaks of ours
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long and not fabric"]
    done = subprocess.run([*command, str(HERE)], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
