# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Rates from two looks at a fabric: one packed message a switch a look, over connections that stay open."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any

from controller.control import ControlChannel
from controller.fleet import on_each
from controller.p4rt.client import Connection
from controller.reconcile import Controller
from controller.telemetry import PortSample, SwitchSample, program_counts, sample, sample_of_counts
from topologies.errors import FailureError


@dataclass(frozen=True)
class PortRateView:
    """What one port did between two looks, and how its queues stand at the second."""

    switch: str
    port: int
    neighbour: str
    up: bool
    bits_per_s: float
    packets_per_s: float
    load: float | None
    queued_bytes: int
    deepest_class: int | None
    lost_per_s: float


@dataclass(frozen=True)
class Look:
    """All ports of the fabric since the look before, and the switches that did not answer."""

    ports: list[PortRateView]
    errors: dict[str, str]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {"ports": [asdict(port) for port in self.ports], "errors": self.errors}


class Meter:
    """Looks at every switch of a fabric again and again. Use it as a context manager."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._connections: dict[str, Connection] = {}
        self._before: dict[str, SwitchSample] = {}

    def __enter__(self) -> Meter:
        self._connections = {name: self._controller.connect(name) for name in self._controller.names()}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections.values():
            connection.close()

    def look(self) -> Look:
        """Look once. Rates are since the look before; the first look has none to give."""
        results = on_each(self._connections, self._sample)
        ports: list[PortRateView] = []
        for name, after in results.items():
            if not isinstance(after, SwitchSample):
                continue
            before = self._before.get(name)
            if before is not None and after.time_ns > before.time_ns:
                seconds = (after.time_ns - before.time_ns) / 1e9
                former = {port.port: port for port in before.ports}
                ports += [_rates(former[port.port], port, seconds) for port in after.ports if port.port in former]
            self._before[name] = after
        errors = {name: str(result) for name, result in results.items() if isinstance(result, FailureError)}
        return Look(ports, errors)

    def _sample(self, name: str) -> SwitchSample:
        connection = self._connections[name]
        fabric = self._controller.running.fabric
        if self._controller.targets == "softswitch":
            return sample(fabric, name, ControlChannel(connection))
        return sample_of_counts(fabric, program_counts(connection, self._controller.program.pipeline))


def _rates(before: PortSample, after: PortSample, seconds: float) -> PortRateView:
    bits = (after.tx_bytes - before.tx_bytes) * 8 / seconds
    deepest = max(after.queues, key=lambda queue: queue.depth_bytes)
    lost = _lost(after) - _lost(before)
    return PortRateView(
        switch=after.switch,
        port=after.port,
        neighbour=after.neighbour,
        up=after.up,
        bits_per_s=max(0.0, bits),
        packets_per_s=max(0.0, (after.tx_packets - before.tx_packets) / seconds),
        load=max(0.0, bits) / after.rate_bps if after.rate_bps else None,
        queued_bytes=sum(queue.depth_bytes for queue in after.queues),
        deepest_class=deepest.class_ if deepest.depth_bytes else None,
        lost_per_s=max(0.0, lost / seconds),
    )


def _lost(port: PortSample) -> int:
    return port.dropped + sum(queue.tail_drops for queue in port.queues)
