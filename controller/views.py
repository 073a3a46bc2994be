# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a person asks of one switch: its queues, its drops, and how it split packets over paths. Any target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from controller.control import ControlChannel
from controller.device import Device
from controller.quantities import CLASSES
from controller.reconcile import Controller
from controller.telemetry import (
    REASONS,
    Counts,
    ProgramCounts,
    SwitchSample,
    delay_quantile_us,
    program_counts,
    sample,
)
from topologies.model import Port
from topologies.routes import next_hops

# What the switch's own account names and the program or the queues have counted already.
_COUNTED_ELSEWHERE = ("ingress_drop", "tail_drop")


@dataclass(frozen=True)
class QueueView:
    """One queue. Depths and the limit are bytes on the softswitch; BMv2 tells none, and limits packets."""

    switch: str
    port: int
    neighbour: str
    class_: int
    depth: int | None
    deepest: int | None
    limit: int | None
    sent_packets: int
    tail_drops: int | None
    p50_us: float | None
    p99_us: float | None


@dataclass(frozen=True)
class Drop:
    """Packets that a switch dropped for one reason; port, class and bands are None where there are none to tell."""

    switch: str
    port: int | None
    neighbour: str | None
    class_: int | None
    reason: str
    packets: int
    by_band: tuple[int, ...] | None


@dataclass(frozen=True)
class PathShare:
    """What one next hop got of all that a switch sent to equal next hops, of one class or (None) of all.

    Counters tell of ports, so where `mixed` is true, as on a ring, the packets of destinations with one next hop only
    are in it as well, and the share says nothing of the path choice alone.
    """

    switch: str
    neighbour: str
    class_: int | None
    packets: int
    share: float
    mixed: bool


def queues(controller: Controller, name: str) -> list[QueueView]:
    """Return every queue of a switch. Raises FailureError if it does not answer."""
    fabric = controller.running.fabric
    current = controller.history.current()
    former = controller.compile(current.policy)[name] if current else None
    with controller.device(name, former) as device:
        limits = device.settings.read().queues if device.settings else {}
        if isinstance(device.settings, ControlChannel):
            samples = {port.port: port.queues for port in sample(fabric, name, device.settings).ports}
            return [
                QueueView(
                    switch=name,
                    port=port.number,
                    neighbour=port.peer.node,
                    class_=queue.class_,
                    depth=queue.depth_bytes,
                    deepest=queue.max_depth_bytes,
                    limit=limits[port.number, queue.class_].bytes if (port.number, queue.class_) in limits else None,
                    sent_packets=queue.sent_packets,
                    tail_drops=queue.tail_drops,
                    p50_us=delay_quantile_us(queue.delays, 0.5),
                    p99_us=delay_quantile_us(queue.delays, 0.99),
                )
                for port in fabric.ports(name)
                for queue in samples.get(port.number, ())
            ]
        counts = _program_counts(device)
    passed = counts.kept + counts.marked + counts.trimmed
    return [
        QueueView(
            switch=name,
            port=port.number,
            neighbour=port.peer.node,
            class_=class_,
            depth=None,
            deepest=None,
            limit=limits[port.number, class_].packets if (port.number, class_) in limits else None,
            sent_packets=int(passed[port.index, class_]),
            tail_drops=None,
            p50_us=delay_quantile_us(counts.delays[port.index, class_], 0.5),
            p99_us=delay_quantile_us(counts.delays[port.index, class_], 0.99),
        )
        for port in fabric.ports(name)
        for class_ in range(CLASSES)
    ]


def drops(controller: Controller, name: str) -> list[Drop]:
    """Return what a switch dropped: by the program, at full queues, and for any other cause."""
    ports = controller.running.fabric.ports(name)
    with controller.device(name) as device:
        found = list(_judged(name, ports, _program_counts(device).dropped))
        if isinstance(device.settings, ControlChannel):
            found += _lost(sample(controller.running.fabric, name, device.settings))
    return found


def paths(controller: Controller, name: str, by_class: bool = False) -> list[PathShare]:
    """Return how a switch split packets over equal next hops; nothing for a switch that had no choice or no packets."""
    fabric = controller.running.fabric
    hops_by_host = next_hops(fabric)[name].values()
    numbers = sorted({port for hops in hops_by_host if len(hops) > 1 for port in hops})
    if not numbers:
        return []
    mixed = any(len(hops) == 1 and hops[0] in numbers for hops in hops_by_host)
    with controller.device(name) as device:
        counts = _program_counts(device)
    ports = [fabric.port(name, number) for number in numbers]
    passed = (counts.kept + counts.marked + counts.trimmed)[[port.index for port in ports]]
    shares: list[PathShare] = []
    for class_ in range(CLASSES) if by_class else (None,):
        sent = passed.sum(axis=1) if class_ is None else passed[:, class_]
        if total := int(sent.sum()):
            shares += [
                PathShare(name, port.peer.node, class_, int(packets), int(packets) / total, mixed)
                for port, packets in zip(ports, sent, strict=True)
            ]
    return shares


def _program_counts(device: Device) -> ProgramCounts:
    device.need_program()
    return program_counts(device.connection, device.program.pipeline)


def _judged(name: str, ports: tuple[Port, ...], dropped: Counts) -> Iterator[Drop]:
    for index, class_, reason in np.argwhere(dropped.sum(axis=3)):
        port = ports[index] if index < len(ports) else None
        bands = tuple(int(packets) for packets in dropped[index, class_, reason])
        yield Drop(
            switch=name,
            port=port.number if port else None,
            neighbour=port.peer.node if port else None,
            class_=int(class_),
            reason=REASONS[reason],
            packets=sum(bands),
            by_band=bands,
        )


def _lost(switch: SwitchSample) -> Iterator[Drop]:
    for port in switch.ports:
        for queue in port.queues:
            if queue.tail_drops:
                yield Drop(
                    switch.switch, port.port, port.neighbour, queue.class_, "tail", queue.tail_drops, by_band=None
                )
    for cause, packets in switch.lost.items():
        if packets and cause not in _COUNTED_ELSEWHERE:
            yield Drop(switch.switch, None, None, None, cause, packets, by_band=None)
