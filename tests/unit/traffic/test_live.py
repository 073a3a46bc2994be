# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Ranks that train the numpy model together over loopback sockets."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from tests.unit.collectives.test_communicator import everywhere, job
from traffic import live
from traffic.collectives.communicator import Communicator
from traffic.live import LiveSettings, Rank, Round, share


def test_ranks_learn_together_and_stay_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    share("digits", tmp_path)
    looks = count()
    # A clock that goes on by a hundredth whenever somebody looks: the rounds of a second are the same on any machine.
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: next(looks) / 100))
    here = job(3, servers=1)

    def train(communicator: Communicator) -> tuple[list[Round], list[np.ndarray]]:
        settings = LiveSettings("", communicator.rank, str(tmp_path), "digits", 0.3, seconds=1.0)
        rank = Rank(settings, communicator.size)
        return list(rank.train(communicator)), rank.model.values

    results = everywhere(here, train)
    rounds = [told for told, _ in results]
    assert len(rounds[0]) == len(rounds[1]) == len(rounds[2]) > 1
    assert rounds[0][-1].loss < rounds[0][0].loss
    assert rounds[1][0].loss == rounds[0][0].loss, "the mean of all ranks"
    for _, values in results[1:]:
        for mine, theirs in zip(values, results[0][1], strict=True):
            np.testing.assert_array_equal(mine, theirs)
