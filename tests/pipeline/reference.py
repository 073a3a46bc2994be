# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A small model of the pipeline, written from its specification and not from the P4: what may leave, what is counted.

It works on bytes and plain numbers. Where the pipeline draws lots (path choice), the model gives every outcome that
is allowed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

CPU_PORT, DROP_PORT, OTHER_PORTS = 510, 511, 63
GRADIENT_PORT = 18258
IPV4, ARP, VLAN, IPV6 = 0x0800, 0x0806, 0x8100, 0x86DD
TCP, UDP = 6, 17
DATA, TRIMMED = 1, 2
RETRANSMISSION, PROTECTED = 0x01, 0x04

REASONS = {"importance": 1, "not_ect": 2, "full": 3, "no_route": 4, "ttl": 5, "malformed": 6, "policy": 7}
FAULTS = {
    "truncated_ipv4": 1, "truncated_ipv6": 2, "truncated_l4": 3, "truncated_gradient": 4, "unknown_version": 5,
    "unknown_type": 6, "bad_length": 7, "bad_ipv4": 8, "truncated_other": 9, "bad_ipv6": 10, "bad_checksum": 11,
}  # fmt: skip


@dataclass(frozen=True)
class Exact:
    value: int

    def fits(self, value: int) -> bool:
        return value == self.value


@dataclass(frozen=True)
class Lpm:
    value: int
    length: int
    bits: int

    def fits(self, value: int) -> bool:
        return value >> (self.bits - self.length) == self.value >> (self.bits - self.length)


@dataclass(frozen=True)
class Ternary:
    value: int
    mask: int

    def fits(self, value: int) -> bool:
        return value & self.mask == self.value


@dataclass(frozen=True)
class Range:
    low: int
    high: int

    def fits(self, value: int) -> bool:
        return self.low <= value <= self.high


Match = Exact | Lpm | Ternary | Range


@dataclass(frozen=True)
class Row:
    """One table entry, in the words of P4Info. Of several rows that fit, the higher priority wins."""

    table: str
    match: dict[str, Match]
    action: str
    parameters: dict[str, int] = field(default_factory=dict)
    priority: int = 0


@dataclass(frozen=True)
class Member:
    """One way out of a group."""

    next_hop: int
    port: int
    weight: int = 1


@dataclass(frozen=True)
class Policy:
    """Everything that the control plane sets: rows, and groups by their id (rows of `path_group` are implied)."""

    rows: tuple[Row, ...] = ()
    groups: dict[int, tuple[Member, ...]] = field(default_factory=dict)

    def with_rows(self, *rows: Row) -> Policy:
        return replace(self, rows=self.rows + rows)

    def look_up(self, table: str, **keys: int) -> Row | None:
        fitting = [
            row for row in self.rows if row.table == table and all(row.match[k].fits(keys[k]) for k in row.match)
        ]
        return max(fitting, key=_rank) if fitting else None


def _rank(row: Row) -> int:
    prefixes = [match.length for match in row.match.values() if isinstance(match, Lpm)]
    return prefixes[0] if prefixes else row.priority


@dataclass
class Outcome:
    """One way that a packet may go: the frames that leave by their ports, and what is counted (in packets)."""

    sent: list[tuple[int, bytes]] = field(default_factory=list)
    counted: Counter[tuple[str, int]] = field(default_factory=Counter)
    next_hop: int | None = None


@dataclass
class Parsed:
    """What a frame is, as far as it could be read. Offsets are into the frame."""

    frame: bytearray
    fault: int = 0
    ether_type: int = 0
    ip: int = 0  # offset of the IP header; 0: none
    version: int = 0
    protocol: int = 0
    dscp: int = 0
    l4: int = 0  # offset of UDP, where a sound gradient header follows
    gradient: bool = False
    ports: tuple[int, int] = (0, 0)

    def number(self, offset: int, size: int) -> int:
        return int.from_bytes(self.frame[offset : offset + size], "big")

    def put(self, offset: int, size: int, value: int) -> None:
        self.frame[offset : offset + size] = value.to_bytes(size, "big")

    @property
    def header(self) -> int:
        return self.l4 + 8


def parse(frame: bytes) -> Parsed:
    """Read a frame from Ethernet on."""
    packet = Parsed(bytearray(frame))
    if len(frame) < 14:
        return _faulty(packet, "truncated_other")
    at = 14
    packet.ether_type = packet.number(12, 2)
    if packet.ether_type == VLAN:
        if len(frame) < 18:
            return _faulty(packet, "truncated_other")
        packet.ether_type = packet.number(16, 2)
        at = 18

    rest = len(frame) - at
    match packet.ether_type:
        case 0x0800:
            return _parse_ipv4(packet, at, rest)
        case 0x86DD:
            return _parse_ipv6(packet, at, rest)
        case 0x0806 if rest < 28:
            return _faulty(packet, "truncated_other")
    return packet


def _faulty(packet: Parsed, fault: str) -> Parsed:
    packet.fault = FAULTS[fault]
    return packet


def _parse_ipv4(packet: Parsed, at: int, rest: int) -> Parsed:
    if rest < 20:
        return _faulty(packet, "truncated_ipv4")
    version, words = packet.frame[at] >> 4, packet.frame[at] & 15
    if version != 4 or words < 5:
        return _faulty(packet, "bad_ipv4")
    total = packet.number(at + 2, 2)
    if total > rest or total < 4 * words:
        return _faulty(packet, "truncated_ipv4")
    packet.ip, packet.version = at, 4
    packet.protocol, packet.dscp = packet.frame[at + 9], packet.frame[at + 1] >> 2
    if packet.number(at + 6, 2) & 0x3FFF == 0:  # neither more fragments nor an offset
        _parse_l4(packet, at + 4 * words, total - 4 * words)
    if ones_complement(bytes(packet.frame[at : at + 4 * words])) != 0:
        return _faulty(packet, "bad_checksum")
    return packet


def _parse_ipv6(packet: Parsed, at: int, rest: int) -> Parsed:
    if rest < 40:
        return _faulty(packet, "truncated_ipv6")
    if packet.frame[at] >> 4 != 6:
        return _faulty(packet, "bad_ipv6")
    payload = packet.number(at + 4, 2)
    if payload > rest - 40:
        return _faulty(packet, "truncated_ipv6")
    packet.ip, packet.version = at, 6
    packet.protocol, packet.dscp = packet.frame[at + 6], packet.number(at, 2) >> 6 & 0x3F
    _parse_l4(packet, at + 40, payload)
    return packet


def _parse_l4(packet: Parsed, at: int, length: int) -> None:
    if packet.protocol not in (TCP, UDP):
        return
    if length < (20 if packet.protocol == TCP else 8):
        _faulty(packet, "truncated_l4")
        return
    packet.ports = packet.number(at, 2), packet.number(at + 2, 2)
    if packet.protocol == UDP and packet.ports[1] == GRADIENT_PORT:
        _parse_gradient(packet, at, length)


def _parse_gradient(packet: Parsed, udp: int, length: int) -> None:
    if length < 40:
        _faulty(packet, "truncated_gradient")
        return
    version, kind = packet.frame[udp + 8] >> 4, packet.frame[udp + 8] & 15
    if version != 1:
        _faulty(packet, "unknown_version")
        return
    if not 1 <= kind <= 8:
        _faulty(packet, "unknown_type")
        return
    values = length - 40
    size = {0: 4, 1: 2, 2: 2}.get(packet.frame[udp + 10])
    count = packet.number(udp + 8 + 20, 2)
    agree = packet.number(udp + 4, 2) == length
    if kind == DATA:
        agree = agree and size is not None and values == count * size
    if kind == TRIMMED:
        agree = agree and values == 0
    if not agree:
        _faulty(packet, "bad_length")
        return
    packet.l4, packet.gradient = udp, True


def ones_complement(data: bytes) -> int:
    """Sum as the Internet checksum does (RFC 1071); over data that holds its own checksum, 0 means correct."""
    if len(data) % 2:
        data += b"\0"
    total = sum(int.from_bytes(data[i : i + 2], "big") for i in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


class Reference:
    """The pipeline of one switch under a policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def process(
        self, port: int, data: bytes, depth: Callable[[int, int], int] = lambda port, queue: 0
    ) -> list[Outcome]:
        """Give every allowed outcome of a packet; `depth(port, class)` is the egress queue's, in the target's unit."""
        return list(self._process(port, data, depth))

    def _process(self, port: int, data: bytes, depth: Callable[[int, int], int]) -> Iterator[Outcome]:
        out_port = out_class = 0
        frame = data
        short = port == CPU_PORT and len(data) < 16
        from_controller = port == CPU_PORT and not short
        if from_controller:
            word = int.from_bytes(data[:2], "big")
            out_port, out_class, frame = word >> 7, word >> 4 & 7, data[2:]
        packet = _faulty(Parsed(bytearray(frame)), "truncated_other") if short else parse(frame)

        row = self.policy.look_up("ingress_port", ingress_port=port)
        index = row.parameters["index"] if row else OTHER_PORTS
        group = importance = 255
        if out_port:
            group = out_class
        elif packet.gradient:
            group, importance = self._classify_gradient(packet)
        else:
            row = self.policy.look_up("dscp_class", dscp=packet.dscp)
            group = row.parameters["class"] if row else 0
        walk = _Walk(self.policy, packet, port, index, group, importance, depth)
        walk.count("received", index * 8 + group)

        if packet.fault:
            walk.count("faults", packet.fault)
            row = self.policy.look_up("parser_fault", fault=packet.fault)
            if packet.fault == FAULTS["bad_checksum"] or (row and row.action == "drop_malformed"):
                yield walk.drop("malformed")
                return

        if out_port:
            yield walk.drop("policy") if out_port == DROP_PORT else walk.keep(out_port, group)
            return
        if not from_controller:
            if answer := self._answer_arp(packet):
                packet.frame = answer
                yield walk.keep(port, group)
                return
            row = self.policy.look_up("punt", ether_type=packet.ether_type, protocol=packet.protocol)
            match row.action if row else "pass":
                case "send_to_cpu":
                    walk.index = OTHER_PORTS
                    packet.frame = bytearray(_packet_in(port, 1)) + packet.frame
                    yield walk.keep(CPU_PORT, group)
                    return
                case "copy_to_cpu":
                    walk.copies.append((CPU_PORT, _packet_in(port, 2) + frame))
                case "drop_by_policy":
                    yield walk.drop("policy")
                    return
        yield from walk.route()

    def _classify_gradient(self, packet: Parsed) -> tuple[int, int]:
        at = packet.header
        kind, flags = packet.frame[at] & 15, packet.frame[at + 1]
        row = self.policy.look_up(
            "gradient_class", job=packet.number(at + 4, 2), layer=packet.number(at + 10, 2), type=kind
        )
        judged_by_rank = kind == DATA and not flags & (RETRANSMISSION | PROTECTED)
        return row.parameters["class"] if row else 0, packet.frame[at + 3] if judged_by_rank else 255

    def _answer_arp(self, packet: Parsed) -> bytearray | None:
        at = 18 if packet.number(12, 2) == VLAN else 14
        request = bytes.fromhex("0001080006040001")  # Ethernet, IPv4, their lengths, request
        if packet.ether_type != ARP or packet.fault or packet.frame[at : at + 8] != request:
            return None
        row = self.policy.look_up("arp_reply", target=packet.number(at + 24, 4))
        if row is None:
            return None
        mac = row.parameters["mac"].to_bytes(6, "big")
        frame = packet.frame
        sender, asked = frame[at + 8 : at + 18], frame[at + 24 : at + 28]
        return sender[:6] + mac + frame[12 : at + 6] + b"\0\2" + mac + asked + sender + frame[at + 28 :]


def _packet_in(port: int, reason: int) -> bytes:
    return (port << 7 | reason).to_bytes(2, "big")


@dataclass
class _Walk:
    """A packet on its way through ingress; `group` is its class."""

    policy: Policy
    packet: Parsed
    port: int
    index: int
    group: int
    importance: int
    depth: Callable[[int, int], int]
    counted: Counter[tuple[str, int]] = field(default_factory=Counter)
    copies: list[tuple[int, bytes]] = field(default_factory=list)

    def count(self, counter: str, index: int) -> None:
        self.counted[counter, index] += 1

    @property
    def band(self) -> int:
        return self.importance // 32

    def drop(self, reason: str | int) -> Outcome:
        code = REASONS[reason] if isinstance(reason, str) else reason
        self.count("dropped", ((self.index * 8 + self.group) * 8 + code) * 8 + self.band)
        return Outcome(list(self.copies), self.counted)

    def keep(self, port: int, queue: int, outcome: str = "kept") -> Outcome:
        cell = self.index * 8 + self.group
        self.count(outcome, cell)
        if outcome != "trimmed":
            self.count("kept_band", cell * 8 + self.band)
        if port != CPU_PORT:
            self.count("queue_delay", self.index * 8 + queue)  # of any bucket
        return Outcome([*self.copies, (port, bytes(self.packet.frame))], self.counted)

    def branch(self) -> _Walk:
        return replace(
            self,
            packet=replace(self.packet, frame=bytearray(self.packet.frame)),
            counted=Counter(self.counted),
            copies=list(self.copies),
        )

    def route(self) -> Iterator[Outcome]:
        packet = self.packet
        if packet.version == 4:
            row = self.policy.look_up("ipv4_route", destination=packet.number(packet.ip + 16, 4))
        elif packet.version == 6:
            row = self.policy.look_up("ipv6_route", destination=packet.number(packet.ip + 24, 16))
        else:
            row = None
        if row is None:
            yield self.drop("no_route")
        elif row.action == "drop_by_policy":
            yield self.drop("policy")
        elif row.action == "set_next_hop":
            yield self.branch().forward(row.parameters["next_hop"])
        else:
            yield from self.spray(row.parameters["group"])

    def spray(self, group: int) -> Iterator[Outcome]:
        packet = self.packet
        path = packet.frame[packet.header + 22] if packet.gradient else 0
        pinned = self.policy.look_up("pinned_path", group=group, path=path) if path else None
        if pinned:
            yield self.branch().forward(pinned.parameters["next_hop"])
            return
        members = self.policy.groups.get(group, ())
        if not members:
            yield self.drop("no_route")
        for next_hop in dict.fromkeys(member.next_hop for member in members):
            yield self.branch().forward(next_hop)

    def forward(self, next_hop: int) -> Outcome:
        packet, frame = self.packet, self.packet.frame
        row = self.policy.look_up("next_hop", next_hop=next_hop)
        if row is None:
            return self.drop("no_route")
        port, self.index = row.parameters["port"], row.parameters["port_index"]
        frame[0:6] = row.parameters["destination_mac"].to_bytes(6, "big")
        frame[6:12] = row.parameters["source_mac"].to_bytes(6, "big")
        hops = packet.ip + (8 if packet.version == 4 else 7)
        if frame[hops] <= 1:
            return self.drop("ttl")
        frame[hops] -= 1

        queue, outcome = self.group, "kept"
        depth = min(self.depth(port, self.group), 0xFFFF)
        row = self.policy.look_up("judge", **{"class": self.group}, importance=self.importance, depth=depth)
        match row.action if row else "keep":
            case "mark_or_keep":
                outcome = "marked" if self.mark() else "kept"
            case "mark_or_drop":
                if not self.mark():
                    return self.drop("not_ect")
                outcome = "marked"
            case "drop_judged":
                assert row is not None
                return self.drop(row.parameters["reason"] or REASONS["importance"])
            case "trim":
                assert row is not None
                if not self.trim():
                    return self.drop("importance")
                queue, outcome = row.parameters["trim_class"], "trimmed"
        self.mend_ipv4_checksum()
        result = self.keep(port, queue, outcome)
        result.next_hop = next_hop
        return result

    def mark(self) -> bool:
        """Set both ECN bits if the sender understands them."""
        packet = self.packet
        at, low = (packet.ip + 1, 0) if packet.version == 4 else (packet.ip + 1, 4)
        if packet.frame[at] >> low & 3 == 0:
            return False
        packet.frame[at] |= 3 << low
        return True

    def trim(self) -> bool:
        """Cut a gradient packet's values off and mend what they leave behind."""
        packet = self.packet
        if not packet.gradient or packet.frame[packet.header] & 15 != DATA or packet.number(packet.header + 20, 2) == 0:
            return False
        del packet.frame[packet.header + 32 :]
        packet.frame[packet.header] = 1 << 4 | TRIMMED
        packet.put(packet.l4 + 4, 2, 40)
        packet.put(packet.l4 + 6, 2, 0)
        if packet.version == 4:
            packet.put(packet.ip + 2, 2, packet.l4 - packet.ip + 40)
        else:
            packet.put(packet.ip + 4, 2, 40)
            pseudo = bytes(packet.frame[packet.ip + 8 : packet.ip + 40]) + (40).to_bytes(4, "big") + b"\0\0\0\x11"
            packet.put(packet.l4 + 6, 2, ones_complement(pseudo + bytes(packet.frame[packet.l4 :])) or 0xFFFF)
        return True

    def mend_ipv4_checksum(self) -> None:
        packet = self.packet
        if packet.version == 4:
            end = packet.ip + 4 * (packet.frame[packet.ip] & 15)
            packet.put(packet.ip + 10, 2, 0)
            packet.put(packet.ip + 10, 2, ones_complement(bytes(packet.frame[packet.ip : end])))
