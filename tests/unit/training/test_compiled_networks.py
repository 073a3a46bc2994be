# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The study's networks in C against those in numpy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.benchmarks.abs_sgd.compiled import CompiledClassification
from tests.benchmarks.abs_sgd.methods import MODELS
from traffic.training.problem import Classification


@pytest.mark.parametrize("model", MODELS)
def test_networks_in_c_compute_what_those_in_numpy_do(model: str) -> None:
    random = np.random.default_rng(4)
    images, labels = random.normal(size=(90, 196)).astype(np.float32), random.integers(0, 10, 90)
    numpy, compiled = (
        Classification(MODELS[model](1), images, labels, 40),
        CompiledClassification(model, MODELS[model](1), images, labels, 40),
    )
    weights = numpy.initial() + random.normal(scale=0.03, size=numpy.values).astype(np.float32)
    np.testing.assert_array_equal(compiled.initial(), numpy.initial())
    for count in (1, 7, 8, 19, 50):
        samples = random.integers(0, numpy.population, count)
        wanted = numpy.gradient_sum(weights, samples)
        np.testing.assert_allclose(
            compiled.gradient_sum(weights, samples), wanted, atol=2e-6 * np.abs(wanted).max() * count
        )
    assert compiled.accuracy(weights) == numpy.accuracy(weights)
    assert np.array([2e-308]) / 4 > 0  # subnormals live on: the library leaves the processor's modes alone
