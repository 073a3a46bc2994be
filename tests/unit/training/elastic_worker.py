# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A worker of test_roster.py: `python -m tests.unit.training.elastic_worker NUMBER PORT TRANSPORT UPDATES`.

After so many updates of its own it has all end.
"""

from __future__ import annotations

import hashlib
import sys

from tests.unit.training.problems import quadratic
from topologies.errors import GradlaneError
from traffic.training.algorithms import AbsSGD
from traffic.training.membership import Caller, Membership
from traffic.training.real import RealTraining
from traffic.training.rule import Rule
from traffic.training.share import Total

SERVER = "127.78.2.1"


def main() -> int:
    number, port, transport, updates = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    problem = quadratic()
    caller = Caller(f"w{number}", f"127.78.1.{number + 1}", SERVER, port, transport, problem.values)

    def after(run: RealTraining, total: Total) -> None:
        run.wants_end = run.progress.phases >= updates
        if run.worker.rank == 0:
            membership.tell({"updates": run.worker.state.updates, "samples": total.samples})

    try:
        with (
            Membership(caller) as membership,
            RealTraining(
                problem, AbsSGD(micro=16, fitted=True, grace=2.0), Rule(0.05, momentum=0.5), number, 1,
                seconds_per_sample=1e-3, on_update=after,
            ) as training,
        ):  # fmt: skip
            membership.train(training)
            state = training.worker.state
            digest = hashlib.blake2b(state.weights.tobytes()).hexdigest()
            membership.done({
                "number": number, "digest": digest, "samples": state.samples, "computed": training.progress.samples,
                "loss": problem.loss(state.weights),
            })  # fmt: skip
    except GradlaneError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
