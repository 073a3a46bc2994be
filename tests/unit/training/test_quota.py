# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A share of a processor by a control group."""

from __future__ import annotations

import subprocess
import sys

import pytest

from topologies.errors import FailureError
from traffic.training.quota import Quota

BUSY = """
import sys, time
sys.stdin.readline()
end = time.monotonic() + 0.6
while time.monotonic() < end:
    pass
print(time.process_time())
"""


def test_a_process_gets_no_more_than_its_share() -> None:
    try:
        quota = Quota("test", 0.25)
    except FailureError as error:
        pytest.skip(str(error))
    with quota:
        busy = subprocess.Popen([sys.executable, "-c", BUSY], stdin=-1, stdout=-1, text=True)
        quota.add(busy.pid)
        told, _ = busy.communicate("\n")
    assert float(told) < 0.6 * 0.5  # with what it took to start


def test_where_no_group_can_be_made_one_line_says_so() -> None:
    with pytest.raises(FailureError, match="no control group can limit a processor here: "):
        Quota("a/b/c", 0.25)
