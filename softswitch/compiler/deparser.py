# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The deparser and the checksums around it."""

from __future__ import annotations

from softswitch.compiler.calculations import Calculations
from softswitch.compiler.carried import added_headers
from softswitch.compiler.expressions import Expressions, convert
from softswitch.compiler.model import Json, member, refuse
from softswitch.compiler.packing import emit_changed, emit_header, fixed_pieces, header_bytes
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

    def growth(self) -> int:
        """Return the bytes by which headers may grow a packet beyond what was parsed, as far as that is known.

        Headers that only the parser makes valid take the place they came from.
        """
        added = added_headers(self.unit.program, self.unit.layout)
        total = 0
        seen: set[str] = set()
        for header in self.headers:
            if header.code in seen or header.code in added or header.type.varbit is not None or header.metadata:
                total += header.type.max_bytes
            seen.add(header.code)
        return total

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
        """Write `deparse_packet`: headers go in front of the payload.

        Where all carried headers are to stand where they came in, their bytes stay; else these are kept aside first.
        """
        layout = self.unit.layout
        lines = ["static bool deparse_packet(struct ss_state *s, struct ss_packet *p, struct phv *h)", "{"]
        lines.append("    update_checksums(s, p, h);")
        primitives = self.unit.program.deparser.get("primitives") or []
        lines += indent(self.primitives.statements(primitives, "deparsers/deparser"))
        lines += ["    uint32_t size = 0;", "    bool moved = false;"]
        keep: list[str] = []
        bring: list[str] = []
        room = 0
        for header in self.headers:
            size = header_bytes(layout, header)
            name = self._carried(header)
            if name is None:
                lines.append(f"    size += {size if header.metadata else f'{header.valid} ? {size} : 0'};")
                bring.append(f"r += {size if header.metadata else f'{header.valid} ? {size} : 0'};")
            else:
                lines.append(f"    if ({header.valid}) {{ moved |= {layout.at(name)} != size; size += {size}; }}")
                keep.append(f"if ({header.valid}) memcpy(kept + {room}, p->data + {layout.at(name)}, {size});")
                bring.append(f"if ({header.valid}) {{ memcpy(r, kept + {room}, {size}); r += {size}; }}")
                room += header.type.fixed_bits // 8
        lines += ["    uint8_t *q = p->data;", "    if (__builtin_expect(moved || size != p->payload, 0)) {"]
        lines += indent([f"uint8_t kept[{room}];", *keep], 2) if room else []
        lines += ["        q = ss_make_room(p, size);", "        if (!q) return false;"]
        lines += indent(["uint8_t *r = q;", *bring], 2) if room else []
        lines.append("    }")
        for header in self.headers:
            name = self._carried(header)
            if name is None:
                body = self._emission(header)
            else:
                body = emit_changed(layout, header, self.unit.carried[name].changed, "q")
            lines.append(f"    if ({header.valid}) {{")
            lines += indent([*body, f"q += {header_bytes(layout, header)};"], 2)
            lines.append("    }")
        return [*lines, "    (void)q;", "    return true;", "}", ""]

    def _carried(self, header: HeaderReference) -> str | None:
        """Return the name of a carried header."""
        name = header.header.name if header.header is not None else None
        return name if name in self.unit.carried else None

    def _emission(self, header: HeaderReference) -> list[str]:
        """Write a whole header."""
        layout = self.unit.layout
        pieces = fixed_pieces(layout, header)
        ragged = any(piece.offset % 8 and piece.bits > 64 for piece in pieces) or header.type.varbit is not None
        body = emit_header(layout, header, "q")
        if ragged or any("ss_put_bits" in line for line in body):
            body = [f"memset(q, 0, {header_bytes(layout, header)});", *body]
        return body
