# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The demo's hosts: one gated training step, and every way to exchange its gradients (docs/demo.md)."""
