# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A script for each framework that trains a small network on real data; docs/frameworks.md says how to run them."""
