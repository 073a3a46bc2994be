# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Mininet's prompt with verbs of our own, which the caller brings: topologies knows no controller."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from mininet.cli import CLI

from topologies.errors import GradlaneError, UsageError

# A verb takes the rest of its line and returns what to print; its docstring is its help.
Verbs = Mapping[str, Callable[[str], str | None]]


def prompt(net: Any, verbs: Verbs, stdin: TextIO | None = None) -> None:
    """Run the prompt until its user leaves it. Raises UsageError if a verb of ours would hide one of Mininet's."""
    methods: dict[str, Any] = {"prompt": "gradlane> "}
    for name, verb in verbs.items():
        if hasattr(CLI, f"do_{name}"):
            raise UsageError(f"the prompt has a verb {name!r} already")
        methods[f"do_{name}"] = _method(verb)
    kind: Any = type("FabricPrompt", (CLI,), methods)
    kind(net, stdin=sys.stdin if stdin is None else stdin)


def _method(verb: Callable[[str], str | None]) -> Callable[[Any, str], None]:
    def run(_prompt: Any, line: str) -> None:
        try:
            output = verb(line.strip())
        except GradlaneError as error:
            output = f"error: {error}"
        if output:
            print(output.rstrip("\n"), flush=True)

    run.__doc__ = verb.__doc__
    return run
