# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl status|entries|counters|queues|drops|paths`: what the switches hold and have counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from controller.cli.common import (
    DeadlineOption,
    JsonOption,
    StateOption,
    SwitchesArgument,
    controller_of,
    end_with_failures,
    print_json,
    print_table,
)
from controller.fleet import on_each
from controller.p4rt.entities import Default, Entity, Group, Member, TableEntry
from topologies.errors import FailureError

if TYPE_CHECKING:
    from controller.p4rt.wire import Counted
    from controller.reconcile import Controller

_T = TypeVar("_T")


def add_to(app: typer.Typer) -> None:
    """Add the verbs to an app."""
    for command in (status, entries, counters, queues, drops, paths):
        app.command(command.__name__)(command)


def _answers(results: Mapping[str, _T | FailureError]) -> dict[str, _T]:
    return {name: result for name, result in results.items() if not isinstance(result, FailureError)}


def status(state: StateOption = None, deadline: DeadlineOption = 5.0, as_json: JsonOption = False) -> None:
    """Show the fabric, its policy, and whether every switch answers and holds what it should."""
    from controller.links import failed_links

    controller = controller_of(state, deadline)
    running = controller.running
    current = controller.history.current()
    failed = failed_links(running.fabric)
    desired = controller.compile(current.policy, failed) if current else {}
    former = controller.former()

    def work(name: str) -> dict[str, Any]:
        with controller.device(name, former.get(name)) as device:
            version = device.connection.api_version()
            held = device.read()
            return {
                "p4runtime": version,
                "program": "ours"
                if held.cookie == controller.program.pipeline.cookie
                else "another"
                if held.cookie is not None
                else "none",
                "entries": len(held.holding.entries),
                "differences": len(device.changes(desired[name], held)) if name in desired else None,
            }

    results = on_each(controller.names(), work)
    down = sorted("-".join(sorted(link)) for link in failed)
    if as_json:
        switches = {
            name: {
                "address": running.switches[name].grpc_address,
                **({"error": str(result)} if isinstance(result, FailureError) else result),
            }
            for name, result in results.items()
        }
        print_json(
            {
                "fabric": running.fabric.name,
                "target": running.target,
                "policy": current.policy.name if current else None,
                "revision": current.number if current else None,
                "links_down": down,
                "switches": switches,
            }
        )
    else:
        policy = f"policy {current.policy.name} (revision {current.number})" if current else "no policy yet"
        typer.echo(f"fabric {running.fabric.name} on {running.target}, {policy}")
        if down:
            typer.echo(f"links down: {', '.join(down)}")
        print_table(
            ["switch", "address", "state", "program", "entries", "differences"],
            [_status_row(name, running.switches[name].grpc_address, result) for name, result in results.items()],
            right=["entries", "differences"],
        )
    end_with_failures(results)


def _status_row(name: str, address: str, result: dict[str, Any] | FailureError) -> tuple[object, ...]:
    if isinstance(result, FailureError):
        return name, address, "no answer", None, None, None
    return name, address, "answers", result["program"], result["entries"], result["differences"]


def entries(
    switches: SwitchesArgument = None,
    table: Annotated[str | None, typer.Option(help="One table (default: all).")] = None,
    with_counts: Annotated[bool, typer.Option("--counters", help="With the rows' own counters.")] = False,
    state: StateOption = None,
    deadline: DeadlineOption = 5.0,
    as_json: JsonOption = False,
) -> None:
    """List what the switches hold: table entries, and the members and groups of the path selector."""
    from controller.changes import entity_as_dict

    controller = controller_of(state, deadline)
    pipeline = controller.program.pipeline
    wanted = pipeline.table(table).name if table else None

    def work(name: str) -> list[tuple[Entity, Counted | None]]:
        with controller.device(name) as device:
            device.need_program()
            if with_counts:
                rows = device.connection.read_table(pipeline, controller.program.decoder, wanted)
                return [(entry, count) for entry, count in rows]
            return [
                (entity, None)
                for entity in device.connection.read(controller.program.decoder)
                if wanted is None or (isinstance(entity, TableEntry | Default) and entity.table == wanted)
            ]

    results = on_each(controller.names(switches or ()), work)
    if as_json:
        print_json(
            {
                name: [
                    {**entity_as_dict(entity), **({} if count is None else count._asdict())}
                    for entity, count in sorted(rows, key=_entry_order)
                ]
                for name, rows in _answers(results).items()
            }
        )
    else:
        for name, rows in _answers(results).items():
            typer.echo(f"{name}: {len(rows)}")
            for entity, count in sorted(rows, key=_entry_order):
                counted = f"  [{count.packets} packets, {count.bytes} bytes]" if count is not None else ""
                typer.echo(f"  {entity}{counted}")
    end_with_failures(results)


def _entry_order(row: tuple[Entity, Counted | None]) -> tuple[Any, ...]:
    match row[0]:
        case TableEntry(table, match, _, priority):
            return 1, table, -priority, [(name, tuple(value)) for name, value in match]
        case Default(table, _):
            return 2, table
        case Member(_, number, _):
            return 0, "member", number
        case Group(_, number, _):
            return 0, "group", number


# Which index of a counter stands for what, and the names of the cells along it.
_DIMENSIONS: dict[str, tuple[str, ...]] = {
    "received": ("port", "class"),
    "kept": ("port", "class"),
    "marked": ("port", "class"),
    "trimmed": ("port", "class"),
    "dropped": ("port", "class", "reason", "band"),
    "kept_band": ("port", "class", "band"),
    "queue_delay": ("port", "class", "bucket"),
    "faults": ("fault",),
}


def counters(
    switches: SwitchesArgument = None,
    counter: Annotated[str | None, typer.Option(help="One counter (default: all).")] = None,
    state: StateOption = None,
    deadline: DeadlineOption = 5.0,
    as_json: JsonOption = False,
) -> None:
    """List the program's counters: every cell that has counted something."""
    import numpy as np

    controller = controller_of(state, deadline)
    pipeline = controller.program.pipeline
    names = [pipeline.counter(counter).name] if counter else list(pipeline.counters)

    def work(name: str) -> list[dict[str, Any]]:
        with controller.device(name) as device:
            device.need_program()
            rows = []
            for wanted in names:
                cells = device.connection.read_counter(pipeline, wanted)
                for index in np.flatnonzero(cells.packets):
                    counts = {"packets": int(cells.packets[index]), "bytes": int(cells.bytes[index])}
                    rows.append({"counter": wanted, **_labels(controller, name, wanted, int(index)), **counts})
            return rows

    results = on_each(controller.names(switches or ()), work)
    if as_json:
        print_json(_answers(results))
    else:
        rows = [
            (name, row["counter"], _label_text(row), row["packets"], row["bytes"])
            for name, found in _answers(results).items()
            for row in found
        ]
        print_table(["switch", "counter", "of", "packets", "bytes"], rows, right=["packets", "bytes"])
    end_with_failures(results)


def _labels(controller: Controller, switch: str, counter: str, index: int) -> dict[str, Any]:
    from controller import telemetry
    from controller.quantities import CLASSES

    sizes = {"class": CLASSES, "reason": len(telemetry.REASONS), "band": 8, "bucket": telemetry.DELAY_BUCKETS}
    labels: dict[str, Any] = {}
    for dimension in reversed(_DIMENSIONS.get(counter, ("index",))[1:]):
        index, labels[dimension] = divmod(index, sizes[dimension])
    first = _DIMENSIONS.get(counter, ("index",))[0]
    labels[first] = telemetry.FAULTS[index] if first == "fault" and index < len(telemetry.FAULTS) else index
    if "reason" in labels:
        labels["reason"] = telemetry.REASONS[labels["reason"]]
    if first == "port":
        ports = controller.running.fabric.ports(switch)
        labels["port"] = index + 1 if index < len(ports) else None
        labels["neighbour"] = ports[index].peer.node if index < len(ports) else None
    return dict(reversed(labels.items()))


def _label_text(row: Mapping[str, Any]) -> str:
    hidden = ("counter", "packets", "bytes", "neighbour")
    parts = [f"{name} {value}" for name, value in row.items() if name not in hidden and value is not None]
    return ", ".join(parts) + (f" to {row['neighbour']}" if row.get("neighbour") else "")


def queues(
    switches: SwitchesArgument = None,
    all_queues: Annotated[bool, typer.Option("--all", help="Also those that never held a packet.")] = False,
    state: StateOption = None,
    deadline: DeadlineOption = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Show every queue: depth, limit, what it sent and lost, and how long packets waited."""
    from controller import views

    controller = controller_of(state, deadline)
    results = on_each(controller.names(switches or ()), lambda name: views.queues(controller, name))
    shown = [
        queue
        for found in _answers(results).values()
        for queue in found
        if all_queues or queue.sent_packets or queue.depth
    ]
    if as_json:
        print_json([asdict(queue) for queue in shown])
    else:
        print_table(
            ["switch", "port", "to", "class", "depth", "deepest", "limit", "sent", "tail drops", "p50 us", "p99 us"],
            [
                (
                    queue.switch,
                    queue.port,
                    queue.neighbour,
                    queue.class_,
                    queue.depth,
                    queue.deepest,
                    queue.limit,
                    queue.sent_packets,
                    queue.tail_drops,
                    _rounded(queue.p50_us),
                    _rounded(queue.p99_us),
                )
                for queue in shown
            ],
            right=["port", "class", "depth", "deepest", "limit", "sent", "tail drops", "p50 us", "p99 us"],
        )
    end_with_failures(results)


def _rounded(value: float | None) -> str | None:
    return None if value is None else f"{value:.0f}"


def drops(
    switches: SwitchesArgument = None,
    state: StateOption = None,
    deadline: DeadlineOption = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Show dropped packets by switch, port, class, reason and importance band (0 the least important)."""
    from controller import views

    controller = controller_of(state, deadline)
    results = on_each(controller.names(switches or ()), lambda name: views.drops(controller, name))
    found = [drop for answer in _answers(results).values() for drop in answer]
    if as_json:
        print_json([asdict(drop) for drop in found])
    else:
        print_table(
            ["switch", "to", "class", "reason", "packets", *(f"band {band}" for band in range(8))],
            [
                (drop.switch, drop.neighbour, drop.class_, drop.reason, drop.packets, *(drop.by_band or [None] * 8))
                for drop in found
            ],
            right=["class", "packets", *(f"band {band}" for band in range(8))],
        )
    end_with_failures(results)


def paths(
    switches: SwitchesArgument = None,
    by_class: Annotated[bool, typer.Option("--by-class", help="Each class for itself.")] = False,
    state: StateOption = None,
    deadline: DeadlineOption = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Show how each switch that has a choice split its packets over the equal next hops."""
    from controller import views

    controller = controller_of(state, deadline)
    results = on_each(controller.names(switches or ()), lambda name: views.paths(controller, name, by_class))
    found = [share for answer in _answers(results).values() for share in answer]
    if as_json:
        print_json([asdict(share) for share in found])
    else:
        print_table(
            ["switch", "next hop", "class", "packets", "share"],
            [
                (
                    path.switch,
                    path.neighbour,
                    "all" if path.class_ is None else path.class_,
                    path.packets,
                    f"{path.share:.1%}",
                )
                for path in found
            ],
            right=["class", "packets", "share"],
        )
        if mixed := sorted({path.switch for path in found if path.mixed}):
            print(f"{', '.join(mixed)}: packets to destinations with one next hop only are among these")
    end_with_failures(results)
