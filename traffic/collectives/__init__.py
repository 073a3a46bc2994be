# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Collective operations as schedules: which chunk goes over which link, and when."""
