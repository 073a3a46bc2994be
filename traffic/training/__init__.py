# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Distributed training in numpy: the demo's step loop and exchanges, and algorithms for workers of unequal speed."""
