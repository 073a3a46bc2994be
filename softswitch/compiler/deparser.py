# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The deparser and the checksums around it."""

from __future__ import annotations

from softswitch.compiler.calculations import Calculations
from softswitch.compiler.expressions import Expressions, convert
from softswitch.compiler.model import Json, member, refuse
from softswitch.compiler.packing import emit_header, fixed_pieces, header_bytes
from softswitch.compiler.phv import HeaderReference
from softswitch.compiler.primitives import ActionScope, Primitives
from softswitch.compiler.unit import Unit, indent


class Deparser:
    """Write checksum verification, checksum update and the emission of headers."""

    def __init__(self, unit: Unit, calculations: Calculations) -> None:
        self.unit = unit
        self.calculations = calculations
        self.expressions = Expressions(unit.layout, ActionScope(unit, ()))
        self.primitives = Primitives(unit, calculations, self.expressions)
        self.headers: list[HeaderReference] = [
            unit.layout.header(name, "deparsers/deparser/order")
            for name in member(unit.program.deparser, "order", "deparsers/deparser")
        ]

    @property
    def max_bytes(self) -> int:
        """The longest the headers can be."""
        return sum(header.type.max_bytes for header in self.headers)

    def _checksum(self, item: Json, place: str) -> tuple[str, str, str]:
        """Return a checksum's condition, its value, and its target's code."""
        name = member(item, "calculation", place)
        calculation = self.unit.program.calculations.get(name)
        if calculation is None:
            refuse(f"no calculation '{name}'", place)
        if item.get("type", "generic") != "generic":
            refuse(f"checksum type '{item['type']}' is unknown", place)
        condition = "1"
        if item.get("if_cond") is not None:
            condition = self.expressions.condition(item["if_cond"], place)
        target = self.unit.layout.field(member(item, "target", place), place)
        return condition, self.calculations.call(calculation), target.code

    def verify(self) -> list[str]:
        """Write `verify_checksums`."""
        lines = ["static void verify_checksums(struct ss_state *s, struct ss_packet *p, struct phv *h)", "{"]
        lines += ["    (void)s; (void)h;", "    p->std.checksum_error = 0;"]
        for item, place in self.unit.program.checksums:
            if item.get("verify", True):
                condition, value, _ = self._checksum(item, place)
                target = self.unit.layout.field(item["target"], place)
                valid = target.header.valid if target.header else "1"
                number = convert(self.expressions.load(target), "u64")
                lines.append(f"    if ({valid} && {condition} && {value} != {number}) p->std.checksum_error = 1;")
        return [*lines, "}", ""]

    def update(self) -> list[str]:
        """Write `update_checksums`."""
        lines = ["static inline void update_checksums(struct ss_state *s, struct ss_packet *p, struct phv *h)", "{"]
        lines.append("    (void)s; (void)p; (void)h;")
        for item, place in self.unit.program.checksums:
            if item.get("update", True):
                condition, value, _ = self._checksum(item, place)
                target = self.unit.layout.field(item["target"], place)
                kind = "u64" if target.bits <= 64 else "u128" if target.bits <= 128 else "wide"
                code = (
                    value
                    if kind == "u64"
                    else f"(ss_u128){value}"
                    if kind == "u128"
                    else (f"ss_wide_from_u64({value})")
                )
                store = self.expressions.store(target, code)
                lines.append(f"    if ({condition}) {{ {store} }}")
        return [*lines, "}", ""]

    def function(self) -> list[str]:
        """Write `deparse_packet`: headers go in front of the payload."""
        layout = self.unit.layout
        lines = ["static void deparse_packet(struct ss_state *s, struct ss_packet *p, struct phv *h)", "{"]
        lines.append("    update_checksums(s, p, h);")
        primitives = self.unit.program.deparser.get("primitives") or []
        lines += indent(self.primitives.statements(primitives, "deparsers/deparser"))
        lines.append("    uint32_t size = 0;")
        for header in self.headers:
            size = header_bytes(layout, header)
            lines.append(f"    size += {header.valid} ? {size} : 0;" if not header.metadata else f"    size += {size};")
        lines.append("    uint8_t *q = p->data + p->payload - size;")
        lines.append("    p->length += size - p->payload;")
        lines.append("    p->payload = size;")
        lines.append("    p->data = q;")
        for header in self.headers:
            pieces = fixed_pieces(layout, header)
            ragged = any(piece.offset % 8 and piece.bits > 64 for piece in pieces) or header.type.varbit is not None
            body = emit_header(layout, header, "q")
            size = header_bytes(layout, header)
            if ragged or any("ss_put_bits" in line for line in body):
                body = [f"memset(q, 0, {size});", *body]
            lines.append(f"    if ({header.valid}) {{")
            lines += indent([*body, f"q += {size};"], 2)
            lines.append("    }")
        lines.append("    (void)q;")
        return [*lines, "}", ""]
