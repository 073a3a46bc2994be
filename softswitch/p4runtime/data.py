# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""P4Data: values of P4 types, as digests and registers carry them (P4Runtime 1.4, section 8.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from p4.config.v1 import p4types_pb2

from softswitch.p4runtime import wire
from softswitch.p4runtime.status import Code, StatusError

# Field numbers of p4.v1.P4Data.
BITSTRING, BOOL, TUPLE, STRUCT, HEADER, ENUM_VALUE = 1, 3, 4, 5, 6, 12


@dataclass(frozen=True)
class Shape:
    """A type: a leaf of `bits` bits under P4Data's field `tag`; or members of a struct-like `kind` (`tag` None)."""

    tag: int | None
    bits: int = 0
    is_signed: bool = False
    kind: int = 0
    members: tuple[Shape, ...] = ()

    @property
    def bytes(self) -> int:
        """Bytes of a packed value: each leaf in whole bytes, one after the other."""
        return (self.bits + 7) // 8 if self.tag is not None else sum(member.bytes for member in self.members)


def canonical(value: bytes, bits: int = 0, is_signed: bool = False) -> bytes:
    """Return a big-endian value in P4Runtime's shortest form; at least one byte."""
    if not is_signed:
        return value.lstrip(b"\0") or b"\0"
    number = int.from_bytes(value, "big")
    if number >> (bits - 1) & 1:
        number -= 1 << bits
    length = next(size for size in range(1, len(value) + 2) if -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1)
    return number.to_bytes(length, "big", signed=True)


def encode(shape: Shape, packed: bytes) -> bytes:
    """Return packed bytes of a shape as a serialized P4Data."""
    message, rest = _encode(shape, packed)
    if rest:
        raise ValueError(f"{len(rest)} bytes too many")
    return message


def _encode(shape: Shape, packed: bytes) -> tuple[bytes, bytes]:
    if shape.tag is not None:
        size = shape.bytes
        value, rest = packed[:size], packed[size:]
        if shape.tag == BOOL:
            return wire.varint(BOOL << 3) + wire.varint(int(any(value))), rest
        return wire.data(shape.tag, canonical(value, shape.bits, shape.is_signed)), rest
    # P4StructLike has its members in field 1, P4Header in field 2 after is_valid in field 1.
    field, parts = (2, [wire.number(1, 1)]) if shape.kind == HEADER else (1, [])
    for member in shape.members:
        message, packed = _encode(member, packed)
        parts.append(wire.data(field, message[_leaf_prefix(message) :] if shape.kind == HEADER else message))
    return wire.data(shape.kind, b"".join(parts)), packed


def _leaf_prefix(message: bytes) -> int:
    """Length of the key and length in front of a bitstring leaf: a header's members are bare bytes."""
    place = 1
    while message[place] & 0x80:
        place += 1
    return place + 1


def shape_of(spec: p4types_pb2.P4DataTypeSpec, types: p4types_pb2.P4TypeInfo) -> Shape:
    """Return the shape of a P4Info type; raises StatusError (UNIMPLEMENTED) for those that BMv2 does not have."""
    match spec.WhichOneof("type_spec"):
        case "bitstring":
            return _bitstring(spec.bitstring)
        case "bool":
            return Shape(BOOL, 1)
        case "tuple":
            return Shape(None, kind=TUPLE, members=tuple(shape_of(member, types) for member in spec.tuple.members))
        case "struct":
            members: Any = types.structs[spec.struct.name].members
            return Shape(None, kind=STRUCT, members=tuple(shape_of(member.type_spec, types) for member in members))
        case "header":
            members = types.headers[spec.header.name].members
            return Shape(None, kind=HEADER, members=tuple(_bitstring(member.type_spec) for member in members))
        case "serializable_enum":
            return Shape(ENUM_VALUE, types.serializable_enums[spec.serializable_enum.name].underlying_type.bitwidth)
        case "new_type":
            new = types.new_types[spec.new_type.name]
            if new.WhichOneof("representation") == "original_type":
                return shape_of(new.original_type, types)
            if new.translated_type.WhichOneof("sdn_type") == "sdn_bitwidth":
                return Shape(BITSTRING, new.translated_type.sdn_bitwidth)
    raise StatusError(Code.UNIMPLEMENTED, f"P4Info: no values of type {spec.WhichOneof('type_spec')}")


def _bitstring(spec: p4types_pb2.P4BitstringLikeTypeSpec) -> Shape:
    match spec.WhichOneof("type_spec"):
        case "bit":
            return Shape(BITSTRING, spec.bit.bitwidth)
        case "int":
            return Shape(BITSTRING, spec.int.bitwidth, is_signed=True)
    raise StatusError(Code.UNIMPLEMENTED, "P4Info: no values of type varbit")
