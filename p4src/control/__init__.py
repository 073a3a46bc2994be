# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The switch's control channel: queue settings and telemetry that P4Runtime does not express."""
