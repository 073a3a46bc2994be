# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Schedules on real fabrics, as root: measured against predicted, and against the ring over one path and over all.

Links are slow, so that two cores carry every packet in time: what is compared is the links' time, not the machine's.
Writes build/bench/schedules.json.
"""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import topologies
from controller.reconcile import install
from topologies import processes
from topologies.mininet_fabric import MininetFabric
from traffic.collectives.tacos.naming import from_fabric
from traffic.collectives.tacos.running import Measured, run
from traffic.collectives.tacos.schedule import Collective, demand
from traffic.collectives.tacos.synthesis import synthesise

OUTPUT = Path("build/bench/schedules.json")


@dataclass(frozen=True)
class Case:
    """A fabric, and how many values each host adds."""

    topology: str
    values: int
    rings: bool = True
    """Whether rings run beside the schedule; else it is held against its prediction alone."""


NINE = """
kind: {kind}
dimensions: [3, 3]
hosts_per_switch: 1
host_link: {{rate: 12M}}
fabric_link: {{rate: 2M}}
"""
CASES = {
    "torus": Case(NINE.format(kind="torus"), 374_400),
    "mesh": Case(NINE.format(kind="mesh"), 374_400, rings=False),
    "leaf_spine": Case(
        """
kind: leaf_spine
leaves: 2
spines: 2
hosts_per_leaf: 4
host_link: {rate: 20M}
fabric_link: {rate: 40M}
links:
  - {between: [h1, leaf1], rate: 5M}
""",
        374_400,
    ),
}


RUNS = (("schedule", "dlcp"), ("ring", "dlcp"), ("ring", "ecmp_flow"))
"""What competes: the schedule, the ring sprayed, the ring over one path per flow."""


def measure(case: Case, turns: int, rounds: int) -> list[dict[str, Any]]:
    """Return what each took, all of them in every turn, so that what else the machine does meets them alike."""
    with processes.scratch("bench", os.environ) as folder:
        file = Path(folder) / "fabric.yaml"
        file.write_text(case.topology)
        fabric = topologies.load(str(file))
        network = from_fabric(fabric)
        schedule = synthesise(network, demand(network, Collective.ALL_REDUCE, 4.0 * case.values))
        path = Path(folder) / "fabric.json"
        contest = RUNS if case.rings else RUNS[:1]
        found: list[list[Measured]] = [[] for _ in contest]
        with MininetFabric(fabric, instance=None, state_path=path, logs=folder) as net:
            for _ in range(turns):
                for (what, policy), into in zip(contest, found, strict=True):
                    install(path, policy).check()
                    into.append(run(net.running, schedule if what == "schedule" else what, case.values, rounds=rounds))
                    took = ", ".join(f"{second:.2f}" for second in into[-1].seconds)
                    print(f"{fabric.name}: {what} over {policy}: {took} s", flush=True)
    rows = []
    for (_, policy), runs in zip(contest, found, strict=True):
        together = replace(
            runs[0],
            seconds=tuple(second for one in runs for second in one.seconds),
            again=sum(one.again for one in runs),
            ignored=dict(sum((Counter(one.ignored) for one in runs), Counter())),
        )
        rows.append({**together.as_dict(), "policy": policy})
    return rows


def main() -> None:
    """Run the cases, print and write them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=CASES)
    parser.add_argument("--turns", type=int, default=3, help="how often each is run, in turn")
    parser.add_argument("--rounds", type=int, default=2, help="measured rounds of a run, after one that is not")
    chosen = parser.parse_args()
    OUTPUT.parent.mkdir(parents=True, exist_ok=True)
    found = json.loads(OUTPUT.read_text()) if chosen.only and OUTPUT.exists() else {}
    for name, case in CASES.items():
        if chosen.only in (None, name):
            found[name] = measure(case, chosen.turns, chosen.rounds)
            for row in found[name]:
                predicted = f", predicted {row['predicted_ms']:,.0f} ms" if row["predicted_ms"] else ""
                print(
                    f"{name:12} {row['collective']:28} {row['policy']:10} {row['measured_ms']:10,.0f} ms "
                    f"({min(row['all_ms']):,.0f} to {max(row['all_ms']):,.0f}){predicted}; packets again "
                    f"{row['packets_again']}, in vain {row['packets_ignored'] or 0}",
                    flush=True,
                )
    OUTPUT.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
