# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The templates: what each writes into its tables, and which frames it is sent. The first byte of a frame is its own.

What is random comes from the seed alone, so that a recorded outcome can be held against the same entries and frames.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

from tests.differential.program import Names, Program, multicast, session

FRAMES = 96
IN_PORT = 1


@dataclass
class Case:
    """One run of a template."""

    entities: list[Any] = field(default_factory=list)
    value_sets: dict[str, list[tuple[tuple[int, int], ...]]] = field(default_factory=dict)  # (value, bits) each
    frames: list[tuple[int, bytes]] = field(default_factory=list)
    read: list[Any] = field(default_factory=list)  # entities to read at the end


@dataclass(frozen=True)
class Template:
    """A program and how its cases are made."""

    program: Program
    make: Callable[[Names, Random], Case]

    def case(self, seed: int) -> Case:
        """Return the case of a seed."""
        return self.make(Names(self.program.info()), Random(f"{self.program.name} {seed}"))


def number(random: Random, octets: int) -> bytes:
    """Return a number that is often a border: random, 0, 1, all ones, a power of two, or one less."""
    bits = 8 * octets
    value = random.choice(
        [random.getrandbits(bits), random.getrandbits(bits), 0, 1, (1 << bits) - 1, 1 << random.randrange(bits),
         (1 << random.randrange(bits)) - 1, random.getrandbits(bits // 2)]
    )  # fmt: skip
    return value.to_bytes(octets, "big")


def match_case(names: Names, random: Random) -> Case:
    """Fill tables of every kind from small pools of values, so that entries overlap and frames hit them."""
    case = Case()
    small = [random.getrandbits(8) for _ in range(6)]
    words = [random.getrandbits(16) for _ in range(6)]
    longs = [random.getrandbits(32) for _ in range(5)]
    macs = [random.getrandbits(48) for _ in range(4)]
    addresses = [random.getrandbits(128) for _ in range(4)]
    serial = iter(range(1, 10_000))
    seen: set[tuple[Any, ...]] = set()

    def add(table: str, key: dict[str, Any], action: str, *, ranked: bool = False) -> None:
        if (table, *sorted(key.items())) in seen:
            return
        seen.add((table, *sorted(key.items())))
        place = next(serial)
        case.entities.append(names.entry(table, key, action, place, priority=place if ranked else 0))

    def prefix(value: int, bits: int) -> tuple[int, int]:
        length = random.randrange(1, bits + 1)
        return value >> (bits - length) << (bits - length), length

    def masked(value: int, bits: int) -> tuple[int, int]:
        mask = random.choice([(1 << bits) - 1, random.getrandbits(bits), 0xF0 << (bits - 8)]) or 1
        return value & mask, mask

    def span(values: list[int]) -> tuple[int, int]:
        low, high = sorted(random.choices(values, k=2))
        return low, high

    for _ in range(20):
        add("exact_table", {"h.probe.b": random.choice(words), "h.probe.a": random.choice(small)}, "exact_result")
        add("lpm_table", {"h.probe.c": prefix(random.choice(longs), 32)}, "lpm_result")
        long = {"h.probe.a": random.choice(small), "h.probe.e": prefix(random.choice(addresses), 128)}
        add("long_lpm_table", long, "lpm_result")
        range_key = {"h.probe.b": span(words), "h.probe.a": span(small)}
        add("range_table", range_key, "range_result", ranked=True)
        optional = {"h.probe.a": random.choice(small), "h.probe.b": random.choice(words)}
        chosen = dict(random.sample(sorted(optional.items()), random.randrange(1, 3)))
        add("optional_table", chosen, "optional_result", ranked=True)
        mixed = {
            "h.probe.a": random.choice(small), "h.probe.c": masked(random.choice(longs), 32),
            "h.probe.b": span(words), "h.probe.d": prefix(random.choice(macs), 48),
        }  # fmt: skip
        add("mixed_table", mixed, "mixed_result", ranked=True)
    for _ in range(80):  # beyond the 64 that are matched by bit vectors
        key = {"h.probe.a": masked(random.choice(small), 8), "h.probe.d": masked(random.choice(macs), 48)}
        add("ternary_table", key, random.choice(["ternary_result", "ternary_twin"]), ranked=True)
    for place in range(FRAMES):
        a, b, c = random.choice(small), random.choice(words), random.choice(longs) ^ (1 << random.randrange(32))
        d, e = random.choice(macs), random.choice(addresses) ^ (1 << random.randrange(128))
        frame = bytes([place, a]) + b.to_bytes(2, "big") + c.to_bytes(4, "big")
        case.frames.append((IN_PORT, frame + d.to_bytes(6, "big") + e.to_bytes(16, "big") + bytes(16) + b"rest"))
    return case


def selector_case(names: Names, random: Random) -> Case:
    """Give every selector groups of equal and of unequal weights, single members, and gaps in the ids."""
    case = Case()
    for kind in ("crc16", "crc32", "csum16", "xor16", "identity", "turn"):
        profile = f"{kind}_selector"
        members = sorted(random.sample(range(1, 40), 7))
        for member in members:
            case.entities.append(names.member(profile, member, f"{kind}_choice", member))
        groups = {1: random.sample(members, 5), 2: random.sample(members, 3), 3: members}
        for group, chosen in groups.items():
            weights = [(member, random.randrange(1, 4) if group == 2 else 1) for member in chosen]
            case.entities.append(names.group(profile, group, weights))
            case.entities.append(names.by_reference(f"{kind}_table", {"h.flow.kind": group}, group=group))
        case.entities.append(names.by_reference(f"{kind}_table", {"h.flow.kind": 4}, member=random.choice(members)))
    for member in (3, 9):
        case.entities.append(names.member("plain_profile", member, "profile_choice", 100 + member))
        case.entities.append(names.by_reference("profile_table", {"h.flow.kind": member % 4}, member=member))
    for place in range(FRAMES):
        flow = bytes([place, random.randrange(6)]) + number(random, 2) + number(random, 4) + number(random, 6)
        case.frames.append((IN_PORT, flow + bytes(18)))
    return case


def passes_case(names: Names, random: Random) -> Case:
    """Send every pair of a first and a second pass that matter, and random triples."""
    case = Case()
    for group in (1, 2, 3):
        replicas = [(port, random.randrange(1, 5)) for port in random.sample(range(1, 9), group)]
        case.entities.append(multicast(group, replicas))
        case.entities.append(session(group, [(port % 8 + 1, instance) for port, instance in replicas[:2]]))
    steps = [0x00, 0x01, 0x02, 0x04, 0x08, 0x10, 0x20, 0x40, 0x80]
    plans = [(first, second, 0) for first, second in product(steps, repeat=2) if first in (0x01, 0x02, 0x10, 0x20)]
    plans += [(random.choice(steps) | random.choice(steps), random.choice(steps) | random.choice(steps),
               random.choice(steps)) for _ in range(3 * FRAMES - len(plans))]  # fmt: skip
    random.shuffle(plans)
    for place, plan in enumerate(plans[:250]):
        order = bytes([place, *plan, random.randrange(1, 9), random.randrange(4), random.randrange(1, 5)])
        order += bytes([random.randrange(2, 40)])  # group 0 is none; session 4 is not there
        case.frames.append((random.randrange(1, 9), order + bytes(21) + bytes(range(random.randrange(30)))))
    return case


def hashes_case(names: Names, random: Random) -> Case:
    """Hash numbers that are often borders."""
    case = Case()
    for place in range(FRAMES):
        head = bytes([place]) + b"".join(number(random, octets) for octets in (1, 2, 4, 1, 6, 16))
        most = random.choice([1, 2, 3, 7, 255, 256, 1000, random.randrange(1, 65536)])
        case.frames.append((IN_PORT, head + most.to_bytes(2, "big") + bytes(58)))
    return case


def state_case(names: Names, random: Random) -> Case:
    """Work on registers, counters and meters cell by cell, and learn. No meter refills: BMv2's clock runs on."""
    case = Case()
    case.entities.append(names.learning("learned_t"))
    for flow in (1, 2, 3):
        case.entities.append(names.entry("count_table", {"h.state.flow": flow}, "counted", 3 + flow))
    for flow, rates in ((1, (0, 3, 0, 5)), (2, (0, 1, 0, 1))):
        entity = names.entry("meter_table", {"h.state.flow": flow}, "metered")
        config = entity.table_entry.meter_config
        config.cir, config.cburst, config.pir, config.pburst = rates
        case.entities.append(entity)
    case.entities.append(names.entry("meter_table", {"h.state.flow": 3}, "metered"))
    for index in range(5):
        case.entities.append(names.meter("packet_meter", index, (0, 2 + index, 0, 5 + index)))
        case.entities.append(names.meter("byte_meter", index, (0, 100 * (index + 1), 0, 150 * (index + 1))))
    for place in range(FRAMES):
        flow, index = random.randrange(5), random.choice([*range(8), 8, 100])
        frame = bytes([place, flow]) + index.to_bytes(2, "big") + number(random, 4) + bytes(16)
        frame += bytes([random.randrange(2)]) + bytes(random.randrange(40))
        case.frames.append((random.randrange(1, 4), frame))
    case.read = [names.counters["seen"], *(names.key("count_table", {"h.state.flow": flow}) for flow in (1, 2, 3))]
    return case


def shapes_case(names: Names, random: Random) -> Case:
    """Send stacks, unions and varbits, whole, cut short and too long."""
    case = Case()
    for place in range(240):
        labels, choice = random.choice([0, 1, 2, 3, 4, 4, 5]), random.choice([0, 1, 2, 3, 4, 5])
        options = random.choice([0, 1, 3, 8, 20, 21, 0xFF])
        work = random.choice([0, random.getrandbits(8), 1 << random.randrange(8)])
        frame = bytes([place, labels, choice, options, work, random.randrange(5), 0, 0])
        bottom = random.randrange(8)
        for label in range(labels):
            frame += (random.getrandbits(15) << 1 | (label == bottom)).to_bytes(2, "big")
        frame += random.randbytes({0: 0, 1: 1, 2: 3, 3: 8, 4: 2, 5: 0}[choice])
        if options != 0xFF:
            frame += random.randbytes(1 + options + 2)
        frame += random.randbytes(random.randrange(6))
        case.frames.append((IN_PORT, frame[: random.randrange(8, len(frame) + 1)] if place % 5 == 0 else frame))
    return case


def arithmetic_case(names: Names, random: Random) -> Case:
    """Compute on borders; a's and b's are often equal."""
    case = Case()
    for place in range(FRAMES):
        frame = bytes([place])
        for octets in (1, 4, 8, 16, 32):
            a = number(random, octets)
            frame += a + (a if random.random() < 0.2 else number(random, octets))
        distance = random.choice([0, 1, 7, 31, 32, 63, 64, 127, 128, 200, 255])
        case.frames.append((IN_PORT, frame + bytes([distance]) + number(random, 256)))
    return case


def select_case(names: Names, random: Random) -> Case:
    """Fill value sets, and send headers of right and of wrong checksums."""
    case = Case()
    chosen = [random.getrandbits(9) for _ in range(4)]
    pairs = [(random.getrandbits(9), random.getrandbits(16)) for _ in range(4)]
    case.value_sets["SelectParser.chosen"] = [((value, 9),) for value in chosen]
    case.value_sets["SelectParser.pairs"] = [((v, 9), (b, 16)) for v, b in pairs]
    for place in range(FRAMES):
        v, b = random.choice(pairs) if random.random() < 0.4 else (random.choice(chosen), random.getrandbits(16))
        a = random.choice([0x7F, 0x41, 0x61, 0x30, random.getrandbits(8)])
        c = int.from_bytes(number(random, 4), "big") | random.choice([0, 0x80000000])
        last = v << 7 | random.getrandbits(7)
        frame = bytes([place, a]) + b.to_bytes(2, "big") + c.to_bytes(4, "big") + last.to_bytes(2, "big") + bytes(5)
        count = random.randrange(1, 5)
        words = bytes([0x40 | count, random.getrandbits(8)]) + bytes(2) + random.randbytes(4 * count - 4)
        if random.random() < 0.7:
            words = words[:2] + checksum(words).to_bytes(2, "big") + words[4:]
        payload = random.randbytes(random.randrange(20))
        case.frames.append((IN_PORT, frame + random.choice([words, words, b"\x30"]) + random.randbytes(4) + payload))
    return case


def checksum(octets: bytes) -> int:
    """Return the Internet checksum of whole words (RFC 1071)."""
    total = sum(int.from_bytes(octets[place : place + 2], "big") for place in range(0, len(octets), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


TEMPLATES = {
    name: Template(Program(name), make)
    for name, make in {
        "match": match_case, "selector": selector_case, "passes": passes_case, "hashes": hashes_case,
        "state": state_case, "shapes": shapes_case, "arithmetic": arithmetic_case, "select": select_case,
    }.items()
}  # fmt: skip
