# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Keep a running fabric whole: route around links and switches that fail, and give a restarted switch its state anew.

A switch leaves out a group's member by itself as soon as the port that it watches falls. What no switch can see on its
own is farther away: a spine that lost one leaf must not be chosen by the other leaves. That is what is done here.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Thread
from types import TracebackType
from typing import Final

from controller.changes import Changes, stages
from controller.compiler import DesiredState
from controller.device import Applied
from controller.fleet import on_each
from controller.p4rt.entities import Holding
from controller.policy import Policy
from controller.reconcile import Controller
from controller.watch import Event, KernelWatch, Links, LinksFailed, PortWatch, SwitchAnswers
from topologies.errors import FailureError
from topologies.routes import FailedLinks

LOCK_WAIT_S: Final = 30.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rerouted:
    """One reaction: what no longer carries traffic, which switches changed, and how long that took."""

    failed: Links
    dead: frozenset[str]
    changed: Mapping[str, int]
    errors: Mapping[str, str]
    seconds: float


class Rerouter:
    """Watches a running fabric's links and switches and keeps its routes right, until it is closed.

    Use it as a context manager. It takes the policy from the fabric's history, so that what `gradctl policy apply`
    installs meanwhile is what it keeps. `told`, if given, is called with every reaction from the rerouter's thread.
    """

    def __init__(self, controller: Controller, told: Callable[[Rerouted], None] | None = None) -> None:
        self._controller = controller
        self._told = told
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._failed: Links = frozenset()
        self._dead: frozenset[str] = frozenset()
        self._connections = {name: controller.connect(name) for name in controller.names()}
        self._thread = Thread(target=self._run, name="rerouter", daemon=True)
        watch = PortWatch if controller.targets == "softswitch" else KernelWatch
        self._watch = watch(controller.running.fabric, self._connections.values(), self._events.put)

    def __enter__(self) -> Rerouter:
        self._thread.start()
        self._watch.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watch.__exit__(kind, error, trace)
        self._events.put(None)
        self._thread.join()
        for connection in self._connections.values():
            connection.close()

    def _run(self) -> None:
        while (event := self._events.get()) is not None:
            failed, dead, returned = self._failed, self._dead, set[str]()
            while event is not None:
                match event:
                    case LinksFailed(links):
                        failed = links
                    case SwitchAnswers(name, answers=True, again=again):
                        returned |= {name} if again or name in dead else set()
                        dead -= {name}
                    case SwitchAnswers(name):
                        returned.discard(name)
                        dead |= {name}
                if self._events.empty():
                    break
                event = self._events.get()
            if (failed, dead) != (self._failed, self._dead) or returned:
                try:
                    self._react(failed, dead, returned)
                except FailureError as error:
                    _log.error("routes could not be changed: %s", error)
            if event is None:
                return

    def _react(self, failed: Links, dead: frozenset[str], returned: set[str]) -> None:
        began = time.monotonic()
        with self._controller.history.locked(wait=LOCK_WAIT_S):
            revision = self._controller.history.current()
            before, self._failed = self._around(self._failed, self._dead), failed
            after, self._dead = self._around(failed, dead), dead
            if revision is None:
                return
            results = self._bring(revision.policy, before, after, returned)
        reaction = Rerouted(
            failed=failed,
            dead=dead,
            changed={name: applied.changed for name, applied in results.items() if applied.changed},
            errors={name: applied.error for name, applied in results.items() if applied.error},
            seconds=time.monotonic() - began,
        )
        _log.info("rerouted around %s in %.3f s", sorted("-".join(sorted(link)) for link in after), reaction.seconds)
        for name, error in reaction.errors.items():
            _log.error("[%s] %s", name, error)
        if self._told is not None:
            self._told(reaction)

    def _around(self, failed: Links, dead: frozenset[str]) -> Links:
        """Return every link that carries nothing: those that failed, and those of switches that do not answer."""
        fabric = self._controller.running.fabric
        return failed | {link.ends for name in dead for link in fabric.links_of(name)}

    def _bring(self, policy: Policy, before: FailedLinks, after: FailedLinks, returned: set[str]) -> dict[str, Applied]:
        held = self._controller.compile(policy, before)
        desired = self._controller.compile(policy, after)

        def work(name: str) -> Applied:
            if name not in returned:
                try:
                    return self._write(name, held[name], desired[name])
                except FailureError as error:
                    _log.info("[%s] holds other than it was given, so it is read first: %s", name, error)
            with self._controller.device(name, held[name]) as device:
                return device.apply(desired[name])

        living = [name for name in self._controller.names() if name not in self._dead]
        return {
            name: result
            if isinstance(result, Applied)
            else Applied(name, Changes(name, program=False, stages=()), str(result))
            for name, result in on_each(living, work).items()
        }

    def _write(self, name: str, held: DesiredState, desired: DesiredState) -> Applied:
        """Write the difference of two states without reading first: a reroute must be quick."""
        changes = Changes(
            name,
            program=False,
            stages=stages(Holding.of(list(held.entities)), Holding.of(list(desired.entities))),
        )
        for stage in changes.stages:
            self._connections[name].write(
                ((change.kind, change.entity) for change in stage), self._controller.program.encoder
            )
        return Applied(name, changes)
