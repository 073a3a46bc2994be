# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Run a fabric on BMv2: one `simple_switch_grpc` for each switch, with the links' rates in the kernel behind it.

BMv2 shapes in packets per second and per queue, so a link's rate is a token bucket on the interface instead: when
that is full, BMv2's one transmit thread waits and its queues fill. Queue depths are set through Thrift, in packets;
a topology's byte limits have no counterpart.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from topologies.errors import FailureError
from topologies.model import DEFAULT_FIRST_GRPC_PORT, QUEUES, Switch
from topologies.processes import environment
from topologies.runners.base import Runner, SwitchProcess

PROGRAM = "simple_switch_grpc"
THRIFT_CLIENT = "simple_switch_CLI"
FIRST_THRIFT_PORT = 9090
CPU_PORT = 510

_log = logging.getLogger(__name__)


class Bmv2Runner(Runner):
    """Starts one process for each switch."""

    target = "bmv2"
    has_kernel_queues = True

    def check(self) -> None:
        """Raise FailureError if BMv2 is not on PATH."""
        if shutil.which(PROGRAM) is None:
            raise FailureError(f"target bmv2 needs {PROGRAM} on PATH; docs/targets.md says how to get it")

    def thrift_port(self, switch: str) -> int:
        """Return the Thrift port: 9090 for the first switch, and on as the gRPC ports go."""
        first = self.fabric.switches[0].grpc_port
        return FIRST_THRIFT_PORT + max(0, first - DEFAULT_FIRST_GRPC_PORT) + self.fabric.switch(switch).device_id - 1

    def log_of(self, switch: str) -> Path:
        """Return the log of one switch: each has its own."""
        return self.run.logs / f"{switch}.log"

    def start(self) -> None:
        """Start the switches."""
        for switch in self.fabric.switches:
            self.start_one(switch)

    def start_one(self, switch: Switch) -> SwitchProcess:
        """Start one switch."""
        return self.launch([switch.name], self._command(switch), self.log_of(switch.name))

    def configure(self, switches: Sequence[Switch]) -> None:
        """Set the depth of every queue through Thrift; without BMv2's client it stays at BMv2's own 64 packets."""
        if shutil.which(THRIFT_CLIENT) is None:
            _log.warning("%s is not on PATH: BMv2's queues keep their depth of 64 packets", THRIFT_CLIENT)
            return
        clients = {switch.name: self._set_depths(switch) for switch in switches}
        for name, client in clients.items():
            try:
                output, _ = client.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                client.kill()
                raise FailureError(f"{THRIFT_CLIENT} did not answer for switch {name}") from None
            if "Could not connect" in output:
                _log.warning("switch %s has no Thrift server: its queues keep their depth of 64 packets", name)
            elif client.returncode != 0 or "Error" in output:
                reason = (output.strip().splitlines() or ["no output"])[-1]
                raise FailureError(f"cannot set the queue depths of switch {name}: {reason}")

    def _command(self, switch: Switch) -> list[str]:
        command = [PROGRAM, "--no-p4", "--device-id", str(switch.device_id), "--log-console", "--log-level", "warn"]
        for port in self.fabric.ports(switch.name):
            command += ["-i", f"{port.number}@{port.interface}"]
        if self.run.pcaps is not None:
            self.run.pcaps.mkdir(parents=True, exist_ok=True)
            command += ["--pcap", str(self.run.pcaps.resolve())]
        command += ["--thrift-port", str(self.thrift_port(switch.name))]
        return [
            *command,
            "--",
            f"--grpc-server-addr={switch.grpc_address}",
            f"--cpu-port={CPU_PORT}",
            f"--priority-queues={QUEUES}",
        ]

    def _set_depths(self, switch: Switch) -> subprocess.Popen[str]:
        commands = [
            f"set_queue_depth {queue.packets} {port.number} {number}"
            for port in self.fabric.ports(switch.name)
            for number, queue in enumerate(port.queues)
        ]
        client = subprocess.Popen(
            [THRIFT_CLIENT, "--thrift-port", str(self.thrift_port(switch.name))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(self.run.mark),
            start_new_session=True,
            text=True,
        )
        assert client.stdin is not None
        client.stdin.write("\n".join(commands) + "\n")
        client.stdin.flush()
        return client
