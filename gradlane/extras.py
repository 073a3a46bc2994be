# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What says which extra installs a framework that is missing."""

from importlib.util import find_spec


def require(module: str, extra: str) -> None:
    """Raise ModuleNotFoundError that says what to install, where a module is not there."""
    if find_spec(module) is None:
        raise ModuleNotFoundError(f"{module} is not installed: pip install 'gradlane[{extra}]'", name=module)
