# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Training by workers of unequal speed: algorithms, a virtual clock and the real one. See docs/abs_sgd.md."""
