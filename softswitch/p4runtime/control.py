# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The control channel of one switch (p4src/control/control.proto): traffic manager, ports, telemetry, captures."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from p4src.control import control_pb2 as messages
from p4src.control.telemetry import CELL, LAYOUT
from softswitch.errors import PortError, SwitchError
from softswitch.native import engine
from softswitch.p4runtime.endpoint import Endpoint
from softswitch.p4runtime.native import ffi, p4runtime
from softswitch.settings import DepthRegister, QueueSettings
from softswitch.switch import CLASSES, depth_shift

SERVICE = "gradlane.softswitch.v1.Control"
PORTS = 512
DEFAULT_QUEUE = QueueSettings(packets=256)  # the engine's, until it is told otherwise


@dataclass
class PortNote:
    """What a port was told, for those who ask."""

    interface: str = ""
    queues: list[QueueSettings] = field(default_factory=lambda: [DEFAULT_QUEUE] * CLASSES)
    capture: str = ""


class Control:
    """Serve the control channel; `stop` ends this switch."""

    def __init__(self, endpoint: Endpoint, stop: Callable[[], None]) -> None:
        self.endpoint = endpoint
        self.notes: dict[int, PortNote] = {}
        self._switch = endpoint.switch
        self._stop = stop
        self._watchers: set[asyncio.Queue[tuple[int, bool] | None]] = set()
        endpoint.port_watchers.append(self._port_changed)

    def close(self) -> None:
        """End the streams of port changes."""
        if self._port_changed in self.endpoint.port_watchers:
            self.endpoint.port_watchers.remove(self._port_changed)
        for watcher in self._watchers:
            watcher.put_nowait(None)

    def handler(self) -> Any:
        """Return the service for a gRPC server."""
        calls = {
            "GetSwitch": self._get_switch,
            "GetPorts": self._get_ports,
            "SetPortRate": self._set_port_rate,
            "SetQueue": self._set_queue,
            "SetPortUp": self._set_port_up,
            "SetDepthUnit": self._set_depth_unit,
            "Telemetry": self._telemetry,
            "GetDrops": self._get_drops,
            "StartCapture": self._start_capture,
            "StopCapture": self._stop_capture,
            "Stop": self._stop_soon,
        }
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                self._guard(call),
                request_deserializer=getattr(messages, f"{name}Request").FromString,
                response_serializer=getattr(messages, f"{name}Response").SerializeToString,
            )
            for name, call in calls.items()
        }
        handlers["WatchPorts"] = grpc.unary_stream_rpc_method_handler(
            self._watch_ports,
            request_deserializer=messages.WatchPortsRequest.FromString,
            response_serializer=messages.PortState.SerializeToString,
        )
        return grpc.method_handlers_generic_handler(SERVICE, handlers)

    def _guard(self, call: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
        async def serve(request: Any, context: Any) -> Any:
            try:
                return call(request)
            except PortError as error:
                await context.abort(grpc.StatusCode.NOT_FOUND, str(error))
            except SwitchError as error:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))

        return serve

    def _need(self, port: int) -> PortNote:
        if port >= PORTS or self._switch.port_kind(port) is None:
            raise PortError(f"{self._switch.name} has no port {port}")
        return self.notes.setdefault(port, PortNote())

    def _present(self) -> list[int]:
        ports = ffi().new("uint32_t[]", PORTS)
        return list(ports[0 : p4runtime().ss_control_ports(self._switch.handle, ports)])

    # Calls, named as in the service.

    def _get_switch(self, _: Any) -> Any:
        return messages.GetSwitchResponse(
            name=self._switch.name,
            device_id=self._switch.device_id,
            process=os.getpid(),
            has_pipeline=self.endpoint.has_pipeline,
        )

    def _get_ports(self, _: Any) -> Any:
        response = messages.GetPortsResponse()
        for number in self._present():
            note, stats = self._need(number), self._switch.stats(number)
            port = response.ports.add(
                port=number,
                up=stats.up,
                kind=self._switch.port_kind(number) or "",
                interface=note.interface,
                rate=stats.rate,
                capture=note.capture,
            )
            for queue, settings in enumerate(note.queues):
                port.queues.add(queue=queue, packets=settings.packets, bytes=settings.bytes)
        return response

    def _set_port_rate(self, request: Any) -> Any:
        self._need(request.port)
        overhead = request.overhead if request.HasField("overhead") else None
        self._switch.set_rate(request.port, request.rate, overhead=overhead)
        return messages.SetPortRateResponse()

    def _set_queue(self, request: Any) -> Any:
        queue = request.queue if request.HasField("queue") else None
        self.set_queue(request.port, queue, QueueSettings(request.packets, request.bytes))
        return messages.SetQueueResponse()

    def set_queue(self, port: int, queue: int | None, settings: QueueSettings) -> None:
        """Limit a queue (None: all of the port's) and note it."""
        note = self._need(port)
        if queue is not None and queue >= CLASSES:
            raise SwitchError(f"queue {queue} is not in 0..{CLASSES - 1}")
        self._switch.set_queue(port, queue, packets=settings.packets, bytes=settings.bytes)
        for each in range(CLASSES) if queue is None else (queue,):
            note.queues[each] = replace(settings)

    def _set_port_up(self, request: Any) -> Any:
        self._need(request.port)
        self._switch.set_port_up(request.port, request.up)
        return messages.SetPortUpResponse()

    def _set_depth_unit(self, request: Any) -> Any:
        shift = depth_shift(request.unit)
        if request.register:
            self.endpoint.set_depth_register(DepthRegister(request.register, request.unit))
        else:
            self._switch.set_depth_unit(shift)
        return messages.SetDepthUnitResponse()

    def _telemetry(self, request: Any) -> Any:
        types, handle, ports = ffi(), self._switch.handle, self._present()
        records, drops = types.new("struct ss_control_record[]", len(ports)), types.new("struct ss_drop_stats *")
        filled = p4runtime().ss_control_telemetry(handle, ports, len(ports), records)
        engine().ss_drop_stats(handle, drops)
        response = messages.TelemetryResponse(
            time_ns=self._switch.now,
            layout=LAYOUT,
            ports=types.buffer(records, filled * types.sizeof("struct ss_control_record"))[:],
            drops=types.buffer(drops)[:],
        )
        for name, cells in self._counters(set(request.counters)):
            response.counters.add(counter=name, cells=cells)
        return response

    def _counters(self, wanted: set[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the cells that have counted of the program's counters in `wanted`, packed."""
        if not wanted or not self.endpoint.has_pipeline:
            return
        types = ffi()
        with self._switch.locked():
            objects = self._switch.objects
            for counter in objects.counters[0 : objects.counter_count]:
                name = types.string(counter.name).decode().rpartition(".")[2]
                if name in wanted:
                    counts = np.frombuffer(types.buffer(counter.cells, counter.size * 16), np.uint64).reshape(-1, 2)
                    index = np.flatnonzero(counts[:, 0])
                    cells = np.empty(len(index), CELL)
                    cells["index"], cells["packets"], cells["bytes"] = index, counts[index, 0], counts[index, 1]
                    yield name, cells.tobytes()

    def _get_drops(self, _: Any) -> Any:
        account = self._switch.account()
        response = messages.GetDropsResponse(
            received=account.received,
            copied=account.copied,
            sent=account.sent,
            dropped=account.dropped,
            queued=account.queued,
        )
        for cause, count in self._switch.drops().items():
            response.drops.add(cause=cause, packets=count)
        return response

    def _start_capture(self, request: Any) -> Any:
        self.start_capture(request.port, Path(request.path))
        return messages.StartCaptureResponse()

    def start_capture(self, port: int, path: Path) -> None:
        """Record a port's frames, and note where."""
        note = self._need(port)
        if not path.name:
            raise SwitchError("the capture needs a path")
        self._switch.capture(port, path)
        note.capture = str(path)

    def _stop_capture(self, request: Any) -> Any:
        self._need(request.port).capture = ""
        self._switch.capture(request.port, None)
        return messages.StopCaptureResponse()

    def _stop_soon(self, _: Any) -> Any:
        asyncio.get_running_loop().call_soon(self._stop)
        return messages.StopResponse()

    # Port changes.

    def _port_changed(self, port: int, up: bool) -> None:
        for watcher in self._watchers:
            watcher.put_nowait((port, up))

    async def _watch_ports(self, _: Any, context: Any) -> AsyncIterator[Any]:
        changes: asyncio.Queue[tuple[int, bool] | None] = asyncio.Queue()
        self._watchers.add(changes)
        try:
            for port in self._present():
                yield messages.PortState(port=port, up=self._switch.port_up(port))
            while (change := await changes.get()) is not None:
                yield messages.PortState(port=change[0], up=change[1])
        finally:
            self._watchers.discard(changes)
