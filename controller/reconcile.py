# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Bring every switch of a running fabric to what a policy wants: plan, apply, roll back.

Applying is idempotent, all-or-nothing on each switch, and read back. A switch that was started anew holds nothing,
so applying the current policy again installs it whole.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from controller import policy as policies
from controller.changes import Changes
from controller.compiler import DesiredState, Target, compile_policy
from controller.compiler.capacity import check_capacity
from controller.device import Applied, Device, Program
from controller.fleet import on_each
from controller.history import History, Revision
from controller.links import failed_links
from controller.p4rt.client import DEADLINE_S, Connection
from controller.p4rt.pipeline import Pipeline
from controller.policy import Policy
from controller.settings import notices, settings_channel
from topologies import state as fabric_state
from topologies.errors import FailureError, UsageError
from topologies.routes import FailedLinks
from topologies.state import RunningFabric

INSTALL_DEADLINE_S: Final = 15.0  # nobody waits at a terminal, and a fabric's first moments are busy ones

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Report:
    """What applying a policy to a fabric came to."""

    policy: str
    revision: int | None
    switches: Mapping[str, Applied]
    seconds: float
    notices: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[str, ...]:
        """The switches that did not take the policy."""
        return tuple(name for name, applied in self.switches.items() if applied.error)

    @property
    def changed(self) -> int:
        """How many changes were made in all."""
        return sum(applied.changed for applied in self.switches.values())

    def check(self) -> None:
        """Raise FailureError, naming every switch that did not take the policy."""
        errors = [applied.error for applied in self.switches.values() if applied.error]
        if errors:
            of_all = f"{len(errors)} of {len(self.switches)} switches did not take policy {self.policy}"
            raise FailureError(f"{of_all}: {' | '.join(errors)}")

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "policy": self.policy,
            "revision": self.revision,
            "seconds": round(self.seconds, 3),
            "notices": list(self.notices),
            "switches": {
                name: {"changed": applied.changed, "error": applied.error, "restored": applied.restored}
                for name, applied in self.switches.items()
            },
        }


@dataclass
class Controller:
    """A controller of one running fabric: where its switches are, and the program that they run."""

    running: RunningFabric
    state_file: Path
    program: Program
    deadline: float = DEADLINE_S
    history: History = field(init=False)

    def __post_init__(self) -> None:
        self.history = History(self.state_file, self.running.run)

    @staticmethod
    def find(
        state: str | Path | None = None, *, pipeline: Pipeline | None = None, deadline: float = DEADLINE_S
    ) -> Controller:
        """Return the controller of the fabric that runs, by its state file (default: build/fabric.json).

        Raises FailureError if none runs.
        """
        file = fabric_state.path_in_use(state)
        return Controller(fabric_state.load(file), file, Program(pipeline or Pipeline.load()), deadline)

    @property
    def targets(self) -> Target:
        """What runs the switches."""
        target = self.running.target
        match target:
            case "softswitch" | "bmv2":
                return target
        raise UsageError(f"the controller knows no target {target!r}", file=self.state_file)

    def names(self, chosen: Iterable[str] = ()) -> list[str]:
        """Return the chosen switches, or all. Raises UsageError for a switch that the fabric lacks."""
        return [self.running.fabric.switch(name).name for name in chosen] or list(self.running.switches)

    def connect(self, name: str) -> Connection:
        """Return a connection to one switch; the caller closes it."""
        self.running.fabric.switch(name)
        switch = self.running.switches[name]
        return Connection(name, switch.grpc_address, switch.device_id, deadline=self.deadline)

    def device(self, name: str, former: DesiredState | None = None) -> Device:
        """Return one switch under control. `former` is what it was given last, for settings it cannot tell."""
        connection = self.connect(name)
        try:
            settings = settings_channel(self.running, name, connection, former)
            return Device(connection, self.program, settings, self.targets)
        except BaseException:
            connection.close()
            raise

    def compile(self, policy: Policy, failed: FailedLinks | None = ()) -> dict[str, DesiredState]:
        """Return what every switch should hold under `policy`, around `failed` links (None: those down right now).

        Raises UsageError for a policy that does not fit the fabric, or the program's tables.
        """
        around = failed_links(self.running.fabric) if failed is None else failed
        states = compile_policy(policy, self.running.fabric, self.targets, around)
        check_capacity(policy, states, self.program.pipeline)
        return states

    def former(self) -> dict[str, DesiredState]:
        """Return what every switch was given last; empty if that was nothing."""
        current = self.history.current()
        return {} if current is None else self.compile(current.policy)

    def plan(self, policy: Policy, failed: FailedLinks | None = None) -> dict[str, Changes | FailureError]:
        """Return what applying `policy` would change on every switch, or why it cannot be told."""
        desired = self.compile(policy, failed)
        former = self.former()

        def work(name: str) -> Changes:
            with self.device(name, former.get(name)) as device:
                return device.plan(desired[name])

        return on_each(self.running.switches, work)

    def apply(self, policy: Policy, failed: FailedLinks | None = None, *, note: str = "") -> Report:
        """Apply `policy` to every switch and keep it in the history, unless it is the current one already.

        Routes go around `failed` links (None: those that are down right now).
        Raises UsageError for a policy that does not fit the fabric, and FailureError where the history cannot be kept,
        both before any switch is touched; what goes wrong on a switch is in the report. Who interrupts it finds the
        policy in the history, taken by nobody.
        """
        with self.history.locked(wait=self.deadline):
            desired = self.compile(policy, failed)
            started = time.monotonic()
            current = self.history.current()
            former = self.former()
            if current is None or _differ(current, policy):
                revision = self.history.add(policy, note, failed=tuple(self.running.switches))
            else:
                revision = current
            self.history.note_applying()
            with ExitStack() as stack:

                def work(name: str) -> Applied:
                    device = stack.enter_context(self.device(name, former.get(name)))
                    return device.apply(desired[name])

                results = on_each(self._first_without_program(), work)
                results |= on_each((name for name in self.running.switches if name not in results), work)
            switches = {
                name: result
                if isinstance(result, Applied)
                else Applied(name, Changes(name, program=False, stages=()), str(result))
                for name, result in results.items()
            }
            failed_switches = tuple(name for name, applied in switches.items() if applied.error)
            if revision is not current:
                revision = self.history.settle(revision, failed_switches)
            elif current.failed != failed_switches:
                revision = self.history.add(policy, note, failed_switches)
        for name, applied in switches.items():
            _log.info("[%s] %s", name, applied.error or f"{applied.changed} changes")
        seconds = time.monotonic() - started
        return Report(policy.name, revision.number, switches, seconds, notices(self.running))

    def _first_without_program(self) -> list[str]:
        """Return the first switch that lacks the program, if any does, to be served alone.

        A softswitch compiles a program that its machine has not seen, which takes a while and keeps both of two cores
        busy; the other switches then find it built.
        """

        def work(name: str) -> bool:
            with self.connect(name) as connection:
                return connection.cookie() == self.program.pipeline.cookie

        return [name for name, has_it in on_each(self.running.switches, work).items() if has_it is False][:1]

    def rollback(self, to: int | None = None, failed: FailedLinks | None = None) -> Report:
        """Apply the policy before the current one again, or that of revision `to`."""
        revision = self.history.before_current() if to is None else self.history.revision(to)
        return self.apply(revision.policy, failed, note=f"rollback to {revision.number}")


def install(state: RunningFabric | str | Path | None, policy: Policy | str | Path, *, check: bool = True) -> Report:
    """Apply a policy to a running fabric.

    `state` is the fabric's state, or its state file (default: build/fabric.json); `policy` is a policy, the name of
    one that ships, or the path of a YAML file. With `check`, raises FailureError naming each switch that did not take
    it; without, they are in the report.
    """
    if isinstance(state, RunningFabric):
        controller = Controller(state, fabric_state.path_in_use(), Program(Pipeline.load()), INSTALL_DEADLINE_S)
    else:
        controller = Controller.find(state, deadline=INSTALL_DEADLINE_S)
    report = controller.apply(policy if isinstance(policy, Policy) else policies.load(policy))
    if check:
        report.check()
    return report


def _differ(revision: Revision, policy: Policy) -> bool:
    return policies.dump(revision.policy) != policies.dump(policy)
