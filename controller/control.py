# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The embedded switch's control channel, as a client: queues, rates, port states and packed telemetry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import grpc

from controller.compiler import PortRate, QueueLimit
from controller.device import PortSettings
from controller.p4rt.client import Connection
from controller.quantities import CLASSES
from p4src.control import control_pb2

_SERVICE: Final = "/gradlane.softswitch.v1.Control/"
DEPTH_REGISTER: Final = "queue_depth"
DEPTH_UNIT: Final = "bytes/64"


class ControlChannel:
    """The control channel of one switch, on the gRPC channel of its P4Runtime connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._watch: grpc.Call | None = None

    def close(self) -> None:
        """Nothing to let go of: the connection owns the channel."""

    def read(self) -> PortSettings:
        """Return the limits of every queue and the rate of every port."""
        ports = self._call("GetPorts", control_pb2.GetPortsRequest(), control_pb2.GetPortsResponse).ports
        return PortSettings(
            queues={
                (port.port, queue.queue): QueueLimit(port.port, queue.queue, queue.packets, queue.bytes)
                for port in ports
                for queue in port.queues[:CLASSES]
            },
            rates={port.port: PortRate(port.port, port.rate) for port in ports},
        )

    def write(self, queues: Sequence[QueueLimit], rates: Sequence[PortRate]) -> None:
        """Set the limits of some queues and the rates of some ports."""
        for limit in queues:
            queue = control_pb2.SetQueueRequest(
                port=limit.port, queue=limit.class_, packets=limit.packets, bytes=limit.bytes
            )
            self._call("SetQueue", queue, control_pb2.SetQueueResponse)
        for rate in rates:
            port = control_pb2.SetPortRateRequest(port=rate.port, rate=rate.bits_per_second)
            self._call("SetPortRate", port, control_pb2.SetPortRateResponse)

    def program_loaded(self) -> None:
        """Let a new program's depth register read as the queues' depth, in the unit that judgement is compiled for."""
        request = control_pb2.SetDepthUnitRequest(register=DEPTH_REGISTER, unit=DEPTH_UNIT)
        self._call("SetDepthUnit", request, control_pb2.SetDepthUnitResponse)

    def telemetry(self, counters: Sequence[str] = ()) -> control_pb2.TelemetryResponse:
        """Return all ports' counts, the drops and some of the program's counters, packed (p4src.control.telemetry)."""
        answer: control_pb2.TelemetryResponse = self._call(
            "Telemetry", control_pb2.TelemetryRequest(counters=counters), control_pb2.TelemetryResponse
        )
        return answer

    def watch_ports(self) -> Iterator[tuple[int, bool]]:
        """Yield (port, up) for every port at first, then for each change, until the switch ends or `stop_watching`."""
        call = self._connection.channel.unary_stream(
            f"{_SERVICE}WatchPorts",
            request_serializer=control_pb2.WatchPortsRequest.SerializeToString,
            response_deserializer=control_pb2.PortState.FromString,
        )
        self._watch = call(control_pb2.WatchPortsRequest())
        try:
            for state in self._watch:
                yield state.port, state.up
        except grpc.RpcError as error:
            raise self._connection.failure(error) from None

    def stop_watching(self) -> None:
        """End `watch_ports`, which fails; from any thread."""
        if self._watch is not None:
            self._watch.cancel()

    def _call(self, method: str, request: Any, response: Any) -> Any:
        call = self._connection.channel.unary_unary(
            f"{_SERVICE}{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=response.FromString,
        )
        try:
            return call(request, timeout=self._connection.deadline)
        except grpc.RpcError as error:
            raise self._connection.failure(error) from None
