# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Gradlane: a network fabric that knows what a gradient packet is worth."""
