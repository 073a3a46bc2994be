# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Replay of traces and captures through a fabric: senders and a receiver in hosts' namespaces, and what arrived."""
