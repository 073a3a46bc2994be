# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl schedule`: thin shells over synthesis, verification, export and comparison."""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from topologies import state as states
from topologies.errors import UsageError
from traffic.collectives.tacos import running as on_fabric
from traffic.collectives.tacos.baselines import BASELINES, neighbours_only
from traffic.collectives.tacos.bounds import bounds
from traffic.collectives.tacos.chakra import write_chakra
from traffic.collectives.tacos.files import load, save, write
from traffic.collectives.tacos.msccl import msccl
from traffic.collectives.tacos.naming import network_of
from traffic.collectives.tacos.picture import draw
from traffic.collectives.tacos.schedule import Collective, Schedule, demand
from traffic.collectives.tacos.synthesis import ENGINES, synthesise
from traffic.collectives.tacos.verify import verify as check

schedule_app = typer.Typer()

NetworkName = Annotated[
    str,
    typer.Argument(help="mesh:8x8, torus:4x4x4@50, ring:2@200+full:4@33.3+switch:16@50, an edge list .csv, a fabric."),
]
Size = Annotated[float, typer.Option(help="Bytes of the whole buffer.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
ScheduleFile = Annotated[Path, typer.Argument(help="A schedule: .json or .npz.")]


@schedule_app.command("synth")
def synth(
    network: NetworkName,
    collective: Annotated[Collective, typer.Option(help="What is to hold in the end.")] = Collective.ALL_REDUCE,
    size: Size = 1e9,
    chunks: Annotated[int, typer.Option(min=1, help="Chunks of each NPU.")] = 1,
    group: Annotated[str, typer.Option(help="NPUs that take part, such as 0,3,5; others only forward.")] = "",
    root: Annotated[int | None, typer.Option(help="Of broadcast, reduce, gather and scatter.")] = None,
    failed: Annotated[list[str] | None, typer.Option(help="A link that failed, such as 0-1; again for more.")] = None,
    engine: Annotated[str, typer.Option(help=f"One of {', '.join(ENGINES)}.")] = "auto",
    restarts: Annotated[int, typer.Option(min=1, help="Seeds to try.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same schedule.")] = 0,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Where to write it: .json or .npz.")] = None,
    verified: Annotated[bool, typer.Option("--verify/--no-verify", help="Check the result.")] = True,
    as_json: AsJson = False,
) -> None:
    """Synthesise a schedule for a network, verify it, and print its time beside the bounds."""
    target = network_of(network)
    if failed:
        target = target.without(_pair(text) for text in failed)
    members = [_number(part, "--group") for part in group.split(",")] if group else None
    wanted = demand(target, collective, size, chunks=chunks, group=members, root=root)
    found = synthesise(target, wanted, engine=engine, restarts=restarts, seed=seed, check=verified)
    if output:
        save(found, output)
    _print({**summary(found), "verified": verified}, as_json)


@schedule_app.command("verify")
def verify(file: ScheduleFile, as_json: AsJson = False) -> None:
    """Play a schedule on its network and say whether it does what its collective promises."""
    verdict = check(load(file))
    _print({"file": str(file), "verified": True, "sends": verdict.sends, "time_us": verdict.end / 1e6}, as_json)


@schedule_app.command("show")
def show(
    file: ScheduleFile,
    picture: Annotated[Path | None, typer.Option(help="Draw links over time into this .png or .svg.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a schedule is, and draw it."""
    schedule = load(file)
    if picture:
        draw(schedule, picture)
    _print(summary(schedule), as_json)


class Form(str, Enum):
    """What a schedule can be written as."""

    JSON = "json"
    NPZ = "npz"
    MSCCL = "msccl"
    CHAKRA = "chakra"


SUFFIXES = {".json": Form.JSON, ".npz": Form.NPZ, ".xml": Form.MSCCL, ".et": Form.CHAKRA}


@schedule_app.command("export")
def export(
    file: ScheduleFile,
    output: Annotated[Path, typer.Argument(help="Where to write it; Chakra: the beginning of NAME.<npu>.et.")],
    form: Annotated[Form | None, typer.Option("--format", help="Else by suffix: .json, .npz, .xml, .et.")] = None,
    minimum: Annotated[int, typer.Option(help="MSCCL: bytes from which it is used.")] = 0,
    maximum: Annotated[int, typer.Option(help="MSCCL: bytes up to which it is used, 0: any.")] = 0,
) -> None:
    """Write a schedule in another form; as a program that is to run, only if it is right."""
    chosen = form or SUFFIXES.get(output.suffix)
    if chosen is None:
        raise UsageError(f"say the --format, or end in {', '.join(SUFFIXES)}", file=output)
    schedule = load(file)
    if chosen in (Form.MSCCL, Form.CHAKRA):
        check(schedule)
    match chosen:
        case Form.MSCCL:
            write(output, msccl(schedule, minimum=minimum, maximum=maximum))
        case Form.CHAKRA:
            files = write_chakra(schedule, output.with_suffix("") if output.suffix == ".et" else output)
            typer.echo(f"{files[0]} .. {files[-1].name}")
        case Form.JSON | Form.NPZ:
            save(schedule, output if output.suffix == f".{chosen.value}" else Path(f"{output}.{chosen.value}"))


@schedule_app.command("run")
def run(
    file: ScheduleFile,
    values: Annotated[int, typer.Option(min=1, help="Length of each host's longer buffer, in float32.")] = 250_000,
    rounds: Annotated[int, typer.Option(min=1, help="Runs; one more, which is not counted, goes before.")] = 5,
    ring: Annotated[bool, typer.Option("--ring", help="Run the ring over the same hosts beside it.")] = False,
    state: Annotated[Path | None, typer.Option(help="State file of the running fabric.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a schedule on the running fabric with real tensors, check them, print measured and predicted time."""
    schedule, running = load(file), states.load(state)
    measured = [on_fabric.run(running, schedule, values, rounds=rounds)]
    if ring:
        hosts = [running.fabric.hosts[npu].name for npu in schedule.demand.group]
        measured.append(on_fabric.run(running, "ring", values, hosts=hosts, rounds=rounds))
    if as_json:
        typer.echo(json.dumps([one.as_dict() for one in measured]))
        return
    for one in measured:
        low, high = min(one.seconds) * 1e3, max(one.seconds) * 1e3
        predicted = ""
        if one.predicted is not None:
            predicted = f", {one.median / one.predicted:.3f} x the predicted {one.predicted * 1e3:,.1f} ms"
        vain = "".join(f", {count} in vain ({reason})" for reason, count in one.ignored.items())
        typer.echo(
            f"{one.collective}: {one.median * 1e3:,.1f} ms ({low:,.1f} to {high:,.1f}){predicted}; values right; "
            f"{one.again} packets sent again{vain}"
        )


@schedule_app.command("compare")
def compare(network: NetworkName, size: Size = 1e9, seed: int = 0, as_json: AsJson = False) -> None:
    """Put the synthesised All-Reduce beside ring, direct, halving-doubling, double tree and multi-dimensional ring."""
    target = network_of(network)
    wanted = demand(target, Collective.ALL_REDUCE, size)
    schedules = [("synthesised", synthesise(target, wanted, seed=seed)), *_baselines(target, wanted)]
    least = bounds(target, wanted).best
    rows: list[dict[str, Any]] = []
    for name, schedule in schedules:
        own = name == "synthesised"
        verified = own or neighbours_only(schedule)
        if verified and not own:
            check(schedule)
        rows.append(
            {
                "algorithm": schedule.engine if own else name,
                "time_us": schedule.seconds * 1e6,
                "GB_per_s": _gigabytes(schedule),
                "of_bound": least / schedule.seconds if schedule.seconds else 1.0,
                "verified": verified,
            }
        )
    if as_json:
        typer.echo(json.dumps(rows))
        return
    table = Table("algorithm", "time (us)", "GB/s", "of bound", "verified")
    for row in rows:
        table.add_row(
            row["algorithm"],
            f"{row['time_us']:,.1f}",
            "-" if row["GB_per_s"] is None else f"{row['GB_per_s']:.2f}",
            f"{row['of_bound']:.1%}",
            "yes" if row["verified"] else "through NPUs between: timed only",
        )
    Console().print(table)


def _baselines(network: Any, wanted: Any) -> list[tuple[str, Schedule]]:
    found = []
    for name, algorithm in BASELINES.items():
        try:
            found.append((name, algorithm(network, wanted)))
        except UsageError:
            continue  # it is not for this shape
    return found


def summary(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule's key figures, bounds beside them."""
    limits = bounds(schedule.network, schedule.demand)
    return {
        "network": schedule.network.name,
        "npus": schedule.network.npus,
        "collective": schedule.demand.collective.value,
        "size": schedule.demand.size,
        "chunks": schedule.demand.chunks,
        "engine": schedule.engine,
        "sends": len(schedule.chunk),
        "time_us": schedule.seconds * 1e6,
        "GB_per_s": _gigabytes(schedule),
        "node_bound_us": limits.node * 1e6,
        "cut_bound_us": None if limits.cut is None else limits.cut * 1e6,
        "latency_bound_us": limits.latency * 1e6,
        "scatter_gather_bound_us": None if limits.halves is None else limits.halves * 1e6,
        "tree_bound_us": None if limits.trees is None else limits.trees * 1e6,
        "of_bound": limits.best / schedule.seconds if schedule.seconds else 1.0,
    }


def _gigabytes(schedule: Schedule) -> float | None:
    """A second; None of a schedule that takes no time, since JSON knows no infinity."""
    return schedule.algorithm_bandwidth / 1e9 if schedule.seconds else None


def _print(values: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(values))
        return
    for name, value in values.items():
        shown = f"{value:,.3f}" if isinstance(value, float) else value
        if value is not None:
            typer.echo(f"{name.replace('_', ' ')}: {shown}")


def _pair(text: str) -> tuple[int, int]:
    a, dash, b = text.partition("-")
    if not dash:
        raise UsageError(f"a link is SOURCE-DESTINATION, not {text!r}", field="--failed")
    return _number(a, "--failed"), _number(b, "--failed")


def _number(text: str, option: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise UsageError(f"{text!r} is no NPU number", field=option) from None
