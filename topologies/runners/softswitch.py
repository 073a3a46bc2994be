# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Run a fabric on the embedded switch: all switches in one process, or each in its own."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from p4src.control import control_pb2
from topologies.errors import FailureError
from topologies.model import QUEUES, Port, Switch
from topologies.runners.base import Runner, SwitchProcess, python

CPU_PORT = 510
CALL_SECONDS, STOP_SECONDS = 5.0, 10.0
_CONTROL = "/gradlane.softswitch.v1.Control/"
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
        if self.run.isolated:
            for switch in self.fabric.switches:
                self.start_one(switch)
        else:
            self._start(self.fabric.switches, "switches")

    def start_one(self, switch: Switch) -> SwitchProcess:
        """Start one switch in a process of its own."""
        return self._start([switch], switch.name)

    def stop_one(self, switch: Switch) -> None:
        """End one switch; others of its process go on."""
        process = self.process_of(switch.name)
        if process is None or len(process.switches) == 1:
            super().stop_one(switch)
            return
        with self._control(switch) as call:
            call("Stop", control_pb2.StopRequest())
        self.wait_until_closed(switch, STOP_SECONDS)
        process.switches = tuple(name for name in process.switches if name != switch.name)

    def configure(self, switches: Sequence[Switch]) -> None:
        """Set, on the control channel, the queues that differ from class to class."""
        for switch in switches:
            ports = [port for port in self.fabric.ports(switch.name) if len(set(port.queues)) > 1]
            if not ports:
                continue
            with self._control(switch) as call:
                for port in ports:
                    for number, queue in enumerate(port.queues):
                        call(
                            "SetQueue",
                            control_pb2.SetQueueRequest(
                                port=port.number, queue=number, packets=queue.packets, bytes=queue.bytes
                            ),
                        )

    def _start(self, switches: Sequence[Switch], name: str) -> SwitchProcess:
        self.run.files.mkdir(parents=True, exist_ok=True)
        file = self.run.files / f"{name}.json"
        file.write_text(json.dumps({"switches": [self._describe(switch) for switch in switches]}, indent=1) + "\n")
        log = self.run.logs / f"{self.target if name == 'switches' else name}.log"
        command = [python(), "-m", "softswitch", "--fabric", str(file.resolve())]
        return self.launch([switch.name for switch in switches], command, log)

    @contextmanager
    def _control(self, switch: Switch) -> Iterator[Callable[[str, Any], None]]:
        """Yield a function that calls a method of the switch's control channel; FailureError if it is refused."""
        import grpc  # here, as in `Runner.wait_until_ready`

        with grpc.insecure_channel(switch.grpc_address, options=[("grpc.enable_http_proxy", 0)]) as channel:

            def call(method: str, request: Any) -> None:
                try:
                    channel.unary_unary(_CONTROL + method)(request.SerializeToString(), timeout=CALL_SECONDS)
                except grpc.RpcError as error:
                    raise FailureError(f"switch {switch.name} refuses {method}: {error.details()}") from None

            yield call

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


def _describe_port(port: Port) -> dict[str, Any]:
    queue = port.queues[0]
    return {
        "port": port.number,
        "interface": port.interface,
        "rate": port.rate_bps or 0,
        "queue": {"packets": queue.packets, "bytes": queue.bytes},
    }
