# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Distributed training in numpy, one step loop for every way to exchange gradients: what `make demo` compares."""
