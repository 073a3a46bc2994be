# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Gradlane for MXNet. Importing it lets Gluon make the store that `kvstore="dist_gradlane"` names."""

from gradlane.extras import require

require("mxnet", "mxnet")

from traffic.frameworks.mxnet import Dist_Gradlane, Trainer  # noqa: E402

__all__ = ["Dist_Gradlane", "Trainer"]
