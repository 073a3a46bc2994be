# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What every verb of gradctl shares: options, output, and errors as one line with an exit code."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.measure import Measurement
from rich.table import Table

from topologies.errors import FailureError, GradlaneError

if TYPE_CHECKING:
    from controller.reconcile import Controller

MIN_SECONDS, MAX_SECONDS = 0.1, 86400.0

StateOption = Annotated[
    Path | None, typer.Option("--fabric-state", help="State file of the running fabric (default: build/fabric.json).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def check_seconds(value: float) -> float:
    """Refuse what no clock can wait for; `nan` passes every comparison that a range makes."""
    if not MIN_SECONDS <= value <= MAX_SECONDS:
        raise typer.BadParameter(f"{value} is not in the range {MIN_SECONDS}<=x<={MAX_SECONDS:g}.")
    return value


DeadlineOption = Annotated[
    float, typer.Option("--deadline", callback=check_seconds, help="Seconds that a switch has to answer.")
]
SwitchesArgument = Annotated[list[str] | None, typer.Argument(help="Switches (default: all).", show_default=False)]

PIPED_WIDTH = 160
"""Columns where there is no terminal to ask: wide enough that no listing folds a cell."""

_asks_terminal = "COLUMNS" in os.environ or (sys.stdout is not None and sys.stdout.isatty())
console = Console(highlight=False, width=None if _asks_terminal else PIPED_WIDTH)


def new_app(help_text: str) -> typer.Typer:
    """Return an app whose errors are left to `run`."""
    app = typer.Typer(help=help_text, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)

    @app.callback()
    def options(
        verbose: Annotated[int, typer.Option("-v", "--verbose", count=True, help="Say more; twice for all.")] = 0,
    ) -> None:
        level = (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
        handler = RichHandler(console=Console(stderr=True), show_path=False, show_time=False)
        logging.basicConfig(level=level, format="%(message)s", handlers=[handler])

    return app


def controller_of(state: Path | None, deadline: float = 5.0) -> Controller:
    """Return the controller of the running fabric."""
    from controller.reconcile import Controller

    return Controller.find(state, deadline=deadline)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    typer.echo(json.dumps(value, indent=1))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, right: Sequence[str] = ()) -> None:
    """Print rows under columns; those in `right` are numbers."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(str(cell) if cell is not None else "-" for cell in row))
    # In a terminal that is narrower than the words, rich would leave columns out; so the terminal folds the lines.
    needs = Measurement.get(console, console.options.update(max_width=PIPED_WIDTH), table)
    fits = console.width >= needs.minimum
    (console if fits else Console(highlight=False, width=needs.maximum)).print(table)


def end_with_failures(results: Mapping[str, object]) -> None:
    """Raise FailureError naming every switch whose result is one, after the others have been shown."""
    failures = [str(result) for result in results.values() if isinstance(result, FailureError)]
    if failures:
        raise FailureError(" | ".join(failures))


def run(app: typer.Typer, arguments: Sequence[str] | None = None, name: str = "gradctl") -> int:
    """Run a command line and return its exit code. An error prints one line; a user's mistake has the code 2."""
    try:
        code = app(list(arguments) if arguments is not None else None, prog_name=name, standalone_mode=False)
        if sys.stdout is not None:  # as it is where the shell closed it
            sys.stdout.flush()
        return int(code or 0)
    except GradlaneError as error:
        return _say(name, str(error), error.exit_code)
    except click.ClickException as error:
        return _say(name, error.format_message(), error.exit_code)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader went away, as `head` does: nobody is left to tell.
        _drop_output()
        return 0
    except SystemExit as exit_:
        if not isinstance(exit_.__context__, BrokenPipeError):  # as typer and rich end a program whose reader went away
            raise
        _drop_output()
        return 0
    except OSError as error:  # a disk that is full, a folder that cannot be written
        _drop_output()
        return _say(name, ": ".join(str(part) for part in (error.filename, error.strerror or error) if part), 1)


def _drop_output() -> None:
    """Lose what standard output does not take, or the interpreter would complain of it once more at its end."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _say(name: str, message: str, code: int) -> int:
    typer.echo(f"{name}: {' '.join(message.split())}", err=True)
    return code
