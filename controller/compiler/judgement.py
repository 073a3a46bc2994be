# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Queue limits and the rows that judge a packet, in the unit in which the target counts a queue's depth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final

from controller.compiler.state import QueueLimit, Target
from controller.p4rt.entities import Between, Call, Entity, FieldMatch, Masked, TableEntry
from controller.policy import Judgement, Policy, Row
from controller.quantities import CLASSES, RANKS
from topologies.model import Port

CELL_BYTES: Final = 64  # what one unit of depth is on the softswitch
DEEPEST: Final = 0xFFFF  # depth enters judgement as bit<16>
DROPPED_BY_IMPORTANCE: Final = 1
DROPPED_FULL: Final = 3

_PRECEDENCE: Final = ("keep", "drop_judged", "trim", "mark_or_drop", "mark_or_keep")


@dataclass(frozen=True)
class Limit:
    """The limit of one class's queues on one switch, and where `full` stands below it. Bytes; 0 is none."""

    packets: int
    bytes: int
    full: int | None

    @staticmethod
    def of(policy: Policy, class_: int, rate_bps: int, ports: Sequence[Port]) -> Limit:
        """Return the limit of `class_` under a policy, for drain times at `rate_bps`. Raises UsageError."""
        queue = policy.queues.of_class(class_)
        if queue is None:
            packets = min((port.queues[class_].packets for port in ports), default=0)
            octets = min((port.queues[class_].bytes for port in ports), default=0)
            smallest = _smaller(packets * policy.packet_bytes, octets)
            return Limit(packets, octets, _full_below(smallest, smallest * 97 // 100, policy.packet_bytes))
        try:
            octets = queue.bytes.bytes_at(rate_bps, policy.packet_bytes) if queue.bytes else 0
            smallest = _smaller((queue.packets or 0) * policy.packet_bytes, octets)
            full = queue.full.bytes_at(rate_bps, policy.packet_bytes, smallest) if queue.full else None
        except ValueError as error:
            raise policy.error(str(error), "queues") from None
        return Limit(
            queue.packets or 0, octets, None if full is None else _full_below(smallest, full, policy.packet_bytes)
        )

    def on(self, target: Target, port: int, class_: int, packet_bytes: int) -> QueueLimit:
        """Return the limit as the target takes it: BMv2 counts packets alone."""
        if target == "bmv2":
            by_bytes = max(1, self.bytes // packet_bytes) if self.bytes else 0
            return QueueLimit(port, class_, _smaller(self.packets, by_bytes), 0)
        return QueueLimit(port, class_, self.packets, self.bytes)


def _smaller(first: int, second: int) -> int:
    """Return the smaller of two limits, of which 0 is none."""
    return min(first, second) if first and second else first or second


def _full_below(limit: int, full: int, packet_bytes: int) -> int:
    """Keep `full` low enough that a packet judged just below it still finds room, and above nothing at all."""
    return max(1, min(full, limit - packet_bytes)) if limit > packet_bytes else max(1, limit // 2)


def slowest(policy: Policy, ports: Iterable[Port]) -> int:
    """Return the lowest rate of some ports: a drain time speaks of it, since rows of judgement name no port."""
    return min((port.rate_bps or policy.unlimited_rate for port in ports), default=policy.unlimited_rate)


@dataclass(frozen=True)
class _Rule:
    """One row of judgement in the target's unit of depth."""

    ranks: tuple[int, int]
    depth: int
    action: Call


def rows(policy: Policy, limits: Sequence[Limit], rate: int, target: Target) -> Iterator[Entity]:
    """Yield the rows of judgement; `limits` are those of the classes in order, `rate` what drain times count on."""
    rules = [_rules(policy, class_, limits[class_], rate, target) for class_ in range(CLASSES)]
    for distinct in dict.fromkeys(rules):
        classes = {class_ for class_ in range(CLASSES) if rules[class_] == distinct}
        for class_match in _cubes(classes):
            for number, rule in enumerate(distinct):
                match: list[tuple[str, FieldMatch]] = []
                if class_match.mask:
                    match.append(("class", class_match))
                if rule.ranks != (0, RANKS - 1):
                    match.append(("importance", Between(*rule.ranks)))
                if rule.depth > 0:
                    match.append(("depth", Between(rule.depth, DEEPEST)))
                yield TableEntry("judge", tuple(match), rule.action, len(distinct) - number)


def _rules(policy: Policy, class_: int, limit: Limit, rate: int, target: Target) -> tuple[_Rule, ...]:
    """Return the rules of one class in the order in which they win: `full`, what is kept, then the severest first."""
    rules = []
    for block, judgement in enumerate(policy.judgement):
        if class_ in judgement.classes:
            rules += [
                _rule(policy, judgement, block, number, limit, rate, target) for number in range(len(judgement.rows))
            ]
    rules.sort(key=lambda rule: _PRECEDENCE.index(rule.action.action))
    if limit.full is not None:
        depth = _units(limit.full, target, policy.packet_bytes)
        if depth > DEEPEST:
            raise policy.error(_too_deep("full", limit.full, target), "queues")
        rules.insert(0, _Rule((0, RANKS - 1), depth, Call("drop_judged", (("reason", DROPPED_FULL),))))
    return tuple(rules)


def _rule(
    policy: Policy, judgement: Judgement, block: int, number: int, limit: Limit, rate: int, target: Target
) -> _Rule:
    row = judgement.rows[number]
    where = ("judgement", block, "rows", number, "above")
    try:
        octets = row.above.bytes_at(
            rate, policy.packet_bytes, _smaller(limit.packets * policy.packet_bytes, limit.bytes) or None
        )
    except ValueError as error:
        raise policy.error(str(error), *where) from None
    if limit.full is not None and octets >= limit.full:
        raise policy.error(
            f"{row.above} is {octets} bytes, which the queue never holds: `full` stands at {limit.full}", *where
        )
    depth = _units(octets, target, policy.packet_bytes)
    if depth > DEEPEST:
        raise policy.error(_too_deep(str(row.above), octets, target), *where)
    return _Rule(row.ranks, depth, _verdict(policy, row))


def _verdict(policy: Policy, row: Row) -> Call:
    match row.action:
        case "keep":
            return Call("keep")
        case "mark":
            return Call("mark_or_keep")
        case "mark_or_drop":
            return Call("mark_or_drop")
        case "trim":
            return Call("trim", (("trim_class", policy.classes.trimmed),))
        case "drop":
            return Call("drop_judged", (("reason", DROPPED_BY_IMPORTANCE),))


def _units(octets: int, target: Target, packet_bytes: int) -> int:
    """Return a depth in what the target counts: packets on BMv2, cells of 64 bytes on the softswitch."""
    return ceil(octets / (packet_bytes if target == "bmv2" else CELL_BYTES))


def _too_deep(what: str, octets: int, target: Target) -> str:
    return f"{what} is {octets} bytes, deeper than {target} can express ({DEEPEST} units)"


def _cubes(classes: set[int]) -> Iterator[Masked]:
    """Yield ternary matches that cover exactly `classes`, the widest first, few."""
    left = set(classes)
    for mask in sorted(range(CLASSES), key=lambda mask: mask.bit_count()):
        for value in range(CLASSES):
            if value & ~mask:
                continue
            covered = {class_ for class_ in range(CLASSES) if class_ & mask == value}
            if covered <= classes and covered & left:
                left -= covered
                yield Masked(value, mask)
