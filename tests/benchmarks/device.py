# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What is measured, as a process of its own: `python -m tests.benchmarks.device ENGINE PROGRAM A B CORE`.

It forwards from interface A (port 1) to B (port 2) and back until its standard input ends.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading

from softswitch.switch import Switch
from tests.benchmarks.bmv2 import bmv2
from tests.benchmarks.native import bench
from tests.benchmarks.programs import PROGRAMS


def main(engine: str, program: str, a: str, b: str, core: str) -> None:
    """Run the engine on a core, every engine at the priority that the switch takes."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)
        os.sched_setaffinity(0, {int(core)})
    pid = os.getpid()
    with contextlib.ExitStack() as stack:
        match engine.partition(":"):
            case "raw", _, kind:
                forward = bench().forward_xdp if kind == "xdp" else bench().forward_packet
                threading.Thread(target=lambda: forward(a.encode(), b.encode()), daemon=True).start()
                stack.callback(os._exit, 0)  # the thread never returns
            case "softswitch", _, kind:
                switch = stack.enter_context(Switch())
                PROGRAMS[program].install(switch)
                switch.add_port(1, a, kind or "auto")
                switch.add_port(2, b, kind or "auto")
                switch.start()
            case "bmv2", _, _:
                pid = stack.enter_context(bmv2(PROGRAMS[program], a, b))
            case _:
                raise SystemExit(f"no engine {engine}")
        print("ready", pid, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:6])
