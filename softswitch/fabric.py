# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Many switches in one process: made from their settings, served on their gRPC ports, ended together or one by one."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from softswitch.errors import SwitchError
from softswitch.p4runtime.control import Control, PortNote
from softswitch.p4runtime.endpoint import Endpoint
from softswitch.p4runtime.server import SwitchServer
from softswitch.p4runtime.state_file import StateFile
from softswitch.p4runtime.status import StatusError
from softswitch.settings import SwitchSettings
from softswitch.switch import Switch

WORKERS = 4
STOP_GRACE_S = 0.2  # for calls in flight when one switch is stopped by its control channel


class Served:
    """One switch with its server; `stopped` is set when it has ended."""

    def __init__(self, settings: SwitchSettings, workers: ThreadPoolExecutor) -> None:
        """Make the switch and its ports; raises SwitchError and leaves nothing behind."""
        self.settings = settings
        self.stopped = asyncio.Event()
        self.switch = Switch(settings.name, settings.device_id)
        try:
            self.endpoint: Endpoint = self.switch.p4runtime
            self.control = Control(self.endpoint, self._stop_alone)
            self._configure()
            self.server = SwitchServer(self.endpoint, self.control, workers, settings.tls)
        except BaseException:
            self.switch.p4runtime.close()
            self.switch.close()
            raise
        self._stopping: asyncio.Task[None] | None = None

    def _configure(self) -> None:
        settings, switch = self.settings, self.switch
        if settings.cpu_port is not None:
            switch.set_cpu_port(settings.cpu_port)
        switch.set_drop_port(settings.drop_port)
        switch.set_queues(settings.queues)
        if settings.pcap is not None:
            try:
                Path(settings.pcap).mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise SwitchError(f"{settings.name}: {settings.pcap}: {error.strerror}") from error
        for port in settings.ports:
            switch.add_port(port.port, port.interface, port.kind)
            self.control.notes[port.port] = PortNote(port.interface)
            if port.rate:
                switch.set_rate(port.port, port.rate)
            if port.queue is not None:
                self.control.set_queue(port.port, None, port.queue)
            if settings.pcap is not None:
                self.control.start_capture(port.port, Path(settings.pcap) / f"{port.interface}.pcap")
        if settings.program:
            p4info = settings.p4info or _p4info_beside(Path(settings.program))
            try:
                switch.load(settings.program, p4info)
            except StatusError as error:
                raise SwitchError(f"{settings.name}: {p4info}: {error.message}") from error
            except OSError as error:
                raise SwitchError(f"{settings.name}: {error.filename}: {error.strerror}") from error
        if settings.state_file:
            self.endpoint.keep(StateFile(Path(settings.state_file)))
        if settings.depth_register:
            self.endpoint.set_depth_register(settings.depth_register)

    async def start(self) -> None:
        """Move packets and answer calls."""
        self.switch.start()
        await self.server.start(self.settings.grpc)

    def _stop_alone(self) -> None:
        if self._stopping is None:
            self._stopping = asyncio.ensure_future(self.stop(STOP_GRACE_S))

    async def stop(self, grace: float | None = None) -> None:
        """End the server, the ports and the switch."""
        if self.stopped.is_set():
            return
        await self.server.stop(grace)
        if not self.stopped.is_set():
            self.stopped.set()
            self.endpoint.close()
            self.switch.close()


def _p4info_beside(program: Path) -> Path | None:
    """Return the P4Info that p4c wrote beside a program, if there is one."""
    names = (program.with_suffix(suffix) for suffix in (".p4info.txtpb", ".p4info.txt"))
    return next((path for path in names if path.exists()), None)


async def serve(switches: Sequence[SwitchSettings], ready: Callable[[list[Served]], None]) -> None:
    """Run switches until all are stopped or the process gets SIGTERM or SIGINT; raises SwitchError.

    `ready` is called once every gRPC port answers.
    """
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="p4runtime")
    served: list[Served] = []
    try:
        for settings in switches:
            served.append(Served(settings, workers))
            await asyncio.sleep(0)  # a signal may end a long start
            if ended.is_set():
                return
        await asyncio.gather(*(each.start() for each in served))
        ready(served)
        waiting = [asyncio.ensure_future(ended.wait()), asyncio.ensure_future(_all_stopped(served))]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
    finally:
        await asyncio.gather(*(each.stop() for each in served))
        workers.shutdown()


async def _all_stopped(served: Sequence[Served]) -> None:
    for each in served:
        await each.stopped.wait()
