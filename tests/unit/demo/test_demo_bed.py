# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os

import pytest

from gradlane.demo import bed


def test_links_have_the_rate_that_was_asked_for_in_both_directions() -> None:
    for link in bed.load_fabric(30e6).links:
        assert (link.rate_bps, link.reverse_rate_bps) == (30_000_000, 30_000_000)
    assert {link.rate_bps for link in bed.load_fabric().links} == {100_000_000}


def test_a_machine_that_refuses_real_time_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert bed.in_real_time(os.getpid()) == "Operation not permitted"


def test_a_thread_that_has_ended_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "sched_setscheduler", gone)
    assert bed.in_real_time(os.getpid()) == ""
