# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Training over the collectives: the gate, which needs no framework, and what PyTorch, TensorFlow and MXNet plug in."""
