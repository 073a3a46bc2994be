# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Tests marked `empty_machine` run in a process with a network namespace of its own.

A process, not this one's main thread: gRPC's threads stay where they were born, and would connect to the ports of
another namespace, now or in later tests.
"""

import os
import subprocess
import sys

import pytest

INSIDE = "GRADLANE_TEST_EMPTY_MACHINE"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a marked test in a process of its own, in which only `lo` exists."""
    if pyfuncitem.get_closest_marker("empty_machine") is None or INSIDE in os.environ:
        return None
    # Hypothesis's plugin takes half of such a process's start.
    plain = ["-q", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    pytest_of_it = [sys.executable, "-m", "pytest", *plain, pyfuncitem.nodeid]
    command = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", *pytest_of_it]
    with subprocess.Popen(
        command,
        cwd=pyfuncitem.config.rootpath,
        env=os.environ | {INSIDE: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            output = process.communicate()[0]
        finally:
            process.terminate()
    if process.returncode != 0:
        pytest.fail(output, pytrace=False)
    return True
