# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Contracts that every part reads: the P4 program, what p4c made of it, and the switch's control channel."""
