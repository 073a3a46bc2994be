# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""BMv2's queue depths through its Thrift command line, since P4Runtime cannot express them nor BMv2 tell them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from typing import Final

from controller.compiler import PortRate, QueueLimit
from controller.device import PortSettings
from controller.p4rt.errors import SwitchFailure

CLIENT: Final = "simple_switch_CLI"
CLIENT_DEADLINE_S: Final = 30.0  # a Python program that loads the whole of Thrift, one for each switch at a time
MISSING: Final = f"{CLIENT} is not on PATH: BMv2's queue depths stay as they are"


class ThriftChannel:
    """The queue depths of one BMv2 switch. What it was given last stands in for what it cannot tell."""

    def __init__(self, name: str, thrift_port: int, given: tuple[QueueLimit, ...], deadline: float) -> None:
        self._name = name
        self._port = thrift_port
        self._queues = {(limit.port, limit.class_): limit for limit in given}
        self._deadline = max(deadline, CLIENT_DEADLINE_S)

    def close(self) -> None:
        """Nothing to let go of: every command is a process of its own."""

    def read(self) -> PortSettings:
        """Return what the switch was given last."""
        return PortSettings(queues=dict(self._queues))

    def write(self, queues: Sequence[QueueLimit], rates: Sequence[PortRate]) -> None:
        """Set the depths of some queues, in packets. Rates the runner has put into the kernel: none are compiled."""
        self._queues.update({(limit.port, limit.class_): limit for limit in queues})
        if not queues or shutil.which(CLIENT) is None:
            return
        commands = [f"set_queue_depth {limit.packets} {limit.port} {limit.class_}\n" for limit in queues]
        try:
            done = subprocess.run(
                [CLIENT, "--thrift-port", str(self._port)],
                input="".join(commands),
                capture_output=True,
                text=True,
                timeout=self._deadline,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SwitchFailure(self._name, f"{CLIENT} had no answer within {self._deadline:g} s") from None
        if done.returncode != 0 or "Error" in done.stdout:
            lines = (done.stdout + done.stderr).strip().splitlines()
            raise SwitchFailure(self._name, f"{CLIENT} refused a queue depth: {lines[-1] if lines else 'no output'}")

    def program_loaded(self) -> None:
        """Do nothing: the program itself keeps the depth register."""
