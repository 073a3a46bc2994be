# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the repository claims about speed, measured: each module writes build/bench/<name>.json."""
