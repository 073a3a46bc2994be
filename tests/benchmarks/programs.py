# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The programs that are measured: how each is installed on a switch, and the frames that it forwards from 1 to 2."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import product
from pathlib import Path
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.build import library, tables_library
from softswitch.switch import Switch
from tests.pipeline import packets, policies
from tests.pipeline.reference import Policy, Range, Ternary
from tests.pipeline.targets import P4INFO, PROGRAM, P4Info

FORWARD = Path(__file__).parents[1] / "unit" / "softswitch_engine" / "forward.c"
FLOWS = 1000
ROWS = 32
SMALLEST_GRADIENT = 128  # bytes of a frame


class Program(ABC):
    """A P4 program with its entries and its traffic."""

    name: str

    @property
    def is_compiled(self) -> bool:
        """Say whether what p4c makes of it is there."""
        return True

    @abstractmethod
    def mark_offset(self, size: int) -> int:
        """Return where 16 bytes of a frame are free for the tester's mark."""

    @abstractmethod
    def install(self, switch: Switch) -> None:
        """Load the program and its entries."""

    @abstractmethod
    def frames(self, size: int) -> list[bytes]:
        """Return frames of `size` bytes, of many flows, that port 1 receives and port 2 sends."""


class Wire(Program):
    """The hand-made program of the engine's tests: what ports and traffic manager cost, with next to no pipeline."""

    name = "wire"

    def mark_offset(self, size: int) -> int:
        """Return a place behind the flow's number."""
        return 40

    def install(self, switch: Switch) -> None:
        """Load the program; it has no entries."""
        switch.load_library(library("forward", [FORWARD], needs=[tables_library()]))

    def frames(self, size: int) -> list[bytes]:
        """Return Ethernet frames of no protocol."""
        return [b"\x02" * 12 + b"\x88\xb6" + flow.to_bytes(4, "big") + bytes(size - 18) for flow in range(FLOWS)]


class Gradlane(Program):
    """Gradlane's pipeline: 1,000 flows of gradients, 32 rows that classify and 32 that judge."""

    name = "gradlane"

    @property
    def is_compiled(self) -> bool:
        """Say whether p4src/compiled is there."""
        return PROGRAM.exists() and P4INFO.exists()

    def mark_offset(self, size: int) -> int:
        """Return where the values begin, or the payload of a frame too small for a gradient header."""
        return 74 if size >= SMALLEST_GRADIENT else 42

    def policy(self) -> Policy:
        """Route port 1's frames to port 2, with rows that the frames spread over."""
        classes = [
            policies.gradient_class(number % 8, ROWS - number, Ternary(1 + number // 8, 0xFFFF), Range(low, low + 7))
            for number, low in enumerate([8 * step for step in range(8)] * (ROWS // 8))
        ]
        depths = (Range(1 << 12, 0xFFFF), Range(1 << 10, (1 << 12) - 1))
        judges = [
            policies.judge(
                "drop_judged" if step == 0 else "mark_or_keep", ROWS - number, Ternary(traffic_class, 7),
                Range(half * 128, half * 128 + 127), depths[step], **({"reason": 1} if step == 0 else {}),
            )
            for number, (traffic_class, half, step) in enumerate(product(range(8), range(2), range(2)))
        ]  # fmt: skip
        return Policy(rows=(*policies.ROUTED.rows, *classes, *judges))

    def entities(self) -> list[Any]:
        """Return the policy as P4Runtime entities."""
        return P4Info().entities(self.policy())

    def install(self, switch: Switch) -> None:
        """Load the program and write the policy."""
        switch.load(PROGRAM, P4INFO)
        switch.set_depth_register("queue_depth", "bytes/64")
        for request in write_requests(self.entities()):
            switch.p4runtime.write(request)

    def frames(self, size: int) -> list[bytes]:
        """Return gradients of float16 that fill the size, or plain UDP where none fits."""
        return [bytes(self._frame(flow, size)) for flow in range(FLOWS)]

    def _frame(self, flow: int, size: int) -> packets.Frame:
        source, port = packets.SENDER + flow % 200, 20000 + flow
        if size < SMALLEST_GRADIENT:
            plain = packets.Frame(bytes(size - 42), source=source, source_port=port, destination_port=5001)
            return plain.but(dscp=flow % 64)
        gradient = packets.Gradient(
            data_type=packets.FLOAT16, importance=flow * 7 % 256, job=1 + flow % 4, layer=flow % 64, sequence=flow,
            count=(size - 74) // 2,
        )  # fmt: skip
        return packets.Frame(bytes(gradient), source=source, source_port=port)


def write_requests(entities: list[Any]) -> list[Any]:
    """Return WriteRequests that insert the entities, 100 each."""
    requests = []
    for start in range(0, len(entities), 100):
        request = p4runtime_pb2.WriteRequest(device_id=1)
        request.election_id.low = 1
        for entity in entities[start : start + 100]:
            request.updates.add(type=p4runtime_pb2.Update.INSERT).entity.CopyFrom(entity)
        requests.append(request)
    return requests


PROGRAMS: dict[str, Program] = {program.name: program for program in (Gradlane(), Wire())}
