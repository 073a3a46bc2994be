# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What `make run` needs once and needs no root for: `python -m gradlane.prepare` records the training trace it replays.

The trace goes into build/, and is made again when its recipe changes or its file is damaged.
"""

import sys
from pathlib import Path

from topologies.errors import GradlaneError, UsageError
from traffic import trace

WORKLOAD, WORKERS, ROUNDS, EVERY = "mnist", 4, 8, 10
TRACE = Path("build/traces") / f"{WORKLOAD}-{WORKERS}-workers-{ROUNDS}-rounds-every-{EVERY}.npz"


def prepare(path: Path = TRACE) -> trace.Trace:
    """Return the trace that `make run` replays, recording it first unless a good one is there."""
    try:
        return trace.load(path)
    except UsageError:
        recorded, _ = trace.record(WORKLOAD, workers=WORKERS, rounds=ROUNDS, every=EVERY)
        trace.save(recorded, path)
        return recorded


def main() -> int:
    """Prepare, or say in one line why not."""
    try:
        prepare()
    except GradlaneError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        print(f"error: cannot write {TRACE}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
