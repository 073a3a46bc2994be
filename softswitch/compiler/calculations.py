# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Hashes and checksums: gather the input's bits and run the algorithm over them."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.compiler.expressions import constant
from softswitch.compiler.model import Calculation, Json, hexstr, member, refuse
from softswitch.compiler.packing import Piece, emit, emit_header, header_bytes
from softswitch.compiler.phv import FieldReference, HeaderReference
from softswitch.compiler.unit import Unit

BYTEWISE = {
    "crc16": "ss_crc16", "crc16_custom": "ss_crc16", "crc32": "ss_crc32", "crc32_custom": "ss_crc32",
    "crcCCITT": "ss_crc_ccitt", "crc8_custom": "ss_crc8", "crc64_custom": "ss_crc64", "csum16": "ss_csum16",
    "cksum16": "ss_csum16", "xor16": "ss_xor16", "xor32": "ss_xor32", "identity": "ss_identity",
}  # fmt: skip
WITHOUT_INPUT = {"random", "round_robin"}


@dataclass(frozen=True)
class Input:
    """One element of a calculation's input. `valid` is "1" when it always counts."""

    bits: int
    valid: str
    code: str = ""
    field: FieldReference | None = None
    header: HeaderReference | None = None


class Calculations:
    """Write a C function for each calculation that is asked for."""

    def __init__(self, unit: Unit) -> None:
        self.unit = unit
        self.functions: list[str] = []
        self.turns = 0
        self._names: dict[str, str] = {}

    def call(self, calculation: Calculation) -> str:
        """Write a call that gives the hash as uint64_t."""
        if calculation.name not in self._names:
            name = f"hash_{len(self._names)}"
            self._names[calculation.name] = name
            self.functions.append(self._function(name, calculation))
        return f"{self._names[calculation.name]}(s, p, h)"

    def _function(self, name: str, calculation: Calculation) -> str:
        head = f"static inline uint64_t {name}(struct ss_state *s, struct ss_packet *p, struct phv *h)"
        body = self._body(calculation)
        return "\n".join([head, "{", "    (void)s; (void)p; (void)h;", *("    " + line for line in body), "}", ""])

    def inputs(self, calculation: Calculation) -> tuple[list[Input], bool]:
        """Resolve the inputs; the flag tells whether the payload follows."""
        result: list[Input] = []
        payload = False
        layout = self.unit.layout
        for number, item in enumerate(calculation.inputs):
            place = f"{calculation.place}/input[{number}]"
            kind = member(item, "type", place)
            if kind == "payload":
                payload = True
            elif kind == "hexstr":
                bits = int(member(item, "bitwidth", place))
                value = hexstr(item["value"], place) & ((1 << bits) - 1)
                result.append(Input(bits, "1", code=self._constant(value, bits)))
            elif kind == "field":
                reference = layout.field(item["value"], place)
                valid = reference.header.valid if reference.header else "1"
                result.append(Input(reference.bits, valid, reference.code, reference))
            elif kind == "header":
                header = layout.header(item["value"], place)
                result.append(Input(header.type.fixed_bits, header.valid, header=header))
            else:
                refuse(f"input '{kind}' is unknown", place)
        return result, payload

    @staticmethod
    def _constant(value: int, bits: int) -> str:
        if bits > 128:
            limbs = ", ".join(f"0x{value >> shift & (1 << 64) - 1:x}ull" for shift in range(0, bits, 64))
            return f"((const uint64_t[]){{{limbs}}})"
        return constant(value, "u64" if bits <= 64 else "u128")

    def _body(self, calculation: Calculation) -> list[str]:
        algorithm = calculation.algorithm
        if algorithm == "random":
            return ["return s->head.services->random(s->head.services->engine);"]
        if algorithm == "round_robin":
            self.turns += 1
            return [f"return s->turns[{self.turns - 1}]++;"]
        if algorithm not in BYTEWISE:
            refuse(f"hash algorithm '{algorithm}' is unknown", calculation.place)
        inputs, payload = self.inputs(calculation)
        direct = self._sum(inputs, payload) if algorithm in ("csum16", "cksum16") else None
        if direct is not None:
            return direct
        if algorithm == "identity" and len(inputs) == 1 and inputs[0].valid == "1" and not payload:
            only = inputs[0]
            if only.header is None and only.bits <= 64 and not (only.field and only.field.varbit):
                shift = -only.bits % 8
                return [f"return (uint64_t){only.code} << {shift};" if shift else f"return (uint64_t){only.code};"]
        return self._buffered(inputs, payload, BYTEWISE[algorithm])

    def _sum(self, inputs: list[Input], payload: bool) -> list[str] | None:
        """Add the 16-bit words of a checksum straight from fields.

        Works when each header's part is whole words: a part that does not count then only leaves out summands.
        """
        parts: list[tuple[str, list[Input]]] = []
        for item in inputs:
            if item.header is not None or (item.field is not None and item.field.varbit) or item.bits > 128:
                return None
            if not parts or parts[-1][0] != item.valid:
                parts.append((item.valid, []))
            parts[-1][1].append(item)
        if any(sum(item.bits for item in part) % 16 for _, part in parts):
            return None
        lines = ["uint64_t sum = 0;"]
        for valid, part in parts:
            terms: list[str] = []
            offset = 0
            for item in part:
                terms += self._summands(item.code, item.bits, offset)
                offset += item.bits
            guard = "" if valid == "1" else f"if ({valid}) "
            lines.append(f"{guard}sum += {' + '.join(terms)};")
        if payload:
            lines.append("sum += ss_sum16(p->data + p->payload, p->length - p->payload);")
        lines.append("return ss_fold16(sum);")
        return lines

    @staticmethod
    def _summands(code: str, bits: int, offset: int) -> list[str]:
        """Cut a field at 16-bit boundaries and shift each part to its place in its word."""
        terms = []
        left = bits
        while left:
            room = 16 - (offset + bits - left) % 16
            take = min(room, left)
            below, up = left - take, room - take
            part = f"((uint64_t)({code} >> {below})" if below else f"((uint64_t){code}"
            part += f" & 0x{(1 << take) - 1:x}ull)" if take != bits else ")"
            terms.append(f"({part} << {up})" if up else part)
            left -= take
        return terms

    def _buffered(self, inputs: list[Input], payload: bool, function: str) -> list[str]:
        layout = self.unit.layout
        static = all(
            item.valid == "1" and item.header is None and not (item.field and item.field.varbit) for item in inputs
        )
        size = sum(item.header.type.max_bytes * 8 if item.header else item.bits for item in inputs)
        size = (size + 7) // 8
        if static and not payload:
            pieces = []
            offset = 0
            for item in inputs:
                pieces.append(Piece(item.code, item.bits, offset, item.field))
                offset += item.bits
            zero = " = {0}" if offset % 8 or any(p.offset % 8 for p in pieces) else ""
            return [f"uint8_t b[{max(size, 1)}]{zero};", *emit(pieces, "b"), f"return {function}(b, {size});"]
        room = f"{size + 1} + p->length - p->payload" if payload else str(size + 1)
        lines = [f"uint8_t b[{room}];", f"memset(b, 0, {size + 1});", "uint32_t at = 0;"]
        for item in inputs:
            body: list[str] = []
            if item.header is not None:
                body += emit_header(layout, item.header, "(b + at / 8)")
                body.append(f"at += 8 * {header_bytes(layout, item.header)};")
            elif item.field is not None and item.field.varbit:
                body.append(f"ss_put_bytes(b, at, {item.code}, {item.field.length} / 8);")
                body.append(f"at += {item.field.length};")
            else:
                body.append(self._put(item))
                body.append(f"at += {item.bits};")
            if item.valid == "1":
                lines += body
            else:
                lines += [f"if ({item.valid}) {{", *("    " + line for line in body), "}"]
        lines.append("uint32_t length = (at + 7) / 8;")
        if payload:
            lines.append("memcpy(b + length, p->data + p->payload, p->length - p->payload);")
            lines.append("length += p->length - p->payload;")
        lines.append(f"return {function}(b, length);")
        return lines

    @staticmethod
    def _put(item: Input) -> str:
        if item.bits > 128:
            return f"ss_put_bits(b, at, {item.bits}, {item.code});"
        if item.bits > 64:
            low, high = f"(uint64_t)({item.code})", f"(uint64_t)((ss_u128)({item.code}) >> 64)"
            return f"ss_put_bits(b, at, {item.bits}, (const uint64_t[]){{{low}, {high}}});"
        return f"ss_put_bits(b, at, {item.bits}, (const uint64_t[]){{(uint64_t)({item.code})}});"


def selector_calculation(name: str, selector: Calculation) -> Calculation:
    """Give a selector's hash a name that no calculation has."""
    return Calculation(f"selector of {name}", selector.algorithm, selector.inputs, selector.place)


def checksum_target(unit: Unit, item: Json, place: str) -> FieldReference:
    """Return the field that a checksum updates or verifies."""
    return unit.layout.field(member(item, "target", place), place)
