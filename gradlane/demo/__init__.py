# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`make demo`: the same training over the same congested fabric, by baselines and by Gradlane (docs/demo.md)."""
