# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A fabric of embedded switches inside the test process: real P4Runtime servers, virtual ports, no root.

Switches move packets only when a test injects them, so that a test decides what is counted.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from controller.reconcile import Controller
from softswitch.fabric import Served
from softswitch.settings import DepthRegister, PortSettings, SwitchSettings
from softswitch.switch import Switch
from topologies import state as fabric_state
from topologies.model import Fabric
from topologies.processes import ProcessId
from topologies.state import RunningFabric, SwitchState

DEADLINE_S = 60.0


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()


class SoftswitchFabric:
    """Use it as a context manager; `controller` finds it by its state file as `gradctl` does."""

    def __init__(self, fabric: Fabric, folder: Path) -> None:
        ports = free_ports(len(fabric.switches))
        switches = tuple(replace(switch, grpc_port=port) for switch, port in zip(fabric.switches, ports, strict=True))
        self.fabric = replace(fabric, switches=switches)
        self.state_file = folder / "fabric.json"
        self._served: dict[str, Served] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._workers = ThreadPoolExecutor(2)

    def __enter__(self) -> SoftswitchFabric:
        self._thread.start()
        for switch in self.fabric.switches:
            self.start(switch.name)
        running = RunningFabric(
            run=fabric_state.new_run(),
            fabric=self.fabric,
            target="softswitch",
            isolated=False,
            owner=ProcessId(1, 0),
            switches={
                switch.name: SwitchState(switch.name, switch.device_id, switch.grpc_address, None, None, "")
                for switch in self.fabric.switches
            },
        )
        fabric_state.save(running, self.state_file)
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._served):
            self.stop(name)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()
        self._workers.shutdown()

    def controller(self) -> Controller:
        return Controller.find(self.state_file, deadline=DEADLINE_S)

    def switch(self, name: str) -> Switch:
        return self._served[name].switch

    def set_link(self, a: str, b: str, *, up: bool) -> None:
        """Let a link fall or rise, at both ends."""
        for node, other in ((a, b), (b, a)):
            self._served[node].switch.set_port_up(self.fabric.port_of(node, other), up)

    def start(self, name: str) -> None:
        """Start one switch, empty."""
        switch = self.fabric.switch(name)
        settings = SwitchSettings(
            name=name,
            device_id=switch.device_id,
            grpc=switch.grpc_address,
            ports=tuple(
                PortSettings(port.number, port.interface, port.rate_bps or 0, kind="virtual")
                for port in self.fabric.ports(name)
            ),
            cpu_port=510,
            depth_register=DepthRegister("queue_depth", "bytes/64"),
        )

        async def begin() -> Served:
            served = Served(settings, self._workers)
            await served.server.start(settings.grpc)
            return served

        self._served[name] = asyncio.run_coroutine_threadsafe(begin(), self._loop).result(DEADLINE_S)

    def stop(self, name: str) -> None:
        """End one switch, as if its process had died."""
        asyncio.run_coroutine_threadsafe(self._served.pop(name).stop(), self._loop).result(DEADLINE_S)
