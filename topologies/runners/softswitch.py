# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Run a fabric on the embedded switch: all switches in one process, or each in its own."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

from topologies.errors import FailureError
from topologies.model import Port, QueueDepth, Switch
from topologies.runners.base import Runner, python

CPU_PORT = 510
DEPTH_REGISTER = {"name": "queue_depth", "unit": "bytes/64"}


class SoftswitchRunner(Runner):
    """Starts `python -m softswitch --fabric FILE`, once, or once for each switch if the run is isolated."""

    target = "softswitch"

    def check(self) -> None:
        """Raise FailureError if the softswitch is not there to be imported."""
        if importlib.util.find_spec("softswitch") is None:
            raise FailureError("the softswitch package is not installed; run `make` once to set the environment up")

    def start(self) -> None:
        """Describe the switches in a file for each process, and start the processes."""
        self.run.files.mkdir(parents=True, exist_ok=True)
        switches = self.fabric.switches
        groups: list[tuple[Switch, ...]] = [switches] if not self.run.isolated else [(switch,) for switch in switches]
        for group in groups:
            name = group[0].name if self.run.isolated else "switches"
            file = self.run.files / f"{name}.json"
            file.write_text(json.dumps({"switches": [self._describe(switch) for switch in group]}, indent=1) + "\n")
            self.launch(
                [switch.name for switch in group],
                [python(), "-m", "softswitch", "--fabric", str(file.resolve())],
                self.log_of(group[0].name),
            )

    def _describe(self, switch: Switch) -> dict[str, Any]:
        pcaps = self.run.pcaps
        return {
            "name": switch.name,
            "device_id": switch.device_id,
            "grpc": switch.grpc_address,
            "ports": [_describe_port(port) for port in self.fabric.ports(switch.name)],
            "cpu_port": CPU_PORT,
            "queues": 8,
            "program": None,
            "p4info": None,
            "depth_register": DEPTH_REGISTER,
            "pcap": None if pcaps is None else str(pcaps.resolve()),
        }


def _describe_port(port: Port) -> dict[str, Any]:
    described: dict[str, Any] = {
        "port": port.number,
        "interface": port.interface,
        "rate": port.rate_bps,
        "queue": _describe_queue(port.queues[0]),
    }
    if len(set(port.queues)) > 1:
        described["queues"] = [_describe_queue(queue) for queue in port.queues]
    return described


def _describe_queue(queue: QueueDepth) -> dict[str, int]:
    return {"packets": queue.packets, "bytes": queue.bytes}
