# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What happens to the links and switches of a running fabric, as events.

Softswitches tell of their ports themselves, wherever they run. For other targets the kernel tells of the interfaces of
this network namespace, and a lost connection of a switch that died.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, TypeAlias

import grpc

from controller.control import ControlChannel
from controller.p4rt.client import Connection
from topologies.errors import FailureError
from topologies.links import LinkChange, LinkWatcher
from topologies.model import Fabric

RETRY_S: Final = 0.1

Links: TypeAlias = frozenset[frozenset[str]]


@dataclass(frozen=True)
class LinksFailed:
    """All links that carry nothing now, each as its two ends."""

    links: Links


@dataclass(frozen=True)
class SwitchAnswers:
    """A switch answers, or does not. `again`: the connection was lost meanwhile, and maybe what the switch held."""

    name: str
    answers: bool
    again: bool = False


Event: TypeAlias = LinksFailed | SwitchAnswers


class PortWatch:
    """Follows the port states that each softswitch streams. Use it as a context manager."""

    def __init__(self, fabric: Fabric, connections: Iterable[Connection], put: Callable[[Event], None]) -> None:
        self._fabric = fabric
        self._put = put
        self._down: dict[str, set[int]] = {}
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._channels = [(connection.name, ControlChannel(connection)) for connection in connections]
        self._threads = [
            threading.Thread(target=self._follow, args=each, name=f"{each[0]}-ports", daemon=True)
            for each in self._channels
        ]

    def __enter__(self) -> PortWatch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.set()
        for thread, (_, channel) in zip(self._threads, self._channels, strict=True):
            while thread.is_alive():
                channel.stop_watching()
                thread.join(RETRY_S)

    def _follow(self, name: str, channel: ControlChannel) -> None:
        answered = False
        while not self._ending.is_set():
            fresh = True
            try:
                for port, up in channel.watch_ports():
                    if fresh:
                        self._put(SwitchAnswers(name, answers=True, again=answered))
                        self._note(name, None)
                        answered, fresh = True, False
                    self._note(name, (port, up))
            except FailureError:
                pass
            if not self._ending.is_set():
                self._put(SwitchAnswers(name, answers=False))
                self._ending.wait(RETRY_S)

    def _note(self, name: str, change: tuple[int, bool] | None) -> None:
        """Note a port's state; None: the switch begins to tell anew."""
        with self._lock:
            down = self._down.setdefault(name, set())
            before = set(down)
            if change is None:
                down.clear()
            elif change[1]:
                down.discard(change[0])
            else:
                down.add(change[0])
            if down == before:
                return
            links = frozenset(
                self._fabric.link(switch, port.peer.node).ends
                for switch, numbers in self._down.items()
                for port in self._fabric.ports(switch)
                if port.number in numbers
            )
            self._put(LinksFailed(links))


class KernelWatch:
    """Follows the interfaces of this network namespace, and the connections to the switches."""

    def __init__(self, fabric: Fabric, connections: Iterable[Connection], put: Callable[[Event], None]) -> None:
        self._put = put
        self._connections = list(connections)
        self._links = LinkWatcher(fabric, self._links_changed)
        self._stack = ExitStack()

    def __enter__(self) -> KernelWatch:
        for connection in self._connections:
            connection.channel.subscribe(self._connectivity_of(connection.name), try_to_connect=True)
        self._stack.enter_context(self._links)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _links_changed(self, _: list[LinkChange], failed: Links) -> None:
        self._put(LinksFailed(failed))

    def _connectivity_of(self, name: str) -> Callable[[grpc.ChannelConnectivity], None]:
        was_ready = False

        def changed(state: grpc.ChannelConnectivity) -> None:
            nonlocal was_ready
            if state is grpc.ChannelConnectivity.READY:
                self._put(SwitchAnswers(name, answers=True, again=was_ready))
                was_ready = True
            elif state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
                self._put(SwitchAnswers(name, answers=False))

        return changed
