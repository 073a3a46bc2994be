# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl top|reroute|shell`: what goes on for as long as somebody watches."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from controller.cli.common import DeadlineOption, JsonOption, StateOption, check_seconds, console, controller_of
from topologies.errors import FailureError
from topologies.units import format_rate

if TYPE_CHECKING:
    from controller.meter import Look, PortRateView
    from controller.reroute import Rerouted


def add_to(app: typer.Typer) -> None:
    """Add the verbs to an app."""
    for command in (top, reroute, shell):
        app.command(command.__name__)(command)


def top(
    interval: Annotated[float, typer.Option(callback=check_seconds, help="Seconds between two looks.")] = 1.0,
    count: Annotated[int | None, typer.Option(min=1, help="End after so many looks (default: at Ctrl-C).")] = None,
    state: StateOption = None,
    deadline: DeadlineOption = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Watch the ports live: rate, load, queues and losses; with --json one line for each look."""
    from rich.live import Live

    from controller.meter import Meter

    controller = controller_of(state, deadline)
    with ExitStack() as stack:
        meter = stack.enter_context(Meter(controller))
        meter.look()
        live = None if as_json else stack.enter_context(Live(console=console, auto_refresh=False))
        looks = 0
        look: Look | None = None
        while count is None or looks < count:
            time.sleep(interval)
            look = meter.look()
            looks += 1
            if live is None:
                typer.echo(json.dumps(look.as_dict()))
            else:
                live.update(_ports_table(look.ports, look.errors), refresh=True)
    if look is not None and look.errors:
        raise FailureError(" | ".join(look.errors.values()))


def _ports_table(ports: list[PortRateView], errors: dict[str, str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("switch", "to", "state", "sends", "load", "packets/s", "queued", "deepest class", "lost/s"):
        table.add_column(column, justify="left" if column in ("switch", "to", "state") else "right")
    for port in ports:
        load = f"{port.load:.0%}" if port.load is not None else "-"
        style = "red" if port.lost_per_s or not port.up else None
        table.add_row(
            port.switch,
            port.neighbour,
            "up" if port.up else "down",
            f"{format_rate(round(port.bits_per_s))}bit/s" if port.bits_per_s else "0",
            load,
            f"{port.packets_per_s:.0f}",
            f"{port.queued_bytes}",
            "-" if port.deepest_class is None else str(port.deepest_class),
            f"{port.lost_per_s:.0f}",
            style=style,
        )
    for name, error in errors.items():
        table.add_row(name, error, style="red")
    return table


def reroute(state: StateOption = None, deadline: DeadlineOption = 5.0, as_json: JsonOption = False) -> None:
    """Stay, and route around links and switches that fail; a switch that was started anew is given its state again."""
    from controller.reroute import Rerouter

    controller = controller_of(state, deadline)
    ended = threading.Event()
    former = signal.signal(signal.SIGTERM, lambda *_: ended.set())
    try:
        with Rerouter(controller, lambda reaction: _say(reaction, as_json)):
            if not as_json:
                console.print(f"watching {len(controller.names())} switches of fabric {controller.running.fabric.name}")
            while not ended.wait(0.5):
                pass
    finally:
        signal.signal(signal.SIGTERM, former)


def _say(reaction: Rerouted, as_json: bool) -> None:
    links = sorted("-".join(sorted(link)) for link in reaction.failed)
    if as_json:
        report: dict[str, Any] = {
            "links_down": links,
            "switches_down": sorted(reaction.dead),
            "changed": dict(reaction.changed),
            "errors": dict(reaction.errors),
            "seconds": round(reaction.seconds, 4),
        }
        typer.echo(json.dumps(report))
        return
    changed = ", ".join(f"{name} {count}" for name, count in reaction.changed.items()) or "nothing"
    typer.echo(
        f"links down: {', '.join(links) or 'none'}; switches down: {', '.join(sorted(reaction.dead)) or 'none'}; "
        f"changed: {changed}, in {reaction.seconds * 1000:.0f} ms"
    )
    for error in reaction.errors.values():
        typer.echo(error, err=True)


def shell(
    switch: Annotated[str, typer.Argument(help="The switch, such as s1.")],
    state: StateOption = None,
    deadline: DeadlineOption = 5.0,
) -> None:
    """Open p4runtime-shell on a switch, as its primary client."""
    controller = controller_of(state, deadline)
    with controller.connect(switch) as connection:
        if connection.cookie() is None:
            raise FailureError(f"{switch}: runs no program, without which the shell knows no names")
        connection.become_primary()
        election_id = connection.election_id + 1
    code = subprocess.run(
        [
            sys.executable,
            "-m",
            "p4runtime_sh",
            "--device-id",
            str(connection.device_id),
            "--grpc-addr",
            connection.address,
            "--election-id",
            f"{election_id >> 64},{election_id & (1 << 64) - 1}",
        ],
        check=False,
    ).returncode
    raise typer.Exit(code)
