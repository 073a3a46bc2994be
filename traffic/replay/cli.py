# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl replay`: a thin shell over traffic.replay, which is imported when it is called: no other verb needs it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from topologies.errors import UsageError
from topologies.units import parse_duration, parse_rate

if TYPE_CHECKING:
    from topologies.state import RunningFabric
    from traffic.hosts import Site
    from traffic.replay.observe import Observation, Observe
    from traffic.replay.stream import Stream

WORTH_SAYING_S = 10.0
"""A replay that takes longer says so before it begins."""


def add_replay(app: typer.Typer, observe: Observe | None = None) -> None:
    """Add the `replay` command to an app; `observe` tells classes and paths of the running fabric."""

    @app.command("replay")
    def replay(
        file: Annotated[Path, typer.Argument(help="A recorded trace, or a pcap or pcapng capture.")],
        sources: Annotated[list[str], typer.Option("--from", help="A sending host; give it again for more.")],
        sink: Annotated[str, typer.Option("--to", help="The receiving host.")],
        rate: Annotated[str, typer.Option(help="Bits per second of all senders together, such as 50M.")] = "50M",
        rounds: Annotated[
            int | None,
            typer.Option(min=1, help="Rounds of a trace (default: those recorded), or times to send a capture."),
        ] = None,
        pause: Annotated[str, typer.Option(help="Time between rounds, such as 20ms.")] = "",
        burst: Annotated[int, typer.Option(min=1, max=16, help="Packets that a sender sends at once.")] = 8,
        ipv6: Annotated[bool, typer.Option("--ipv6", help="Send a trace over IPv6.")] = False,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    ) -> None:
        """Send a trace or a capture through the running fabric and report what arrived bit-exact, and in which order.

        A trace sends one worker's gradients from each host. Packets of a capture get the addresses of the two hosts.
        """
        from rich.console import Console

        from topologies import state
        from traffic.hosts import site_of
        from traffic.replay.session import Timing, run, seconds_per_round
        from traffic.replay.summary import summarise
        from traffic.replay.tables import replay_report

        running = state.load()
        if sink in sources:
            raise UsageError(f"{sink} cannot be at both ends", field="--to")
        ends, destination = [site_of(running, name) for name in sources], site_of(running, sink)
        streams, skipped = _streams(file, running, ends, destination, ipv6)
        timing = Timing(
            rate=_quantity(parse_rate, rate, "--rate") / len(ends),
            rounds=rounds or streams[0].recorded_rounds,
            pause=_quantity(parse_duration, pause, "--pause") / 1e9 if pause else 0.0,
            burst=burst,
            ipv6=ipv6,
        )
        seconds = timing.rounds * seconds_per_round(streams, timing)
        if seconds > WORTH_SAYING_S:
            typer.echo(f"sending takes about {duration(seconds)}", err=True)
        observation: Observation | None = observe(running) if observe else None
        outcome = run(list(zip(ends, streams, strict=True)), destination, timing)
        summary = summarise(outcome, observation.classify if observation else None)
        paths = observation.paths(sink) if observation else None
        if as_json:
            typer.echo(json.dumps({**summary.as_dict(), "paths": paths, "skipped": skipped}))
            return
        if skipped:
            typer.echo(f"{skipped} packets of the capture are no IP or do not fit the fabric, and were left out")
        Console().print(replay_report(summary, paths))


def duration(seconds: float) -> str:
    """Write a length of time as people say it, in the largest unit of which there are two or more."""
    for unit, length in (("years", 365 * 86400), ("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:,.0f} {unit}"
    return f"{seconds:.0f} s"


def _streams(
    file: Path, running: RunningFabric, sources: list[Site], sink: Site, ipv6: bool
) -> tuple[list[Stream], int]:
    """Return one stream for each source, and how many packets of a capture cannot be sent."""
    from traffic import trace
    from traffic.replay.sources import capture_stream, trace_stream

    if _is_trace(file):
        recorded = trace.load(file)
        return [trace_stream(recorded, worker, ipv6=ipv6) for worker in range(len(sources))], 0
    captures = [capture_stream(file, source.station, sink.station, running.fabric.mtu) for source in sources]
    return [capture.stream for capture in captures], captures[0].skipped


def _is_trace(file: Path) -> bool:
    from traffic import trace

    try:
        with file.open("rb") as opened:
            return opened.read(len(trace.MAGIC)) == trace.MAGIC
    except FileNotFoundError:
        raise UsageError("no such file", file=file) from None
    except OSError as error:
        raise UsageError(f"cannot read it: {error.strerror or error}", file=file) from None


def _quantity(parse: Any, text: str, option: str) -> float:
    try:
        return float(parse(text))
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
