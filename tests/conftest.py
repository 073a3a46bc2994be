# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What every test may rely on: Ctrl-C reaches the programs that it starts, and its marker and folder agree."""

import signal

import pytest


def pytest_configure() -> None:
    """Take SIGINT back: a shell starts its background jobs with it ignored, and children inherit that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse tests that `make test`, which chooses by marker and by folder, would never run."""
    for item in items:
        if (item.get_closest_marker("fabric") is not None) != (item.path.parent.name == "fabric"):
            raise pytest.UsageError(f"{item.nodeid}: tests marked `fabric`, and no others, lie in tests/fabric")
