# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Keras on TensorFlow over Gradlane, several processes on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.frameworks.jobs import (
    assert_a_killed_rank_is_told,
    assert_classifier_was_trained,
    assert_values_were_lost,
    needs,
    worked,
)

needs("tensorflow", "TensorFlow")

pytestmark = pytest.mark.timeout(600)


def test_a_wrapped_optimizer_applies_the_mean_of_all_ranks_gradients(tmp_path: Path) -> None:
    assert_classifier_was_trained(worked("keras_fit.py", "4", folder=tmp_path), ranks=2, rounds=4)


def test_replicas_are_the_same_bits_when_values_are_lost(tmp_path: Path) -> None:
    assert_values_were_lost(worked("keras_fit.py", "4", folder=tmp_path, options=("--tolerance", "0.4")))


def test_a_killed_worker_ends_the_training_with_a_clear_error(tmp_path: Path) -> None:
    assert_a_killed_rank_is_told("keras_fit.py", "500", "kill", folder=tmp_path, error="CollectiveError: ")
