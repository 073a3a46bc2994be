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
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from functools import partial
from threading import Thread
from types import TracebackType
from typing import Final, TypeAlias

from controller.changes import Changes, stages
from controller.compiler import DesiredState
from controller.device import Applied
from controller.fleet import on_each
from controller.p4rt.entities import Holding
from controller.policy import Policy
from controller.reconcile import Controller
from controller.watch import Event, KernelWatch, Links, LinksFailed, PortWatch, SwitchAnswers
from topologies.errors import FailureError, GradlaneError

LOCK_WAIT_S: Final = 30.0
FIRST_PAUSE_S: Final = 0.25
LONGEST_PAUSE_S: Final = 8.0
"""How long after a switch did not take its state it is tried again: twice as long each time, up to the longest."""

States: TypeAlias = Mapping[str, DesiredState]

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
        self._reacted_to = (self._failed, self._dead)
        self._given: Links = frozenset()  # the links that the routes given last go around
        self._seen: set[str] = set()
        self._doubtful: set[str] = set()  # what these hold is not known: it is read before it is changed
        self._applied: int | None = None  # when somebody last did, as far as is known here
        self._behind = False  # not every switch holds what it should
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
        pause, ended = FIRST_PAUSE_S, False
        while not ended:
            news, ended = self._news(pause if self._behind else None)
            if not (news or self._behind):
                continue
            pause = FIRST_PAUSE_S if news else min(2 * pause, LONGEST_PAUSE_S)
            try:
                self._react()
            except GradlaneError as error:
                self._behind = True
                _log.error("routes could not be changed: %s", error)

    def _news(self, seconds: float | None) -> tuple[bool, bool]:
        """Wait for an event, at most for `seconds`; return whether anything is new, and whether this is the end."""
        dead, news = self._dead, False
        try:
            event = self._events.get(timeout=seconds)
            while event is not None:
                match event:
                    case LinksFailed(links):
                        self._failed = links
                        news = True  # also where a link fell and rose again: who applied meanwhile went around it
                    case SwitchAnswers(name, answers=True, again=again):
                        if again or name in self._dead or name not in self._seen:
                            self._doubtful.add(name)
                            news = True
                        self._seen.add(name)
                        self._dead -= {name}
                    case SwitchAnswers(name):
                        self._dead |= {name}
                event = self._events.get_nowait()
        except queue.Empty:
            return news or self._dead != dead, False
        return news or self._dead != dead, True

    def _react(self) -> None:
        began = time.monotonic()
        with self._controller.history.locked(wait=LOCK_WAIT_S):
            revision = self._controller.history.current()
            if revision is None:
                self._given, self._behind = self._around(self._dead), False
                return
            applied = self._controller.history.last_applied()
            if applied != self._applied:  # by somebody who may have seen other links than were told here
                self._applied = applied
                self._doubtful |= self._seen
            results = self._bring(revision.policy)
        reaction = Rerouted(
            failed=self._failed,
            dead=self._dead,
            changed={name: applied.changed for name, applied in results.items() if applied.changed},
            errors={name: applied.error for name, applied in results.items() if applied.error},
            seconds=time.monotonic() - began,
        )
        world = (self._failed, self._dead)
        if self._reacted_to == world and not reaction.changed and not reaction.errors:
            return
        self._reacted_to = world
        links = sorted("-".join(sorted(link)) for link in self._given)
        _log.info("rerouted around %s in %.3f s", links, reaction.seconds)
        for name, error in reaction.errors.items():
            _log.error("[%s] %s", name, error)
        if self._told is not None:
            self._told(reaction)

    def _around(self, out: Set[str]) -> Links:
        """Return every link that carries nothing: those that failed, and those of the switches in `out`."""
        fabric = self._controller.running.fabric
        return self._failed | {link.ends for name in out for link in fabric.links_of(name)}

    def _bring(self, policy: Policy) -> dict[str, Applied]:
        """Give every living switch its state; no route leads over one that does not take it.

        The doubtful ones come first: a route must not lead over a switch that was started anew before that has its own.
        """
        held = self._controller.compile(policy, self._given)
        results: dict[str, Applied] = {}
        out = set(self._dead)
        while True:
            around = self._around(out)
            desired = self._controller.compile(policy, around)
            results |= _on_each(self._doubtful - out, partial(self._apply, held, desired))
            refusing = {name for name in self._doubtful - out if results[name].error}
            if not refusing:
                break
            out |= refusing

        def write(name: str) -> Applied:
            try:
                return self._write(name, held[name], desired[name])
            except FailureError as error:
                _log.info("[%s] holds other than it was given, so it is read first: %s", name, error)
                return self._apply(held, desired, name)

        results |= _on_each(set(self._controller.names()) - self._dead - self._doubtful, write)
        self._doubtful = {name for name, result in results.items() if result.error} | self._doubtful & self._dead
        self._given, self._behind = around, bool(self._doubtful - self._dead)
        return results

    def _apply(self, held: States, desired: States, name: str) -> Applied:
        with self._controller.device(name, held[name]) as device:
            return device.apply(desired[name])

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


def _on_each(names: Set[str], work: Callable[[str], Applied]) -> dict[str, Applied]:
    return {
        name: result
        if isinstance(result, Applied)
        else Applied(name, Changes(name, program=False, stages=()), str(result))
        for name, result in on_each(sorted(names), work).items()
    }
