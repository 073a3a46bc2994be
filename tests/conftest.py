# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What every test may rely on: Ctrl-C reaches the programs that it starts."""

import signal


def pytest_configure() -> None:
    """Take SIGINT back: a shell starts its background jobs with it ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
