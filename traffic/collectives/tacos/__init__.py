# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Synthesis of collective schedules for the topology at hand (idea: TACOS, MICRO 2024), and their verification."""
