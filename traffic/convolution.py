# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A small residual network for images in numpy: 3x3 convolutions as matrix products (im2col)."""

from collections.abc import Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from traffic.model import Floats, Labels, Parameter, softmax

SIDE = 14
CLASSES = 10


def pool(images: Floats) -> Floats:
    """Return images at half their resolution: shape (samples, 784) to (samples, 196)."""
    pixels = images.reshape(-1, SIDE, 2, SIDE, 2)
    pooled: Floats = pixels.mean(axis=(2, 4), dtype=images.dtype).reshape(len(images), -1)
    return pooled


class ResidualCNN:
    """Images of 14x14: convolve and stride to 7x7, one residual block, classify.

        x1 = relu(conv0(x)), stride 2;   x2 = relu(x1 + conv2(relu(conv1(x1))));   fc(x2)

    The block's second convolution starts at zero, so that the block starts as the identity and needs no normalisation
    (Zhang et al., arXiv 1901.09321). Images are of shape (samples, 196); inside, channels stand last.
    """

    def __init__(self, channels: int, seed: int, dtype: type[np.float32] | type[np.float64] = np.float32) -> None:
        """Draw He-initialised weights for convolutions of so many channels."""
        random = np.random.default_rng(seed)
        shapes = [(9, channels), (9 * channels, channels), (9 * channels, channels), (49 * channels, CLASSES)]
        self.values: list[Floats] = []
        self.parameters: list[Parameter] = []
        for layer, (inputs, outputs) in enumerate(shapes):
            scale = 0.0 if layer == 2 else np.sqrt(2 / inputs)
            for kind, value in (
                ("weights", scale * random.standard_normal((inputs, outputs))),
                ("bias", np.zeros(outputs)),
            ):
                self.parameters.append(Parameter(len(self.values), layer, f"{kind}{layer}", value.shape))
                self.values.append(value.astype(dtype))

    def _forward(self, images: Floats) -> tuple[list[Floats], list[Floats], Floats]:
        """Return the columns that every layer multiplies, the feature maps, and the logits."""
        columns, maps = [], [images.reshape(-1, SIDE, SIDE, 1)]
        for layer, stride in enumerate((2, 1, 1)):
            columns.append(_columns(maps[-1], stride))
            out = columns[-1] @ self.values[2 * layer] + self.values[2 * layer + 1]
            if layer == 2:
                out += maps[1]
            maps.append(np.maximum(out, 0))
        columns.append(maps[-1].reshape(len(images), -1))
        return columns, maps, columns[-1] @ self.values[6] + self.values[7]

    def loss(self, images: Floats, labels: Labels) -> float:
        """Return the mean cross-entropy over the samples."""
        shares = softmax(self._forward(images)[2])
        return float(-np.log(shares[np.arange(len(labels)), labels]).mean())

    def accuracy(self, images: Floats, labels: Labels) -> float:
        """Return the share of samples whose largest logit is their label."""
        return float((self._forward(images)[2].argmax(axis=1) == labels).mean())

    def gradients(self, images: Floats, labels: Labels) -> Iterator[tuple[Parameter, Floats]]:
        """Yield the mean gradient of every parameter as back-propagation finds them: last layer first."""
        columns, maps, logits = self._forward(images)
        error = softmax(logits)
        error[np.arange(len(labels)), labels] -= 1
        error /= len(labels)
        yield self.parameters[7], error.sum(axis=0)
        yield self.parameters[6], columns[3].T @ error
        error = (error @ self.values[6].T).reshape(maps[3].shape)
        around = error = error * (maps[3] > 0)
        for layer, stride in ((2, 1), (1, 1), (0, 2)):
            if layer < 2:
                error = error * (maps[layer + 1] > 0)
            flat = error.reshape(-1, error.shape[-1])
            yield self.parameters[2 * layer + 1], flat.sum(axis=0)
            yield self.parameters[2 * layer], columns[layer].reshape(len(flat), -1).T @ flat
            if layer:
                error = _images(error @ self.values[2 * layer].T, maps[layer].shape, stride)
            if layer == 1:
                error += around


def _columns(maps: Floats, stride: int) -> Floats:
    """Return the 3x3 surroundings of every place, shape (samples, rows, columns, 9 * channels); zeros around."""
    padded = np.pad(maps, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows: Floats = sliding_window_view(padded, (3, 3), axis=(1, 2))  # type: ignore[call-overload]
    windows = windows[:, ::stride, ::stride]
    samples, rows, columns = windows.shape[:3]
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(samples, rows, columns, -1)


def _images(columns: Floats, shape: tuple[int, ...], stride: int) -> Floats:
    """Add up what every place's surroundings received: the transpose of `_columns`."""
    samples, rows, width, channels = shape
    padded = np.zeros((samples, rows + 2, width + 2, channels), columns.dtype)
    windows = columns.reshape(*columns.shape[:3], 3, 3, channels)
    for row in range(3):
        for column in range(3):
            padded[:, row : row + rows : stride, column : column + width : stride] += windows[:, :, :, row, column]
    return padded[:, 1:-1, 1:-1]
