# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`gradctl trace`: a thin shell over traffic.trace."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from traffic import trace
from traffic.model import WORKLOADS

trace_app = typer.Typer()


@trace_app.command("record")
def record(
    output: Annotated[Path, typer.Argument(help="The trace to write, such as mnist.npz.")],
    workload: Annotated[str, typer.Option(help=f"What to train: {', '.join(WORKLOADS)}.")] = "mnist",
    workers: Annotated[int, typer.Option(min=1, max=64, help="Workers that share the data.")] = 4,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds to keep.")] = 8,
    every: Annotated[int, typer.Option(min=1, help="Keep every this many rounds of training.")] = 10,
    samples: Annotated[int, typer.Option(min=1, help="Samples of each worker in a round.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same trace.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Train a small network on real data and store its gradients by worker, layer and round."""
    recorded, accuracy = trace.record(workload, workers=workers, rounds=rounds, every=every, samples=samples, seed=seed)
    trace.save(recorded, output)
    about = {"file": str(output), **describe(recorded), "accuracy": accuracy}
    if as_json:
        typer.echo(json.dumps(about))
    else:
        typer.echo(
            f"{output}: {workload}, {workers} workers, {rounds} rounds of {about['bytes_per_round']:,} bytes each, "
            f"accuracy {accuracy:.1%} after {rounds * every} rounds"
        )


@trace_app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="A recorded trace.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a trace holds."""
    about = {"file": str(file), **describe(trace.load(file))}
    if as_json:
        typer.echo(json.dumps(about))
        return
    for name, value in about.items():
        if name != "tensors":
            typer.echo(f"{name.replace('_', ' ')}: {value}")
    for tensor in about["tensors"]:
        typer.echo(f"  layer {tensor['layer']}  {tensor['name']}  {tensor['shape']}")


def describe(recorded: trace.Trace) -> dict[str, Any]:
    """Return what a trace holds as plain values."""
    return {
        "workload": recorded.workload,
        "workers": recorded.workers,
        "layers": recorded.layers,
        "samples": recorded.samples,
        "rounds": list(recorded.rounds),
        "bytes_per_round": recorded.values.shape[2] * recorded.values.itemsize,
        "tensors": [{"name": p.name, "layer": p.layer, "shape": list(p.shape)} for p in recorded.parameters],
    }
