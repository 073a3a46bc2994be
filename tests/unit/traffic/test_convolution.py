# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The residual network's gradients are those of its loss."""

import numpy as np

from traffic.convolution import ResidualCNN, pool


def test_gradients_agree_with_finite_differences() -> None:
    random = np.random.default_rng(3)
    network = ResidualCNN(3, seed=1, dtype=np.float64)
    for value in network.values:  # the zero start hides half of the block's gradients
        value += 0.1 * random.standard_normal(value.shape)
    images, labels = random.random((4, 196)), random.integers(0, 10, 4)
    step = 1e-6
    for parameter, gradient in network.gradients(images, labels):
        value = network.values[parameter.tensor]
        places = [tuple(random.integers(0, size) for size in value.shape) for _ in range(12)]
        for index in places:
            kept = value[index]
            value[index] = kept + step
            above = network.loss(images, labels)
            value[index] = kept - step
            below = network.loss(images, labels)
            value[index] = kept
            np.testing.assert_allclose(
                gradient[index], (above - below) / (2 * step), atol=1e-8, err_msg=f"{parameter.name} {index}"
            )


def test_gradients_come_last_layer_first_and_cover_every_parameter() -> None:
    network = ResidualCNN(3, seed=0)
    found = list(network.gradients(np.ones((2, 196), np.float32), np.array([0, 1])))
    assert [parameter.layer for parameter, _ in found] == [3, 3, 2, 2, 1, 1, 0, 0]
    assert sorted(parameter.tensor for parameter, _ in found) == list(range(len(network.parameters)))
    for parameter, gradient in found:
        assert gradient.shape == parameter.shape
        assert gradient.dtype == np.float32


def test_pooling_halves_the_resolution() -> None:
    image = np.zeros((28, 28), np.float32)
    image[2:4, 6:8] = [[1, 2], [3, 6]]
    pooled = pool(image.reshape(1, -1)).reshape(14, 14)
    assert pooled[1, 3] == 3
    assert pooled.sum() == 3
    assert pooled.dtype == np.float32


def test_the_block_starts_as_the_identity() -> None:
    network = ResidualCNN(3, seed=0)
    assert not network.values[4].any()
