# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The verbs that Mininet's prompt learns from gradctl."""

from pathlib import Path

import pytest

from gradlane.run import verbs
from topologies.errors import UsageError


def test_a_quotation_that_nobody_closed_is_a_mistake_of_one_line(tmp_path: Path) -> None:
    """The prompt says a UsageError and goes on; any other error would end the run."""
    with pytest.raises(UsageError, match="^queues 'leaf1: No closing quotation$"):
        verbs(tmp_path / "fabric.json")["queues"]("'leaf1")


def test_a_verb_takes_gradctls_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    verbs(tmp_path / "fabric.json")["drops"]("--nonsense")
    assert capsys.readouterr().err.startswith("gradctl: No such option: --nonsense")
