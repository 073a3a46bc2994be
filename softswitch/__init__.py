# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The embedded P4 switch: runs what p4c compiled for BMv2."""
