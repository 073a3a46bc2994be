# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl policy`: validate, plan, apply, show, roll back."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

import typer
import yaml

import topologies
from controller import policy as policies
from controller.changes import Changes
from controller.cli.common import (
    DeadlineOption,
    JsonOption,
    StateOption,
    console,
    controller_of,
    end_with_failures,
    print_json,
    print_table,
)
from controller.compiler import DesiredState, compile_policy
from controller.compiler.capacity import check_capacity
from controller.history import Revision
from controller.p4rt.entities import TableEntry
from controller.p4rt.pipeline import Pipeline
from controller.p4rt.wire import UpdateKind
from controller.policy import Policy
from controller.quantities import format_classes
from controller.reconcile import Controller, Report
from topologies import state as fabric_state
from topologies.errors import UsageError

app = typer.Typer()

PolicyArgument = Annotated[
    str | None,
    typer.Argument(
        help="A policy that ships (dlcp, fifo, ...) or a YAML file (default: the current policy).", show_default=False
    ),
]


def _chosen(controller: Controller, name: str | None) -> Policy:
    if name is not None:
        return policies.load(name)
    current = controller.history.current()
    if current is None:
        raise UsageError("the fabric was given no policy yet; name one, such as dlcp")
    return current.policy


@app.command("validate")
def validate(
    name: Annotated[str, typer.Argument(metavar="POLICY", help="A policy that ships, or a YAML file.")],
    topology: Annotated[
        str | None,
        typer.Option(help="Fabric to compile it for (default: the running one, if there is one, else leaf_spine)."),
    ] = None,
    target: Annotated[str, typer.Option(help="softswitch or bmv2.")] = "softswitch",
    state: StateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check a policy, and that it fits a fabric."""
    policy = policies.load(name)
    if target not in ("softswitch", "bmv2"):
        raise UsageError(f"{target!r} is no target: softswitch or bmv2", field="--target")
    running = None if topology else fabric_state.find(state)
    fabric = running.fabric if running else topologies.load(topology or "leaf_spine")
    states = compile_policy(policy, fabric, "bmv2" if target == "bmv2" else "softswitch")
    check_capacity(policy, states, Pipeline.load())
    counts = {switch: len(desired.entities) for switch, desired in states.items()}
    if as_json:
        print_json({"policy": policy.name, "fabric": fabric.name, "target": target, "entities": counts})
    else:
        console.print(
            f"policy {policy.name} is valid and fits fabric {fabric.name}: "
            f"{sum(counts.values())} entities on {len(counts)} switches"
        )


@app.command("plan")
def plan(
    name: PolicyArgument = None, state: StateOption = None, deadline: DeadlineOption = 5.0, as_json: JsonOption = False
) -> None:
    """Show what applying a policy would change, and change nothing."""
    controller = controller_of(state, deadline)
    policy = _chosen(controller, name)
    plans = controller.plan(policy)
    if as_json:
        print_json(
            {
                "policy": policy.name,
                "switches": {
                    switch: found.as_dict() if isinstance(found, Changes) else {"switch": switch, "error": str(found)}
                    for switch, found in plans.items()
                },
            }
        )
    else:
        _print_plans(policy, plans)
    end_with_failures(plans)


def _print_plans(policy: Policy, plans: dict[str, Any]) -> None:
    colours = {"+": "green", "-": "red", "~": "yellow"}
    for switch, changes in plans.items():
        if isinstance(changes, Changes) and changes:
            console.print(f"[bold]{switch}[/bold] {_counts(changes)}")
            for line in changes.lines():
                console.print(f"  {line}", style=colours[line[0]], markup=False, soft_wrap=True)
    same = [switch for switch, changes in plans.items() if isinstance(changes, Changes) and not changes]
    if same:
        console.print(f"{', '.join(same)}: nothing to change for policy {policy.name}")


def _counts(changes: Changes) -> str:
    kinds: tuple[UpdateKind, ...] = ("insert", "modify", "delete")
    parts = [f"{changes.count(kind)} to {kind}" for kind in kinds if changes.count(kind)]
    parts += [f"{len(changes.queues)} queues"] if changes.queues else []
    parts += [f"{len(changes.rates)} rates"] if changes.rates else []
    return ", ".join(parts)


@app.command("apply")
def apply(
    name: PolicyArgument = None, state: StateOption = None, deadline: DeadlineOption = 5.0, as_json: JsonOption = False
) -> None:
    """Bring every switch to a policy and read it back; a switch that refuses is given back what it held."""
    controller = controller_of(state, deadline)
    report = controller.apply(_chosen(controller, name))
    _print_report(report, as_json)


@app.command("rollback")
def rollback(
    to: Annotated[int | None, typer.Option(help="Revision to go back to (default: the one before).")] = None,
    state: StateOption = None,
    deadline: DeadlineOption = 5.0,
    as_json: JsonOption = False,
) -> None:
    """Apply the policy before the current one again."""
    controller = controller_of(state, deadline)
    _print_report(controller.rollback(to), as_json)


def _print_report(report: Report, as_json: bool) -> None:
    if as_json:
        print_json(report.as_dict())
    else:
        for notice in report.notices:
            console.print(notice, style="yellow")
        done = [name for name, applied in report.switches.items() if not applied.error]
        changed = [f"{name} {report.switches[name].changed}" for name in done if report.switches[name].changed]
        console.print(
            f"policy {report.policy} (revision {report.revision}) on {len(done)} of {len(report.switches)} switches "
            f"in {report.seconds:.2f} s: {', '.join(changed) or 'nothing to change'}"
        )
    report.check()


@app.command("show")
def show(
    name: PolicyArgument = None,
    switch: Annotated[str | None, typer.Option(help="Show what it makes of this switch.")] = None,
    topology: Annotated[
        str | None, typer.Option(help="With --switch, of this fabric instead of the running one.")
    ] = None,
    state: StateOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a policy, or what it makes of a switch."""
    policy = policies.load(name) if name is not None else _chosen(controller_of(state), None)
    if switch is not None:
        fabric = topologies.load(topology) if topology else controller_of(state).running.fabric
        fabric.switch(switch)
        _print_desired(compile_policy(policy, fabric)[switch], as_json)
    elif as_json:
        print_json(policies.dump(policy))
    else:
        typer.echo(yaml.safe_dump(policies.dump(policy), sort_keys=False, width=100), nl=False)


def _print_desired(desired: DesiredState, as_json: bool) -> None:
    if as_json:
        print_json({"switch": desired.switch, "entities": [str(entity) for entity in desired.entities]})
        return
    for entity in desired.entities:
        if not isinstance(entity, TableEntry) or entity.table != "judge":
            console.print(str(entity), markup=False, soft_wrap=True)
    console.print("judge, in the order in which rows win:")
    rows = [entity for entity in desired.entities if isinstance(entity, TableEntry) and entity.table == "judge"]
    for row in rows:
        console.print(f"  {row}", markup=False, soft_wrap=True)
    limits = {(limit.packets, limit.bytes) for limit in desired.queues}
    for packets, octets in sorted(limits):
        classes = tuple(
            sorted({limit.class_ for limit in desired.queues if (limit.packets, limit.bytes) == (packets, octets)})
        )
        console.print(f"queues of classes {format_classes(classes)}: {octets} bytes, {packets} packets (0: no limit)")


@app.command("history")
def history(state: StateOption = None, as_json: JsonOption = False) -> None:
    """List the policies that the fabric has been given."""
    revisions = controller_of(state).history.revisions()
    if as_json:
        print_json([revision.as_dict() for revision in revisions])
    else:
        print_table(
            ["revision", "policy", "given", "note", "not taken by"],
            [_history_row(revision) for revision in revisions],
            right=["revision"],
        )


def _history_row(revision: Revision) -> tuple[object, ...]:
    given = datetime.datetime.fromtimestamp(revision.time).isoformat(sep=" ", timespec="seconds")
    return revision.number, revision.policy.name, given, revision.note, ", ".join(revision.failed)


@app.command("schema")
def schema() -> None:
    """Print the JSON schema of policy files, for editors."""
    typer.echo(policies.schema_text(), nl=False)
