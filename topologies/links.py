# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Notice links that go down or come up, from the kernel's own messages, so that somebody can route around them."""

from __future__ import annotations

import errno
import logging
import os
import select
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from pyroute2.netlink.rtnl import RTMGRP_LINK

from topologies import kernel
from topologies.model import Fabric, Link

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LinkChange:
    """A link that went down or came up."""

    link: Link
    up: bool


# Called from the watcher's thread with what changed and all links that are down now, as `next_hops` takes them.
Rerouting = Callable[[list[LinkChange], frozenset[frozenset[str]]], None]


class LinkWatcher:
    """Watches the links of a running fabric in this network namespace.

    A link is up while the interfaces of all its ends at switches are up and have a carrier. `changed` is called once
    for each burst of changes, and once at the start if links are down already; what it raises is logged, and the
    watch goes on. Use it as a context manager.
    """

    def __init__(self, fabric: Fabric, changed: Rerouting) -> None:
        self._changed = changed
        self._interfaces = {
            link: [fabric.interface(end.node, end.port) for end in (link.a, link.b) if not fabric.is_host(end.node)]
            for link in fabric.links
        }
        self._failed: frozenset[frozenset[str]] = frozenset()
        self._thread = threading.Thread(target=self._watch, name="link watcher", daemon=True)
        self._messages = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.NETLINK_ROUTE)
        self._messages.bind((0, RTMGRP_LINK))
        self._wake = os.eventfd(0)

    @property
    def failed(self) -> frozenset[frozenset[str]]:
        """The links that are down, each as its two ends."""
        return self._failed

    def __enter__(self) -> LinkWatcher:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._messages.close()
        os.close(self._wake)

    def _watch(self) -> None:
        poller = select.poll()
        poller.register(self._messages, select.POLLIN)
        poller.register(self._wake, select.POLLIN)
        while True:
            ready = {descriptor for descriptor, _ in poller.poll()}
            if self._wake in ready:
                return
            self._drain()
            self._look()

    def _drain(self) -> None:
        """Drop the messages: they say when to look, and the look finds all, even what an overflow lost."""
        while True:
            try:
                self._messages.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise

    def _look(self) -> None:
        names = [name for ends in self._interfaces.values() for name in ends]
        up = kernel.interfaces_with_carrier(names)
        down = {link for link, ends in self._interfaces.items() if not up.issuperset(ends)}
        failed = frozenset(link.ends for link in down)
        changes = [
            LinkChange(link, link not in down)
            for link in self._interfaces
            if (link.ends in self._failed) != (link in down)
        ]
        self._failed = failed
        if changes:
            try:
                self._changed(changes, failed)
            except Exception:
                _log.exception("the link watcher's callback failed")
