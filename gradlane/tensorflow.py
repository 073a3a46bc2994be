# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Gradlane for TensorFlow: `distributed` makes a Keras optimiser apply what all workers' gradients come to."""

from gradlane.extras import require

require("tensorflow", "tensorflow")

from traffic.frameworks.tensorflow import Exchange, distributed  # noqa: E402

__all__ = ["Exchange", "distributed"]
