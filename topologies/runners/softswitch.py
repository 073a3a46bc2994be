# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Run a fabric on the embedded switch: all switches in one process, or each in its own."""

from __future__ import annotations

import importlib.util
import json
from typing import Any

from topologies.errors import FailureError
from topologies.model import QUEUES, Port, Switch
from topologies.runners.base import Runner, python

CPU_PORT = 510
_SET_QUEUE = "/gradlane.softswitch.v1.Control/SetQueue"
DEPTH_REGISTER = {"name": "queue_depth", "unit": "bytes/64"}


class SoftswitchRunner(Runner):
    """Starts `python -m softswitch --fabric FILE`, once, or once for each switch if the run is isolated."""

    target = "softswitch"
    has_kernel_queues = False

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

    def configure(self) -> None:
        """Set, on the control channel, the queues that differ from class to class."""
        for switch in self.fabric.switches:
            ports = [port for port in self.fabric.ports(switch.name) if len(set(port.queues)) > 1]
            if ports:
                self._set_queues(switch, ports)

    def _describe(self, switch: Switch) -> dict[str, Any]:
        pcaps = self.run.pcaps
        return {
            "name": switch.name,
            "device_id": switch.device_id,
            "grpc": switch.grpc_address,
            "ports": [_describe_port(port) for port in self.fabric.ports(switch.name)],
            "cpu_port": CPU_PORT,
            "queues": QUEUES,
            "depth_register": DEPTH_REGISTER,
            "pcap": None if pcaps is None else str(pcaps.resolve()),
        }

    def _set_queues(self, switch: Switch, ports: list[Port]) -> None:
        import grpc  # here, as in `Runner.wait_until_ready`

        from p4src.control import control_pb2

        with grpc.insecure_channel(switch.grpc_address, options=[("grpc.enable_http_proxy", 0)]) as channel:
            call = channel.unary_unary(_SET_QUEUE, request_serializer=control_pb2.SetQueueRequest.SerializeToString)
            for port in ports:
                for number, queue in enumerate(port.queues):
                    request = control_pb2.SetQueueRequest(
                        port=port.number, queue=number, packets=queue.packets, bytes=queue.bytes
                    )
                    try:
                        call(request, timeout=5)
                    except grpc.RpcError as error:
                        raise FailureError(
                            f"cannot set queue {number} of port {port.number} of switch {switch.name}: "
                            f"{error.details()}"
                        ) from None


def _describe_port(port: Port) -> dict[str, Any]:
    queue = port.queues[0]
    return {
        "port": port.number,
        "interface": port.interface,
        "rate": port.rate_bps or 0,
        "queue": {"packets": queue.packets, "bytes": queue.bytes},
    }
