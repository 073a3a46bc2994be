# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""P4Runtime as a client sees it: named entities, their wire form, and the connection to one switch."""
