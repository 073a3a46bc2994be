# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Gradient traffic: the header, its packers, recorded training traces and their replay through a fabric."""
