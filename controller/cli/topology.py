# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl topology`: what a topology file may say."""

from __future__ import annotations

import typer

from topologies import schema

app = typer.Typer()


@app.callback()
def of_topologies() -> None:
    """Keep `schema` a verb: typer takes an app's only command for the app itself."""


@app.command("schema")
def print_schema() -> None:
    """Print the JSON schema of topology files, for editors."""
    typer.echo(schema.schema_text(), nl=False)
