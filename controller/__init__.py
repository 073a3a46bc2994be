# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The controller: turns one policy and one fabric into what every switch holds, and keeps it so."""
