# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The numpy network's gradients are those of its loss, in the order of back-propagation."""

import numpy as np
import pytest

from traffic.model import MLP, WORKLOADS


def test_gradients_agree_with_finite_differences() -> None:
    random = np.random.default_rng(3)
    model = MLP((6, 5, 4, 3), seed=1, dtype=np.float64)
    inputs, labels = random.standard_normal((7, 6)), random.integers(0, 3, 7)
    step = 1e-6
    for parameter, gradient in model.gradients(inputs, labels):
        value = model.values[parameter.tensor]
        measured = np.empty_like(value)
        for index in np.ndindex(value.shape):
            kept = value[index]
            value[index] = kept + step
            above = model.loss(inputs, labels)
            value[index] = kept - step
            below = model.loss(inputs, labels)
            value[index] = kept
            measured[index] = (above - below) / (2 * step)
        np.testing.assert_allclose(gradient, measured, atol=1e-8, err_msg=parameter.name)


def test_gradients_come_last_layer_first_and_cover_every_parameter() -> None:
    model = MLP((4, 3, 2), seed=0)
    found = [parameter for parameter, _ in model.gradients(np.ones((2, 4), np.float32), np.array([0, 1]))]
    assert [parameter.layer for parameter in found] == [1, 1, 0, 0]
    assert sorted(parameter.tensor for parameter in found) == list(range(len(model.parameters)))


def test_gradients_have_the_shape_and_type_of_their_parameters() -> None:
    model = MLP((4, 3, 2), seed=0)
    for parameter, gradient in model.gradients(np.ones((2, 4), np.float32), np.array([0, 1])):
        assert gradient.shape == parameter.shape == model.values[parameter.tensor].shape
        assert gradient.dtype == np.float32
        assert gradient.size == parameter.size


@pytest.mark.parametrize(("name", "samples", "classes"), [("digits", 1797, 10), ("mnist", 5000, 10)])
def test_data_are_scaled_images_of_ten_classes(name: str, samples: int, classes: int) -> None:
    images, labels = WORKLOADS[name].load()
    assert images.shape == (samples, WORKLOADS[name].widths[0])
    assert (images.min(), images.max()) == (0, 1)
    assert np.unique(labels).tolist() == list(range(classes))


def test_training_learns_the_digits() -> None:
    workload = WORKLOADS["digits"]
    images, labels = workload.load()
    model = MLP(workload.widths, seed=0)
    random = np.random.default_rng(0)
    for _ in range(400):
        batch = random.integers(0, 1500, 64)
        gradients = {p.tensor: g for p, g in model.gradients(images[batch], labels[batch])}
        model.descend([gradients[p.tensor] for p in model.parameters], workload.learning_rate)
    assert model.accuracy(images[1500:], labels[1500:]) > 0.88
