# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Gradlane: a network fabric that knows what a gradient packet is worth.

`gradlane.attach`, `gradlane.gate` and `gradlane.abs_sgd` are PyTorch's (gradlane/pytorch.py), and import it when
they are first used.
"""

import importlib
from typing import Any

_FACES = dict.fromkeys(("abs_sgd", "attach", "gate"), "gradlane.pytorch")


def __getattr__(name: str) -> Any:
    if name not in _FACES:
        raise AttributeError(f"module 'gradlane' has no attribute {name!r}")
    return getattr(importlib.import_module(_FACES[name]), name)
