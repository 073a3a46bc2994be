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


class FabricPrompt(CLI):  # type: ignore[misc]
    """Mininet's prompt, which says a user's mistake in one line and reads scripts from a pipe as they stand."""

    prompt = "gradlane> "

    def __init__(self, net: Any, stdin: TextIO) -> None:
        self.use_rawinput = stdin is sys.stdin and stdin.isatty()
        super().__init__(net, stdin=stdin)

    def onecmd(self, line: str) -> bool | str | None:
        """Run one line."""
        try:
            return super().onecmd(line)  # type: ignore[no-any-return]
        except GradlaneError as error:
            print(f"error: {error}", flush=True)
        except Exception as error:  # Mininet's own verbs meet what they did not reckon with: the fabric outlives that
            print(f"error: {line.strip()}: {error or type(error).__name__}", flush=True)
        return None

    def waitForNode(self, node: Any) -> None:
        """Wait for a node's command and print its output; only a person's typing goes to the command."""
        if self.isatty():
            super().waitForNode(node)
            return
        while node.waiting:
            node.waitReadable()
            print(node.monitor().replace("\r\n", "\n"), end="", flush=True)


def prompt(net: Any, verbs: Verbs, stdin: TextIO | None = None) -> None:
    """Run the prompt until its user leaves it. Raises UsageError if a verb of ours would hide one of Mininet's."""
    methods: dict[str, Any] = {}
    for name, verb in verbs.items():
        if hasattr(FabricPrompt, f"do_{name}"):
            raise UsageError(f"the prompt has a verb {name!r} already")
        methods[f"do_{name}"] = _method(verb)
    kind: Any = type("FabricPrompt", (FabricPrompt,), methods)
    kind(net, sys.stdin if stdin is None else stdin)


def _method(verb: Callable[[str], str | None]) -> Callable[[Any, str], None]:
    def run(_prompt: Any, line: str) -> None:
        output = verb(line.strip())
        if output:
            print(output.rstrip("\n"), flush=True)

    run.__doc__ = verb.__doc__
    return run
