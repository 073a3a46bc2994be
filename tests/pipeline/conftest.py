# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Every pipeline test runs on every target present; a missing one is a visible skip."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.pipeline.bench import Bench
from tests.pipeline.targets import TARGETS, missing


@pytest.fixture(scope="session", params=sorted(TARGETS, reverse=True))
def running_target(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Start a target once for all tests."""
    if reason := missing(request.param):
        pytest.skip(reason)
    target = TARGETS[request.param]()
    yield target
    target.close()


@pytest.fixture
def bench(running_target: Any) -> Iterator[Bench]:
    """The target with empty tables; they are emptied again afterwards."""
    yield Bench(running_target)
    running_target.clear()


@pytest.fixture
def bmv2_bench() -> Iterator[Bench]:
    """A BMv2 of its own, which may be left with packets in its queues."""
    if reason := missing("bmv2"):
        pytest.skip(reason)
    target = TARGETS["bmv2"]()
    yield Bench(target)
    target.close()


@pytest.fixture
def softswitch_bench() -> Iterator[Bench]:
    """A softswitch of its own, for tests of what only it can do: time stands still and queues fill."""
    target = TARGETS["softswitch"]()
    yield Bench(target)
    target.close()
