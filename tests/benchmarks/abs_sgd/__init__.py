# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""ABS-SGD against its baselines in virtual time: see docs/abs_sgd.md."""
