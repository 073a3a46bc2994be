# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Groups of verbs that are loaded when one of theirs is called, so that `gradctl --help` waits for no other library.

Verbs that stand alone import what they work with in their bodies, for the same reason.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module

import click
import typer
from typer.core import TyperGroup


def add_late(app: typer.Typer, name: str, where: str, help_text: str) -> None:
    """Add the verbs of another app, `module:attribute`, to an app as the group `name`."""
    module, _, attribute = where.partition(":")

    class LateGroup(TyperGroup):
        @cached_property
        def loaded(self) -> click.Group:
            found = typer.main.get_command(getattr(import_module(module), attribute))
            assert isinstance(found, click.Group)
            return found

        def list_commands(self, ctx: click.Context) -> list[str]:
            return self.loaded.list_commands(ctx)

        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
            return self.loaded.get_command(ctx, cmd_name)

    app.add_typer(typer.Typer(cls=LateGroup, help=help_text, no_args_is_help=True), name=name)
