# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Tables of every kind against a list that is searched from end to end."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from bmv2_json import EGRESS_SPEC, ProgramBuilder, assign, field, hexstr, param

from softswitch.objects import Match, ObjectError, Objects, TableView
from softswitch.switch import Switch

Load = Callable[..., Switch]
KEYS = {
    "exact_narrow": [("exact", 9)],
    "exact_two_narrow": [("exact", 3), ("exact", 8)],
    "exact_word": [("exact", 48)],
    "exact_wide": [("exact", 128), ("exact", 16), ("exact", 300)],
    "lpm": [("lpm", 32)],
    "lpm_wide": [("lpm", 128)],
    "lpm_and_exact": [("exact", 12), ("lpm", 20), ("exact", 1)],
    "ternary": [("ternary", 16), ("ternary", 4)],
    "ternary_wide": [("ternary", 128), ("ternary", 9)],
    "range": [("range", 16)],
    "range_middle": [("range", 12), ("range", 9), ("ternary", 4)],
    "range_narrow": [("range", 8), ("ternary", 3), ("range", 5)],
    "range_tiny": [("range", 5), ("range", 3), ("exact", 2), ("range", 7)],
    "range_wide": [("range", 100), ("exact", 4)],
    "mixed": [("ternary", 16), ("range", 16), ("exact", 3), ("lpm", 24), ("range", 8)],
}


@dataclass
class Rule:
    """An entry of the reference."""

    matches: list[Match]
    priority: int
    value: int
    order: int


def build(load: Load, keys: list[tuple[str, int]], size: int = 1024) -> tuple[Switch, TableView]:
    program = ProgramBuilder()
    names = [f"k{number}" for number in range(len(keys))]
    program.header("in", [[name, bits] for name, (_, bits) in zip(names, keys, strict=True)])
    program.header("out", [["value", 32]])
    program.state("start", program.extract("in"))
    answer = [{"op": "add_header", "parameters": [{"type": "header", "value": "out"}]},
              {"op": "remove_header", "parameters": [{"type": "header", "value": "in"}]},
              assign(EGRESS_SPEC, hexstr(1))]  # fmt: skip
    program.action("hit", [("value", 32)], *answer, assign(field("out", "value"), param(0)))
    program.action("miss", [], *answer)
    program.table(
        "t",
        [(kind, field("in", name)) for name, (kind, _) in zip(names, keys, strict=True)],
        ["hit", "miss"],
        default=("miss", []),
        size=size,
    )
    switch = load(program)
    return switch, Objects(switch).table("t")


def accepts(kind: str, bits: int, match: Match, value: int) -> bool:
    match kind:
        case "exact":
            return match == value
        case "lpm":
            assert isinstance(match, tuple)
            return (match[0] ^ value) >> (bits - match[1]) == 0
        case "ternary":
            assert isinstance(match, tuple)
            return (match[0] ^ value) & match[1] == 0
        case _:
            assert isinstance(match, tuple)
            return match[0] <= value <= match[1]


class Reference:
    """The same table as a list."""

    def __init__(self, keys: list[tuple[str, int]], source: random.Random, masks: int) -> None:
        self.keys = keys
        self.source = source
        self.rules: list[Rule] = []
        self.order = 0
        self.has_priority = any(kind in ("ternary", "range") for kind, _ in keys)
        size = 60 if any(kind == "lpm" for kind, _ in keys) and not self.has_priority else 12
        self.pools = [[source.getrandbits(bits) for _ in range(size)] for _, bits in keys]
        self.masks = [[source.getrandbits(bits) for _ in range(masks)] for _, bits in keys]

    def random_matches(self) -> list[Match]:
        result: list[Match] = []
        for (kind, bits), pool, masks in zip(self.keys, self.pools, self.masks, strict=True):
            value = self.source.choice(pool)
            full = (1 << bits) - 1
            if kind == "exact":
                result.append(value)
            elif kind == "lpm":
                length = self.source.choice([0, 1, bits // 3, bits // 2, bits // 2 + 1, bits - 3, bits - 1, bits])
                result.append((value & full & ~((1 << (bits - length)) - 1), length))
            elif kind == "ternary":
                mask = self.source.choice([0, full, full & ~0xF, self.source.choice(masks)])
                result.append((value & mask, mask))
            else:
                low, high = sorted((value, self.source.choice(pool)))
                result.append(self.source.choice([(low, high), (0, full), (value, value), (0, high), (low, full)]))
        return result

    def key(self) -> list[int]:
        """A key near the pool, so that entries are hit."""
        result = []
        for (_, bits), pool in zip(self.keys, self.pools, strict=True):
            value = self.source.choice(pool)
            if self.source.random() < 0.3:
                value ^= 1 << self.source.randrange(bits)
            result.append(value)
        return result

    def find(self, matches: list[Match], priority: int) -> Rule | None:
        return next((r for r in self.rules if r.matches == matches and r.priority == priority), None)

    def lookup(self, key: list[int]) -> int:
        best: tuple[tuple[int, int], int] | None = None
        for rule in self.rules:
            fits = all(
                accepts(kind, bits, match, value)
                for (kind, bits), match, value in zip(self.keys, rule.matches, key, strict=True)
            )
            if fits:
                length = sum(m[1] for (k, _), m in zip(self.keys, rule.matches, strict=True)
                             if k == "lpm" and isinstance(m, tuple))  # fmt: skip
                rank = (rule.priority, -rule.order) if self.has_priority else (length, 0)
                if best is None or rank > best[0]:
                    best = (rank, rule.value)
        return 0 if best is None else best[1]


def frame(keys: list[tuple[str, int]], key: list[int]) -> bytes:
    packed = total = 0
    for (_, bits), value in zip(keys, key, strict=True):
        packed, total = packed << bits | value, total + bits
    spare = -total % 8
    return (packed << spare).to_bytes((total + spare) // 8, "big")


def answer(switch: Switch, keys: list[tuple[str, int]], key: list[int]) -> int:
    [(port, out)] = switch.inject(0, frame(keys, key))
    assert port == 1
    return int.from_bytes(out, "big")


CASES = [(name, masks) for name, keys in KEYS.items() for masks in ([2, 40] if ("ternary" in dict(keys)) else [2])]


@pytest.mark.parametrize(("name", "masks"), CASES)
def test_lookups_agree_with_a_search_of_all_entries(name: str, masks: int, load: Load) -> None:
    keys = KEYS[name]
    source = random.Random(f"{name} {masks}")
    switch, table = build(load, keys)
    reference = Reference(keys, source, masks)
    for step in range(600):
        # Grow, shrink below the size at which tables change their method, and grow again.
        growing = step % 400 < 250
        if reference.rules and source.random() < (0.2 if growing else 0.8):
            rule = source.choice(reference.rules)
            if source.random() < 0.2:
                rule.value = source.getrandbits(32)
                table.modify(rule.matches, "hit", [rule.value], priority=rule.priority)
            else:
                reference.rules.remove(rule)
                table.remove(rule.matches, priority=rule.priority)
        else:
            matches = reference.random_matches()
            priority = source.randrange(1, 30) if reference.has_priority else 0
            value = source.getrandbits(32) or 1
            if reference.find(matches, priority):
                with pytest.raises(ObjectError, match="exists"):
                    table.insert(matches, "hit", [value], priority=priority)
            else:
                table.insert(matches, "hit", [value], priority=priority)
                reference.rules.append(Rule(matches, priority, value, reference.order))
                reference.order += 1
        assert len(table) == len(reference.rules)
        for _ in range(3):
            key = reference.key()
            assert answer(switch, keys, key) == reference.lookup(key)
    listed = {(entry.matches, entry.priority): entry.parameters for entry in table}
    assert len(listed) == len(reference.rules)


@pytest.mark.parametrize("masks", [2, 300])
@pytest.mark.parametrize("name", ["ternary", "ternary_wide", "range", "mixed"])
def test_hundreds_of_rules_agree_with_a_search_of_all(name: str, masks: int, load: Load) -> None:
    keys = KEYS[name]
    source = random.Random(f"{name} {masks}")
    switch, table = build(load, keys)
    reference = Reference(keys, source, masks)
    for target in (900, 300, 700, 20, 100):
        while len(reference.rules) != target:
            if len(reference.rules) > target:
                rule = reference.rules.pop(source.randrange(len(reference.rules)))
                table.remove(rule.matches, priority=rule.priority)
                continue
            matches, priority, value = reference.random_matches(), source.randrange(1, 200), source.getrandbits(32) or 1
            if not reference.find(matches, priority):
                table.insert(matches, "hit", [value], priority=priority)
                reference.rules.append(Rule(matches, priority, value, reference.order))
                reference.order += 1
        for _ in range(40):
            key = reference.key()
            assert answer(switch, keys, key) == reference.lookup(key)


def advised_for_large_pages() -> int:
    """Return how many KiB of this process the kernel was asked to hold in large pages."""
    mappings = re.findall(r"^Size: +(\d+) kB|^VmFlags:(.*)", Path("/proc/self/smaps").read_text(), re.M)
    sizes = [int(size) for size, _ in mappings if size]
    flags = [line.split() for size, line in mappings if not size]
    return sum(size for size, names in zip(sizes, flags, strict=True) if "hg" in names)


def test_only_a_large_table_asks_for_large_pages(load: Load) -> None:
    _, table = build(load, [("exact", 40)], size=1 << 15)
    before = advised_for_large_pages()
    for value in range(1 << 10):
        table.insert([value], "hit", [value])
    assert advised_for_large_pages() <= before
    for value in range(1 << 10, 1 << 15):
        table.insert([value], "hit", [value])
    if Path("/sys/kernel/mm/transparent_hugepage").exists():
        assert advised_for_large_pages() > 0


@pytest.mark.parametrize("keys", [[("lpm", 32)], [("lpm", 128)], [("exact", 40)]])
def test_large_tables_keep_what_they_hold(keys: list[tuple[str, int]], load: Load) -> None:
    [(kind, bits)] = keys
    source = random.Random(f"{kind} {bits}")
    switch, table = build(load, keys, size=1 << 15)
    lengths = [bits] if kind == "exact" else [bits, bits - 3, bits - 8, bits // 2 + 1, bits // 2, bits // 3, 2]
    held: dict[tuple[int, int], int] = {}

    def match(top: int, length: int) -> Match:
        return top if kind == "exact" else (top << (bits - length), length)

    def lookup(key: int) -> int:
        return next((held[found] for found in ((key >> (bits - n), n) for n in lengths) if found in held), 0)

    while len(held) < 20_000:
        length = source.choice(lengths)
        prefix = (source.getrandbits(length), length)
        if prefix not in held:
            held[prefix] = source.getrandbits(32) or 1
            table.insert([match(*prefix)], "hit", [held[prefix]])
    for share in (1.0, 0.3):
        for prefix in [prefix for prefix in held if source.random() > share]:
            del held[prefix]
            table.remove([match(*prefix)])
        assert {entry.parameters[0] for entry in table} == set(held.values())
        for top, length in source.sample(list(held), 300):
            key = top << (bits - length) | source.getrandbits(bits - length)
            assert answer(switch, keys, [key]) == lookup(key)


def test_a_full_table_refuses_and_takes_again_after_a_removal(load: Load) -> None:
    _, table = build(load, [("exact", 16)], size=4)
    for value in range(4):
        table.insert([value], "hit", [value])
    with pytest.raises(ObjectError) as refused:
        table.insert([9], "hit", [9])
    assert refused.value.status == "full"
    table.remove([2])
    table.insert([9], "hit", [9])
    assert sorted(entry.matches[0][0] for entry in table) == [0, 1, 3, 9]


def test_changes_of_missing_entries_are_refused(load: Load) -> None:
    _, table = build(load, [("exact", 16)])
    with pytest.raises(ObjectError, match="not found"):
        table.remove([1])
    with pytest.raises(ObjectError, match="not found"):
        table.modify([1], "hit", [1])


def test_the_default_action_can_be_set_and_restored(load: Load) -> None:
    keys = [("exact", 16)]
    switch, table = build(load, keys)
    assert answer(switch, keys, [5]) == 0
    table.set_default("hit", [77])
    assert answer(switch, keys, [5]) == 77
    table.set_default(None)
    assert answer(switch, keys, [5]) == 0


def test_listing_survives_changes_between_its_steps(load: Load) -> None:
    switch, table = build(load, [("exact", 16)])
    for value in range(50):
        table.insert([value], "hit", [value])
    objects = table.objects
    cursor, out = objects.ffi.new("uint64_t *"), objects.ffi.new("struct ss_entry *")
    seen = []
    while True:
        with switch.locked():
            if not objects.lib.ss_table_next(table.raw, cursor, out):
                break
            seen.append(int.from_bytes(objects.ffi.buffer(out.value, 2)[:], "big"))
        if len(seen) == 20:
            table.remove([3])
            table.remove([40])
            table.insert([1000], "hit", [1])
    assert len(seen) == len(set(seen))
    assert set(range(50)) - {40} <= set(seen)


def test_values_beyond_a_fields_width_are_refused(load: Load) -> None:
    _, table = build(load, [("exact", 9)])
    with pytest.raises(ObjectError, match="invalid"):
        table.insert([0x3FF], "hit", [1])
