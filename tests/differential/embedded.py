# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A case on the embedded switch, in process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from p4.v1 import p4runtime_pb2 as p4rt

from softswitch.objects import Objects
from softswitch.switch import Switch
from tests.differential.outcome import Outcome, Sent
from tests.differential.program import Program
from tests.differential.templates import Case

PORTS = range(1, 9)


class Embedded:
    """The embedded switch with a program and a case's entries; time stands still."""

    def __init__(self, switch: Switch, case: Case) -> None:
        self.switch = switch
        self.case = case
        for entity in case.entities:
            request = p4rt.WriteRequest(device_id=1)
            request.updates.add(type=p4rt.Update.INSERT).entity.CopyFrom(entity)
            if entity.WhichOneof("entity") == "meter_entry":
                request.updates[0].type = p4rt.Update.MODIFY
            switch.p4runtime.write(request)
        objects = Objects(switch)
        for name, members in case.value_sets.items():
            masks = [tuple((value, (1 << bits) - 1) for value, bits in member) for member in members]
            objects.set_value_set(name, masks)

    def send(self, port: int, frame: bytes) -> list[Sent]:
        """Return what leaves for a frame, sorted."""
        return sorted(self.switch.inject(port, frame))

    def outcome(self) -> Outcome:
        """Send all frames."""
        outcome = Outcome(frames=[self.send(port, frame) for port, frame in self.case.frames])
        for message in self.switch.p4runtime.messages():
            for data in message.digest.data:
                outcome.digests.append(data.SerializeToString().hex())
        outcome.counts = counts(self.case, lambda request: self.switch.p4runtime.read(request).entities)
        return outcome


@contextmanager
def embedded(program: Program, case: Case) -> Iterator[Embedded]:
    """Run an embedded switch for a case."""
    with Switch(name=program.name) as switch:
        switch.load(program.json, program.p4info)
        for port in PORTS:
            switch.add_port(port)
        switch.set_clock(1_000_000_000)
        yield Embedded(switch, case)


def counts(case: Case, read: Any) -> list[str]:
    """Read the counters that a case names: indirect ones by id, direct ones by entry."""
    said = []
    for wanted in case.read:
        request = p4rt.ReadRequest(device_id=1)
        entity = request.entities.add()
        if isinstance(wanted, int):
            entity.counter_entry.counter_id = wanted
        else:
            entity.direct_counter_entry.table_entry.CopyFrom(wanted)
        for found in read(request):
            if isinstance(wanted, int):
                name, data = f"count {found.counter_entry.index.index}", found.counter_entry.data
            else:
                name = f"direct {wanted.match[0].exact.value.hex()}"
                data = found.direct_counter_entry.data
            said.append(f"{name}: {data.packet_count} packets, {data.byte_count} bytes")
    return said
