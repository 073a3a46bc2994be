# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One switch under control: what it holds, what it should hold, and the way from one to the other and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from controller.changes import Changes, stages
from controller.compiler import DesiredState, PortRate, QueueLimit, Target
from controller.p4rt.client import Connection, Snapshot
from controller.p4rt.entities import Entity, Group, Holding
from controller.p4rt.errors import SwitchFailure
from controller.p4rt.pipeline import Pipeline
from controller.p4rt.wire import Decoder, Encoder
from topologies.errors import FailureError


@dataclass(frozen=True)
class PortSettings:
    """The queue limits and port rates that a switch has, as far as it tells."""

    queues: Mapping[tuple[int, int], QueueLimit] = field(default_factory=dict)
    rates: Mapping[int, PortRate] = field(default_factory=dict)


class SettingsChannel(Protocol):
    """The way to what P4Runtime cannot express."""

    def read(self) -> PortSettings:
        """Return the present settings."""

    def write(self, queues: Sequence[QueueLimit], rates: Sequence[PortRate]) -> None:
        """Set the limits of some queues and the rates of some ports."""

    def program_loaded(self) -> None:
        """Set what a new program needs."""

    def close(self) -> None:
        """Let go of the channel."""


@dataclass(frozen=True)
class Held:
    """What a switch holds: the cookie of its program (None: no program), its entities and its settings."""

    cookie: int | None
    holding: Holding
    settings: PortSettings


@dataclass(frozen=True)
class Applied:
    """What applying a state to a switch came to. `restored` tells, of an error, whether the former state is back."""

    switch: str
    changes: Changes
    error: str | None = None
    restored: bool = False

    @property
    def changed(self) -> int:
        """How many changes were made and stayed."""
        return 0 if self.error else len(self.changes)


class Program:
    """The compiled program with its wire codecs, shared by all switches that run it."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.encoder = Encoder(pipeline)
        self.decoder = Decoder(pipeline, self.encoder.encoded)


class Device:
    """One switch. Use it as a context manager, or `close` it."""

    def __init__(
        self,
        connection: Connection,
        program: Program,
        settings: SettingsChannel | None = None,
        target: Target = "softswitch",
    ) -> None:
        self.name = connection.name
        self._target = target
        self.connection = connection
        self.program = program
        self.settings = settings

    def __enter__(self) -> Device:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        if self.settings is not None:
            self.settings.close()
        self.connection.close()

    def read(self) -> Held:
        """Return what the switch holds; under another program than ours, its cookie and settings alone."""
        cookie = self.connection.cookie()
        settings = PortSettings() if self.settings is None else self.settings.read()
        if cookie != self.program.pipeline.cookie:
            return Held(cookie, Holding.of([]), settings)
        return Held(cookie, self._holding(), settings)

    def _holding(self) -> Holding:
        entities = self.connection.read(self.program.decoder)
        return Holding.of([_watching_own_port(entity) for entity in entities] if self._target == "bmv2" else entities)

    def need_program(self) -> None:
        """Raise FailureError unless the switch runs Gradlane's program."""
        if self.connection.cookie() != self.program.pipeline.cookie:
            raise FailureError(f"{self.name}: does not run Gradlane's program; `gradctl policy apply` brings it")

    def plan(self, desired: DesiredState) -> Changes:
        """Return what must change for the switch to hold `desired`."""
        return self.changes(desired, self.read())

    def apply(self, desired: DesiredState) -> Applied:
        """Make the switch hold `desired` and read it back; on an error give it back what it held before.

        Nothing is written where nothing must change.
        """
        try:
            held = self.read()
            changes = self.changes(desired, held)
        except FailureError as error:
            return Applied(self.name, Changes(self.name, program=False, stages=()), str(error))
        if not changes:
            return Applied(self.name, changes)
        foreign = None
        try:
            if changes.program:
                foreign = self.connection.snapshot()
                self.connection.load(self.program.pipeline)
                if self.settings is not None:
                    self.settings.program_loaded()
            self._write(changes)
            left = self.changes(desired, self.read())
            if left:
                raise SwitchFailure(self.name, f"reads back other than written: {next(left.lines())}")
        except FailureError as error:
            return self._restore(changes, held, foreign, error)
        return Applied(self.name, changes)

    def changes(self, desired: DesiredState, held: Held) -> Changes:
        """Return what leads from what the switch holds to what it should."""
        return Changes(
            switch=self.name,
            program=held.cookie != self.program.pipeline.cookie,
            stages=stages(held.holding, Holding.of(list(desired.entities))),
            queues=tuple(
                (held.settings.queues.get((limit.port, limit.class_)), limit)
                for limit in desired.queues
                if self.settings is not None and held.settings.queues.get((limit.port, limit.class_)) != limit
            ),
            rates=tuple(
                (held.settings.rates.get(rate.port), rate)
                for rate in desired.rates
                if self.settings is not None and held.settings.rates.get(rate.port) != rate
            ),
        )

    def _write(self, changes: Changes) -> None:
        for stage in changes.stages:
            self.connection.write(((change.kind, change.entity) for change in stage), self.program.encoder)
        if self.settings is not None:
            self.settings.write([limit for _, limit in changes.queues], [rate for _, rate in changes.rates])

    def _restore(self, changes: Changes, held: Held, foreign: Snapshot | None, error: FailureError) -> Applied:
        try:
            if foreign is not None:
                self.connection.restore(foreign)
            elif self.connection.cookie() == self.program.pipeline.cookie:
                self._write(Changes(self.name, program=False, stages=stages(self._holding(), held.holding)))
            if self.settings is not None:
                self.settings.write(
                    [limit for limit, _ in changes.queues if limit is not None],
                    [rate for rate, _ in changes.rates if rate is not None],
                )
        except FailureError as second:
            return Applied(self.name, changes, f"{error}; restoring its former state failed too: {second}")
        return Applied(self.name, changes, f"{error}; its former state is restored", restored=True)


def _watching_own_port(entity: Entity) -> Entity:
    """Let each member of a group watch the port of its number, as the compiler has it.

    BMv2's P4Runtime library (PI, seen in August 2026) keeps a watch port for each member, but reads back one member's
    for all.
    """
    if not isinstance(entity, Group):
        return entity
    return entity._replace(members=tuple(member._replace(watch_port=member.member) for member in entity.members))
