# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The same work on many switches at a time, so that one that does not answer holds up nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from topologies.errors import FailureError

_T = TypeVar("_T")
_AT_A_TIME = 32


def on_each(names: Iterable[str], work: Callable[[str], _T]) -> dict[str, _T | FailureError]:
    """Do `work` for each name, many at a time; return its result or the failure it raised, in the names' order."""
    listed = list(names)

    def attempt(name: str) -> _T | FailureError:
        try:
            return work(name)
        except FailureError as error:
            return error

    if not listed:
        return {}
    with ThreadPoolExecutor(max_workers=min(_AT_A_TIME, len(listed)), thread_name_prefix="switch") as workers:
        return dict(zip(listed, workers.map(attempt, listed), strict=True))
