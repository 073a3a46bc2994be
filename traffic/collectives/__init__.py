# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Collectives over the transport: parameter servers, rings, halving-doubling, and schedules from files."""
