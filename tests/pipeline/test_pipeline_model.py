# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Random packets under random policies: every target does what the reference model allows, and counts it so."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.pipeline.bench import Bench
from tests.pipeline.packets import (
    BFLOAT16,
    DATA,
    FLOAT16,
    FLOAT32,
    RECEIVER,
    RECEIVER6,
    SENDER,
    SENDER6,
    Frame,
    Gradient,
    arp_request,
    gradient,
    packet_out,
    with_byte,
)
from tests.pipeline.policies import (
    ANY,
    arp_reply,
    dscp_class,
    gradient_class,
    judge,
    next_hop,
    path_mode,
    pinned_path,
    port_index,
    punt,
    route4,
    route6,
)
from tests.pipeline.reference import ARP, CPU_PORT, IPV4, IPV6, TCP, UDP, Exact, Member, Policy, Range, Row, Ternary

SEEDS = range(int(os.environ.get("GRADLANE_MODEL_SEEDS", "8")))
PACKETS = 60
ANSWERED = 0x0A0001FE


@pytest.mark.parametrize("seed", SEEDS)
def test_random_packets_under_a_random_policy(bench: Bench, seed: int) -> None:
    random = Random(seed)
    bench.install(random_policy(random))
    for _ in range(PACKETS):
        port, frame = random_packet(random)
        if port == CPU_PORT or bench.target.carries(frame):
            bench.send(port, frame)
    bench.check_counts()


def random_policy(random: Random) -> Policy:
    """Draw rows for every table, and groups."""
    rows = [port_index(port, random.randrange(63)) for port in (1, 2, 3, 4) if random.random() < 0.8]
    rows += [
        Row("parser_fault", {"fault": Exact(fault)}, random.choice(("drop_malformed", "forward_as_ordinary")))
        for fault in range(1, 12)
        if random.random() < 0.3
    ]
    rows += [
        gradient_class(random.randrange(8), 1 + i, _ternary(random, 16, 4), _range(random, 12, 0xFFFF),
                       _ternary(random, 4, 4))
        for i in range(random.randrange(8))
    ]  # fmt: skip
    rows += [dscp_class(dscp, random.randrange(8)) for dscp in random.sample(range(64), random.randrange(20))]
    for i in range(random.randrange(3)):
        ether_type = random.choice((ANY, *(Ternary(kind, 0xFFFF) for kind in (ARP, IPV4, IPV6, 0x88CC))))
        protocol = random.choice((ANY, *(Ternary(kind, 0xFF) for kind in (TCP, 1, 58))))
        if ether_type != ANY or protocol != ANY:
            action = random.choice(("send_to_cpu", "copy_to_cpu", "drop_by_policy", "pass"))
            rows.append(punt(action, 1 + i, ether_type, protocol))

    hops = range(1, 9)
    rows += [next_hop(hop, random.choice((1, 2, 3, 4)), random.randrange(63)) for hop in hops if random.random() < 0.95]
    ports = {row.match["next_hop"].value: row.parameters["port"] for row in rows if row.table == "next_hop"}  # type: ignore[union-attr]
    groups = {
        group: tuple(
            Member(hop, ports.get(hop, 1), random.choice((1, 1, 2)))
            for hop in random.sample(hops, random.randrange(1, 5))
        )
        for group in range(1, 5)
    }

    def result() -> dict[str, int]:
        one, group = {"next_hop": random.choice(hops)}, {"group": random.choice((1, 2, 3, 4))}
        return random.choice((one, one, group, group, group, group, {}))

    for address, bits, route in ((RECEIVER, 32, route4), (SENDER, 32, route4), (RECEIVER6, 128, route6)):
        lengths = random.sample((0, 0, bits // 4, bits // 2, bits * 3 // 4, bits), random.randrange(1, 5))
        rows += [route(address, length, **result()) for length in lengths]
    rows = list({(row.table, *row.match.items()): row for row in rows}.values())

    rows += [pinned_path(group, path, random.choice(hops)) for group in groups for path in random.sample((1, 2, 3), 2)]
    modes = ("flow_hash", "random_member", "round_robin", "shallower_of_two")
    rows += [path_mode(one, random.choice(modes)) for one in range(8) if random.random() < 0.7]
    actions = ("keep", "mark_or_keep", "mark_or_drop", "trim", "drop_judged")
    for i, action in enumerate(random.choices(actions, k=random.randrange(12))):
        depth = Range(random.choice((0, 0, 0, 5)), random.choice((0, 9, 0xFFFF)))
        parameters = {"trim": {"trim_class": random.randrange(8)}, "drop_judged": {"reason": random.randrange(4)}}
        if depth.low <= depth.high:
            rows.append(judge(action, 1 + i, _ternary(random, 3, 8), _range(random, 256, 255), depth,
                              **parameters.get(action, {})))  # fmt: skip
    rows += [arp_reply(ANSWERED, 0x02AABBCCDDEE)] if random.random() < 0.5 else []
    return Policy(tuple(rows), groups)


def _ternary(random: Random, bits: int, below: int) -> Ternary:
    mask = random.choice((0, (1 << bits) - 1, random.getrandbits(bits)))
    return Ternary(random.randrange(below) & mask, mask)


def _range(random: Random, below: int, most: int) -> Range:
    low = random.choice((0, random.randrange(below)))
    return Range(low, random.choice((most, low, random.randrange(low, below))))


def random_packet(random: Random) -> tuple[int, bytes]:
    """Draw a packet and the port it arrives on: most of them sound gradient packets, the rest anything else."""
    frame = _random_frame(random)
    spoil = random.random()
    if spoil < 0.1:
        frame = frame[: random.randrange(len(frame))]
    elif spoil < 0.25 and frame:
        offset = random.randrange(min(len(frame), 90))
        frame = with_byte(frame, offset, frame[offset] ^ 1 << random.randrange(8))
    if random.random() < 0.1:
        return CPU_PORT, packet_out(frame, random.choice((0, 1, 2, 3, 511)), random.randrange(8))
    return random.choice((1, 2, 3, 4)), frame


def _random_frame(random: Random) -> bytes:
    version = random.choice((4, 4, 6))
    around = {
        "version": version,
        "destination": random.choice((RECEIVER, RECEIVER + 1, SENDER, 0xC0000201)) if version == 4 else
        random.choice((RECEIVER6, RECEIVER6 + 1, SENDER6)),
        "source_port": random.randrange(1024, 65536),
        "dscp": random.choice((0, random.randrange(64))),
        "ecn": random.choice((0, 1, 2, 3)),
        "hops": random.choice((64,) * 12 + (2, 2, 1, 0)),
        "vlan": random.choice((None, None, random.randrange(4096))),
        "options": random.choice((b"", b"", b"\1" * 4 * random.randrange(1, 11))) if version == 4 else b"",
        "fragment": random.choice((0, 0, 0, 0, 0x4000, 0x2000, 0x2001, 0x0010)) if version == 4 else 0,
        "padding": random.choice((0, 0, random.randrange(1, 20))),
    }  # fmt: skip
    kind = random.random()
    if kind < 0.7:
        header = Gradient(
            type=random.choice((DATA,) * 16 + tuple(range(10))),
            version=random.choice((1,) * 19 + (2,)),
            flags=random.choice((0, 0, 0, random.randrange(8))),
            data_type=random.choice((FLOAT32,) * 6 + (FLOAT16, BFLOAT16, FLOAT16, BFLOAT16, 3)),
            importance=random.randrange(256),
            job=random.randrange(4),
            layer=random.randrange(12),
            round=random.getrandbits(32),
            offset=random.getrandbits(32),
            count=random.choice((0, 1, 8, 9, random.randrange(300))),
            path=random.choice((0, 0, 1, 2, 3)),
            weight=random.getrandbits(32),
            sequence=random.getrandbits(32),
        )
        if random.random() < 0.05:
            header = Gradient(type=header.type, count=random.choice((1, 0x4000, 0xFFFF)), values=b"\0" * 4)
        return bytes(gradient(header, **around))
    if kind < 0.85:
        protocol = random.choice((TCP, UDP, 1, 58))
        return bytes(
            Frame(random.randbytes(random.randrange(60)), protocol=protocol, destination_port=5001).but(**around)
        )
    if kind < 0.93:
        return arp_request(random.choice((ANSWERED, RECEIVER)), vlan=around["vlan"])
    return Frame(vlan=random.choice((None, 7))).link(random.choice((0x88CC, 0x9000)), random.randbytes(50))
