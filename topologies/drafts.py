# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def whole(file: Path) -> Iterator[Path]:
    """Hold a draft to be written, which becomes the file in the end: who is killed in the middle leaves no half of one.

    A link stays one, and what is no file, such as /dev/stdout, is written itself. Raises OSError where that fails.
    """
    target = draft = Path(os.path.realpath(file))
    try:
        if target.is_file() or not target.exists():
            draft = target.with_name(f".{target.name}.{os.getpid()}")
        yield draft
        if draft != target:
            draft.replace(target)
    finally:
        if draft != target:
            with suppress(OSError):
                draft.unlink()
