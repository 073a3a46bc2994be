# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The programs that are measured: how each is installed on a switch, and the frames that it forwards from 1 to 2."""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import product
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2

from controller.p4rt import wire
from controller.p4rt.entities import Call, Exact, FieldMatch, Masked, Prefix, TableEntry
from controller.p4rt.pipeline import Pipeline
from softswitch.build import library, tables_library
from softswitch.switch import Switch
from tests.pipeline import packets, policies
from tests.pipeline.reference import Policy, Range, Ternary
from tests.pipeline.targets import P4INFO, PROGRAM, P4Info

HERE = Path(__file__).parent
UDP_HEADERS = 42  # bytes of Ethernet, IPv4 and UDP
FORWARD = Path(__file__).parents[1] / "unit" / "softswitch_engine" / "forward.c"
FLOWS = 1000
ROWS = 32
SMALLEST_GRADIENT = 128  # bytes of a frame


class Program(ABC):
    """A P4 program with its entries and its traffic."""

    name: str
    sizes: tuple[int, ...] = (64, 256, 1400)  # bytes of the frames that it is measured with

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


class Compiled(Program):
    """What p4c made of a P4 program, with P4Runtime entities: BMv2 runs it too."""

    json: Path
    p4info: Path

    @abstractmethod
    def inserts(self) -> list[bytes]:
        """Return the entries as P4Runtime updates, in an order that stands."""

    def write_requests(self) -> list[bytes]:
        """Return P4Runtime WriteRequests that insert all entries, 100 each."""
        election = p4runtime_pb2.Uint128(low=1).SerializeToString()
        head = wire.number(1, 1) + wire.message(3, election)
        updates = [wire.message(4, update) for update in self.inserts()]
        return [head + b"".join(updates[start : start + 100]) for start in range(0, len(updates), 100)]

    def install(self, switch: Switch) -> None:
        """Load the program and write its entries."""
        switch.load(self.json, self.p4info)
        for request in self.write_requests():
            switch.p4runtime.write(request)


class Gradlane(Compiled):
    """Gradlane's pipeline: 1,000 flows of gradients, 32 rows that classify and 32 that judge."""

    name = "gradlane"
    sizes = (64, 256, 1000, 1400)
    json, p4info = PROGRAM, P4INFO

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

    def inserts(self) -> list[bytes]:
        """Return the policy as P4Runtime updates."""
        return [
            p4runtime_pb2.Update(type=p4runtime_pb2.Update.INSERT, entity=entity).SerializeToString()
            for entity in P4Info().entities(self.policy())
        ]

    def install(self, switch: Switch) -> None:
        """Load the program and write the policy; depth is the traffic manager's own."""
        super().install(switch)
        switch.set_depth_register("queue_depth", "bytes/64")

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


class Router(Compiled):
    """A plain IPv4 router (p4/router.p4): prefixes of 16 to 28 bits, or hosts, around the frames' destinations."""

    name = "router"
    json, p4info = HERE / "p4/router.json", HERE / "p4/router.p4info.txtpb"

    def __init__(self, entries: int = 1000, table: str = "route") -> None:
        self.entries, self.table = entries, table

    def mark_offset(self, size: int) -> int:
        """Return where the payload begins."""
        return UDP_HEADERS

    def inserts(self) -> list[bytes]:
        """Return a next hop behind port 2, and routes that all lead to it; the shortest takes what the others miss."""
        to_hop = Call("set_next_hop", (("next_hop", 1),))
        forward = Call("forward", (("port", 2), ("source", 0x02AA00000001), ("destination", 0x02BB00000001)))
        shortest = Prefix(packets.RECEIVER >> 24 << 24, 8)
        rows = [
            TableEntry("next_hop", (("m.next_hop", Exact(1)),), forward),
            TableEntry("route", (("h.ipv4.destination", shortest),), to_hop),
        ]
        kind = exact if self.table == "host" else prefix
        keys = dict.fromkeys(kind(number) for number in range(self.entries))
        rows += [TableEntry(self.table, (("h.ipv4.destination", key),), to_hop) for key in keys]
        return encoded(self.p4info, rows)

    def frames(self, size: int) -> list[bytes]:
        """Return UDP to addresses that lie all over the table."""
        step = max(1, self.entries // FLOWS)
        return [udp(size, destination=destination(flow * step)) for flow in range(FLOWS)]


class Filter(Compiled):
    """One ternary table over the five-tuple (p4/filter.p4), of a dozen kinds of mask."""

    name = "filter"
    json, p4info = HERE / "p4/filter.json", HERE / "p4/filter.p4info.txtpb"
    MASKS = (
        (32, 32, 0xFFFF), (32, 24, 0xFFFF), (24, 32, 0xFFFF), (24, 24, 0), (32, 0, 0xFFFF), (0, 32, 0xFFFF),
        (16, 16, 0xFF00), (32, 32, 0), (28, 28, 0xFFFF), (16, 32, 0xFFF0), (24, 0, 0xFFFF), (0, 24, 0xFF00),
    )  # fmt: skip

    def __init__(self, entries: int = 10_000) -> None:
        self.entries = entries

    def mark_offset(self, size: int) -> int:
        """Return where the payload begins."""
        return UDP_HEADERS

    def inserts(self) -> list[bytes]:
        """Return rows that each let one flow in `entries` through, and a last one that lets all."""
        udp_only, forward = ("h.ipv4.protocol", Masked(17, 0xFF)), Call("forward", (("port", 2),))
        rows = [TableEntry("filter", (udp_only,), forward, priority=1)]
        for number in range(self.entries - 1):
            source, target, port = self.MASKS[number % len(self.MASKS)]
            key = (
                ("h.ipv4.source", masked(packets.SENDER + number, source)),
                ("h.ipv4.destination", masked(destination(number), target)),
                udp_only,
                ("h.udp.destination", Masked(5001 & port, port)),
            )
            shown = tuple(pair for pair in key if pair[1].mask)
            rows.append(TableEntry("filter", shown, forward, priority=2 + number))
        return encoded(self.p4info, rows)

    def frames(self, size: int) -> list[bytes]:
        """Return flows of which each has its row."""
        step = max(1, self.entries // FLOWS)
        return [
            udp(size, source=packets.SENDER + flow * step, destination=destination(flow * step))
            for flow in range(FLOWS)
        ]


def message_of(p4info: Path) -> Any:
    """Read a P4Info."""
    return text_format.Parse(p4info.read_text(), p4info_pb2.P4Info())


def destination(number: int) -> int:
    """Return an address of its own for each number, in 10.0.0.0/8, such that neighbours are far apart."""
    return packets.RECEIVER >> 24 << 24 | number * 7919 % (1 << 24)


def exact(number: int) -> FieldMatch:
    """Return a number's address."""
    return Exact(destination(number))


def prefix(number: int) -> FieldMatch:
    """Return a prefix around a number's address."""
    length = (32, 28, 24)[number % 3]
    return Prefix(destination(number) >> 32 - length << 32 - length, length)


def masked(value: int, length: int) -> Masked:
    """Return the first bits of an address."""
    mask = (1 << 32) - (1 << 32 - length)
    return Masked(value & mask, mask)


def encoded(p4info: Path, rows: list[TableEntry]) -> list[bytes]:
    """Return rows as P4Runtime updates that insert them."""
    encoder = wire.Encoder(Pipeline.load(p4info))
    return [encoder.update("insert", row) for row in rows]


def udp(size: int, **around: Any) -> bytes:
    """Return a UDP frame of a size."""
    return bytes(packets.Frame(bytes(size - UDP_HEADERS), destination_port=5001, **around))


PROGRAMS: dict[str, Program] = {program.name: program for program in (Gradlane(), Router(), Filter(), Wire())}
