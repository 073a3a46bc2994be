# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Headers that a frame carries through the switch: the deparser leaves their bytes where they came in, and writes again
only those that a program may have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from softswitch.compiler.model import Json, Program, member
from softswitch.compiler.phv import VALID, Layout

MAKERS = {
    "add_header", "add_header_fast", "assign_header", "copy_header", "assign_union", "assign_header_stack",
    "assign_union_stack", "push",
}  # fmt: skip
WRITE_FIRST = {  # their first parameter is what they write
    "assign", "modify_field", "set", "assign_VL", "add_to_field", "subtract_from_field", "add", "subtract", "bit_xor",
    "bit_or", "bit_and", "shift_left", "shift_right", "modify_field_rng_uniform",
    "modify_field_with_hash_based_offset", "register_read",
}  # fmt: skip
WRITE_NOTHING = {
    "_jump", "_jump_if_zero", "assert", "assume", "log_msg", "truncate", "count", "register_write", "extract",
    "extract_VL", "verify", "advance", "shift",
}  # fmt: skip


@dataclass(frozen=True)
class Carried:
    """The fields of a header that a program names, and those that it may change."""

    used: frozenset[str]
    changed: frozenset[str]


def _nodes(node: Json) -> Iterator[Json]:
    yield node
    for item in node if isinstance(node, list) else node.values() if isinstance(node, dict) else ():
        yield from _nodes(item)


def added_headers(program: Program, layout: Layout) -> set[str]:
    """Find the headers that something other than an extraction may make valid, by their C lvalue."""
    names: set[str] = set()
    for maker in _nodes([[action.primitives for action in program.actions], program.parser, program.deparser]):
        if not isinstance(maker, dict) or maker.get("op") not in MAKERS:
            continue
        for node in _nodes(maker.get("parameters")):
            if not isinstance(node, dict):
                continue
            kind, value = node.get("type"), node.get("value")
            if kind == "header" and value in program.headers:
                names.add(value)
            elif kind == "header_stack" and value in program.stacks:
                names |= {element.name for element in program.stacks[value].elements}
            elif kind == "header_union" and value in program.unions:
                names |= {header.name for header in program.unions[value].members}
            elif kind == "header_union_stack" and value in program.union_stacks:
                names |= {h.name for union in program.union_stacks[value].elements for h in union.members}
    return {layout.header(name, "").code for name in names}


class _Names:
    """The fields and whole headers that a document names, and the fields that it may write."""

    def __init__(self) -> None:
        self.used: set[tuple[str, str]] = set()
        self.changed: set[tuple[str, str]] = set()
        self.whole: set[Any] = set()

    def look(self, node: Json) -> None:
        """Note all names in a node."""
        if isinstance(node, list):
            self.pair(node, self.used.add)
            for item in node:
                self.look(item)
        elif isinstance(node, dict):
            op = node.get("op")
            if node.get("type") == "header" and isinstance(node.get("value"), str):
                self.whole.add(node["value"])
            if isinstance(op, str) and isinstance(node.get("parameters"), list) and op not in WRITE_NOTHING:
                written = node["parameters"][: 1 if op in WRITE_FIRST else None]
                for part in _nodes(written):
                    self.pair(part, self.changed.add)
            only_validity = op in ("remove_header", "valid")
            for item in node.values():
                operands = item if isinstance(item, list) else [item]
                named = [o for o in operands if isinstance(o, dict) and o.get("type") == "header"]
                self.look([o for o in operands if o not in named] if only_validity and named else item)

    @staticmethod
    def pair(node: Json, note: Callable[[tuple[str, str]], None]) -> None:
        """Note a node that may name a field."""
        if isinstance(node, list) and len(node) == 2 and isinstance(node[0], str) and isinstance(node[1], str):
            note((node[0], node[1]))


def carried_headers(program: Program, layout: Layout) -> dict[str, Carried]:
    """Find the headers that only an extraction makes valid, that are emitted once, and named by their fields alone."""
    order = member(program.deparser, "order", "deparsers/deparser")
    added = added_headers(program, layout)
    names = _Names()
    names.look(program.document)
    for item, _ in program.checksums:
        names.pair(item.get("target"), names.changed.add)
    names.changed |= {meter.result for meter in program.meters.values() if meter.result is not None}
    carried = {}
    for name in order:
        header = layout.header(name, "deparsers/deparser/order")
        fixed = header.type.varbit is None and not header.metadata and layout.is_alone(name)
        if not fixed or order.count(name) > 1 or header.code in added or name in names.whole:
            continue
        if (name, VALID) not in names.changed:
            carried[name] = Carried(
                frozenset(field for owner, field in names.used if owner == name),
                frozenset(field for owner, field in names.changed if owner == name),
            )
    return carried
