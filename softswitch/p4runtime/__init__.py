# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""P4Runtime for the embedded switch: an in-process endpoint, and a gRPC server that is a thin shell over it."""
