# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Distributed training in numpy by algorithms for workers of unequal speed (docs/abs_sgd.md)."""
