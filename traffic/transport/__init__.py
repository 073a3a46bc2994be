# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The bounded-loss transport: gradients over UDP, complete when enough has arrived. See docs/transport.md."""
