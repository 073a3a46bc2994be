# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Where every field stands in C: the layout of the parsed representation, and references into it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from softswitch.compiler.model import Field, Header, HeaderType, Json, Program, Stack, Union, UnionStack, refuse

# Names by which BMv2's simple_switch knows a field, and the member of ss_standard that holds it. The engine reads and
# fills these; every other field of standard_metadata is plain metadata.
STANDARD = {
    "standard_metadata.ingress_port": "ingress_port",
    "standard_metadata.egress_spec": "egress_spec",
    "standard_metadata.egress_port": "egress_port",
    "standard_metadata.instance_type": "instance_type",
    "standard_metadata.packet_length": "packet_length",
    "standard_metadata.parser_error": "parser_error",
    "standard_metadata.checksum_error": "checksum_error",
    "intrinsic_metadata.mcast_grp": "mcast_grp",
    "intrinsic_metadata.egress_rid": "egress_rid",
    "intrinsic_metadata.priority": "priority",
    "intrinsic_metadata.ingress_global_timestamp": "ingress_global_timestamp",
    "intrinsic_metadata.egress_global_timestamp": "egress_global_timestamp",
    "queueing_metadata.enq_timestamp": "enq_timestamp",
    "queueing_metadata.enq_qdepth": "enq_qdepth",
    "queueing_metadata.deq_timedelta": "deq_timedelta",
    "queueing_metadata.deq_qdepth": "deq_qdepth",
}
STANDARD_BITS = {"ingress_global_timestamp": 64, "egress_global_timestamp": 64}
QUEUE_ID = "queueing_metadata.qid"
VALID = "$valid$"


def identifier(text: str) -> str:
    """Make a C identifier that still reads like the P4 name."""
    return re.sub(r"\W+", "_", text).strip("_")


def c_type(bits: int) -> str:
    """Name the native type of a value of so many bits; arrays beyond 128 are declared by `declaration`."""
    for width in (8, 16, 32, 64):
        if bits <= width:
            return f"uint{width}_t"
    return "ss_u128" if bits <= 128 else "uint64_t"


def words(bits: int) -> int:
    """Count the 64-bit words of a value."""
    return (bits + 63) // 64


def native_bytes(bits: int) -> int:
    """Count the bytes of a native value, as ss_native_bytes does."""
    for width in (8, 16, 32, 64, 128):
        if bits <= width:
            return width // 8
    return words(bits) * 8


def declaration(bits: int, name: str) -> str:
    """Declare a native value."""
    return f"{c_type(bits)} {name}[{words(bits)}];" if bits > 128 else f"{c_type(bits)} {name};"


@dataclass(frozen=True)
class HeaderReference:
    """A header as a C lvalue; `valid` is a C expression, "1" for metadata. A static one knows its instance."""

    code: str
    type: HeaderType
    metadata: bool
    header: Header | None = None
    union: str | None = None  # C lvalue of the union it belongs to

    @property
    def valid(self) -> str:
        """C expression of the header's validity."""
        return "1" if self.metadata else f"{self.code}.valid"


@dataclass(frozen=True)
class FieldReference:
    """A field as a C lvalue of a native type; `storage` is the width of that type in bits."""

    code: str
    bits: int
    signed: bool
    storage: int
    varbit: bool = False
    header: HeaderReference | None = None

    @property
    def length(self) -> str:
        """C lvalue of a varbit's length in bits."""
        return f"{self.code}_bits"


class Layout:
    """Assign C names to everything of the PHV, and find fields by their BMv2 names."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._members: dict[str, str] = {}
        self._union_of: dict[str, Union] = {}
        self._struct: dict[str, str] = {}
        self._field_names: dict[tuple[str, int], str] = {}
        self.standard: dict[tuple[str, str], str] = {}
        for number, type_ in enumerate(program.header_types.values()):
            self._struct[type_.name] = f"h{number}_{identifier(type_.name)}"
            seen: set[str] = {"valid", "at"}
            for field in type_.fields:
                name = "f_" + identifier(field.name)
                if name in seen:
                    name = f"{name}_{field.index}"
                seen.add(name)
                self._field_names[type_.name, field.index] = name
        self._name_instances()
        for bmv2, target in STANDARD.items():
            place = program.aliases.get(bmv2) or tuple(bmv2.split(".", 1))
            self._map_standard((place[0], place[1]), target)
            self._map_standard(("standard_metadata", target), target)
        self.queue_id = program.aliases.get(QUEUE_ID) or ("queueing_metadata", "qid")

    def _map_standard(self, place: tuple[str, str], target: str) -> None:
        header = self.program.headers.get(place[0])
        if header is not None and header.metadata and any(f.name == place[1] for f in header.type.fields):
            self.standard.setdefault(place, target)

    def _name_instances(self) -> None:
        program = self.program
        in_stack: set[str] = set()
        for number, stack in enumerate(program.stacks.values()):
            for index, header in enumerate(stack.elements):
                self._members[header.name] = f"s{number}_{identifier(stack.name)}.e[{index}]"
                in_stack.add(header.name)
            self._members["stack " + stack.name] = f"s{number}_{identifier(stack.name)}"
        stacked_unions: set[str] = set()
        for number, union_stack in enumerate(program.union_stacks.values()):
            code = f"t{number}_{identifier(union_stack.name)}"
            self._members["stack " + union_stack.name] = code
            for index, union in enumerate(union_stack.elements):
                self._members["union " + union.name] = f"{code}.e[{index}]"
                stacked_unions.add(union.name)
        for number, union in enumerate(program.unions.values()):
            if union.name not in stacked_unions:
                self._members["union " + union.name] = f"u{number}_{identifier(union.name)}"
            for position, header in enumerate(union.members):
                self._members[header.name] = f"{self._members['union ' + union.name]}.m{position}"
                self._union_of[header.name] = union
                in_stack.add(header.name)
        for number, header in enumerate(program.headers.values()):
            if header.name not in in_stack:
                prefix = "m" if header.metadata else "i"
                self._members[header.name] = f"{prefix}{number}_{identifier(header.name)}"

    # ---- references ----

    def header(self, name: str, place: str) -> HeaderReference:
        """Refer to an instance by name."""
        header = self.program.header(name, place)
        union = self._union_of.get(name)
        return HeaderReference(
            f"h->{self._members[name]}", header.type, header.metadata, header,
            None if union is None else f"h->{self._members['union ' + union.name]}",
        )  # fmt: skip

    def is_alone(self, name: str) -> bool:
        """Tell whether an instance belongs to no stack and no union."""
        return "." not in self._members[name]

    def at(self, name: str) -> str:
        """C lvalue of where in its frame a carried header begins."""
        return f"h->at_{self._members[name]}"

    def union_of(self, header: Header) -> Union | None:
        """Return the union that an instance belongs to."""
        return self._union_of.get(header.name)

    def union(self, name: str, place: str) -> tuple[str, Union]:
        """Refer to a union by name."""
        if name not in self.program.unions:
            refuse(f"no header union '{name}'", place)
        return f"h->{self._members['union ' + name]}", self.program.unions[name]

    def stack(self, name: str, place: str) -> tuple[str, Stack]:
        """Refer to a header stack by name."""
        if name not in self.program.stacks:
            refuse(f"no header stack '{name}'", place)
        return f"h->{self._members['stack ' + name]}", self.program.stacks[name]

    def union_stack(self, name: str, place: str) -> tuple[str, UnionStack]:
        """Refer to a stack of unions by name."""
        if name not in self.program.union_stacks:
            refuse(f"no header union stack '{name}'", place)
        return f"h->{self._members['stack ' + name]}", self.program.union_stacks[name]

    def member(self, header: HeaderReference, field: Field) -> FieldReference:
        """Refer to a field of a header."""
        code = f"{header.code}.{self._field_names[header.type.name, field.index]}"
        return FieldReference(code, field.bits, field.signed, native_bytes(field.bits) * 8, field.varbit, header)

    def field(self, value: Json, place: str) -> FieldReference:
        """Refer to the field that ["header", "field"] names; `$valid$` is a bit."""
        if not (isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str)):
            refuse(f"no field: {value!r}", place)
        if (value[0], value[1]) in self.standard:
            target = self.standard[value[0], value[1]]
            declared = self.program.headers[value[0]].type.field(value[1], place)
            return FieldReference(f"p->std.{target}", declared.bits, False, STANDARD_BITS.get(target, 32))
        header = self.header(value[0], place)
        if value[1] == VALID:
            return FieldReference(header.valid, 1, False, 8)
        return self.member(header, header.type.field(value[1], place))

    def has_field(self, place: tuple[str, str]) -> bool:
        """Tell whether the program declares a field."""
        header = self.program.headers.get(place[0])
        return header is not None and any(f.name == place[1] for f in header.type.fields)

    # ---- declarations ----

    def struct(self, type_: HeaderType) -> str:
        """Name the C struct of a header type."""
        return f"struct {self._struct[type_.name]}"

    def declare(self, carried: Iterable[str]) -> str:
        """Write the structs of all header types and `struct phv`: metadata first, headers after `parsed`.

        Of headers that are carried the place in the frame stands beside them.
        """
        lines: list[str] = []
        for type_ in self.program.header_types.values():
            lines.append(f"{self.struct(type_)} {{")
            # Wide members first keep the struct free of holes.
            for field in sorted(type_.fields, key=lambda f: -min(native_bytes(f.bits), 16)):
                name = self._field_names[type_.name, field.index]
                if field.varbit:
                    lines.append(f"    uint32_t {name}_bits; uint8_t {name}[{max(field.size, 1)}];")
                else:
                    lines.append(f"    {declaration(field.bits, name)}")
            lines.append("    uint8_t valid;")
            lines.append("};")
        for union_type in self.program.union_types.values():
            lines.append(f"{self.union_struct(union_type.name)} {{")
            lines += [f"    {self.struct(type_)} m{i};" for i, (_, type_) in enumerate(union_type.members)]
            lines.append("};")
        lines.append("struct phv {")
        for header in self.program.headers.values():
            if header.metadata and "." not in self._members[header.name]:
                lines.append(f"    {self.struct(header.type)} {self._members[header.name]};")
        lines.append("    char parsed[0] __attribute__((aligned(16)));")
        lines.append("    int32_t growth;         /* bytes of headers added less removed, for packet_length */")
        lines.append("    uint8_t exited;")
        lines += [f"    uint32_t at_{self._members[name]};" for name in carried]
        for header in self.program.headers.values():
            if not header.metadata and "." not in self._members[header.name]:
                lines.append(f"    {self.struct(header.type)} {self._members[header.name]};")
        for stack in self.program.stacks.values():
            name = self._members["stack " + stack.name]
            # One element more than the stack has: where an index out of bounds leads.
            lines.append(
                f"    struct {{ uint32_t next; {self.struct(stack.type)} e[{len(stack.elements) + 1}]; }} {name};"
            )
        for union in self.program.unions.values():
            name = self._members["union " + union.name]
            if "." not in name:
                lines.append(f"    {self.union_struct(union.type.name)} {name};")
        for union_stack in self.program.union_stacks.values():
            name = self._members["stack " + union_stack.name]
            struct = self.union_struct(union_stack.type.name)
            lines.append(f"    struct {{ uint32_t next; {struct} e[{len(union_stack.elements) + 1}]; }} {name};")
        lines.append("};")
        return "\n".join(lines) + "\n"

    def union_struct(self, name: str) -> str:
        """Name the C struct of a union type."""
        return f"struct union_{identifier(name)}"
