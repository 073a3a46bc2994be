# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Ways to train, behind one interface: see `traffic.training.effects.Algorithm`."""

from traffic.training.algorithms.abs_sgd import AbsSGD
from traffic.training.algorithms.delayed import DelayedBalanced, DelayedSGD
from traffic.training.algorithms.local import DelayedAveraging
from traffic.training.algorithms.synchronous import BalancedSGD, SynchronousSGD

__all__ = ["AbsSGD", "BalancedSGD", "DelayedAveraging", "DelayedBalanced", "DelayedSGD", "SynchronousSGD"]
