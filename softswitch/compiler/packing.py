# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Headers from packet bytes to fields and back: whole words where fields fill them, bit by bit elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from softswitch.compiler.phv import FieldReference, HeaderReference, Layout


@dataclass(frozen=True)
class Piece:
    """A field (or an unsigned constant's code) and its place in bits."""

    code: str
    bits: int
    offset: int
    field: FieldReference | None = None


def runs(pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Split into runs that start and end on byte boundaries, as short as can be."""
    run: list[Piece] = []
    for piece in pieces:
        run.append(piece)
        if (piece.offset + piece.bits) % 8 == 0:
            yield run
            run = []
    if run:
        yield run


def _is_word(run: Sequence[Piece]) -> bool:
    bits = sum(piece.bits for piece in run)
    return run[0].offset % 8 == 0 and bits % 8 == 0 and bits <= 64


def fixed_pieces(layout: Layout, header: HeaderReference) -> list[Piece]:
    """List the fields of a header without its varbit, whose bits count as none."""
    pieces = []
    offset = 0
    for field in header.type.fields:
        if field.varbit:
            continue
        reference = layout.member(header, field)
        pieces.append(Piece(reference.code, field.bits, offset, reference))
        offset += field.bits
    return pieces


def extract(pieces: Sequence[Piece], base: str) -> list[str]:
    """Write statements that fill fields from the bytes at `base`."""
    lines: list[str] = []
    for run in runs(pieces):
        at = run[0].offset // 8
        size = sum(piece.bits for piece in run) // 8
        if _is_word(run):
            word = f"{base}[{at}]" if size == 1 else f"ss_load{size * 8}({base} + {at})"
            if len(run) == 1:
                lines.append(f"{run[0].code} = {_narrow(run[0], word)};")
                continue
            lines.append(f"{{ uint64_t w = {word};")
            left = size * 8
            for piece in run:
                left -= piece.bits
                shifted = f"w >> {left}" if left else "w"
                mask = "" if left + piece.bits == size * 8 else f" & 0x{(1 << piece.bits) - 1:x}ull"
                lines.append(f"  {piece.code} = {_narrow(piece, shifted + mask)};")
            lines.append("}")
            continue
        lines += [_extract_bits(piece, base) for piece in run]
    return lines


def _narrow(piece: Piece, code: str) -> str:
    storage = piece.field.storage if piece.field else 64
    return f"({'ss_u128' if storage == 128 else f'uint{storage}_t'})({code})"


def _extract_bits(piece: Piece, base: str) -> str:
    if piece.bits == 128 and piece.offset % 8 == 0:
        return f"{piece.code} = ss_load128({base} + {piece.offset // 8});"
    if piece.bits > 128:
        return f"ss_get_bits({piece.code}, {base}, {piece.offset}, {piece.bits});"
    width = 64 if piece.bits <= 64 else 128
    return f"{piece.code} = {_narrow(piece, f'ss_get_bits{width}({base}, {piece.offset}, {piece.bits})')};"


def emit(pieces: Sequence[Piece], base: str) -> list[str]:
    """Write statements that store fields to the bytes at `base`; bytes shared by two fields must be zero before."""
    lines: list[str] = []
    for run in runs(pieces):
        at = run[0].offset // 8
        bits = sum(piece.bits for piece in run)
        if _is_word(run):
            parts = []
            left = bits
            for piece in run:
                left -= piece.bits
                parts.append(f"(uint64_t){piece.code} << {left}" if left else f"(uint64_t){piece.code}")
            word = " | ".join(parts)
            store = f"{base}[{at}] = (uint8_t)({word});" if bits == 8 else f"ss_store{bits}({base} + {at}, {word});"
            lines.append(store)
            continue
        lines += [_emit_bits(piece, base) for piece in run]
    return lines


def _emit_bits(piece: Piece, base: str) -> str:
    if piece.bits == 128 and piece.offset % 8 == 0:
        return f"ss_store128({base} + {piece.offset // 8}, {piece.code});"
    if piece.bits > 128:
        return f"ss_put_bits({base}, {piece.offset}, {piece.bits}, {piece.code});"
    if piece.bits > 64:
        low, high = f"(uint64_t)({piece.code})", f"(uint64_t)((ss_u128)({piece.code}) >> 64)"
        return f"ss_put_bits({base}, {piece.offset}, {piece.bits}, (const uint64_t[]){{{low}, {high}}});"
    return f"ss_put_bits({base}, {piece.offset}, {piece.bits}, (const uint64_t[]){{(uint64_t)({piece.code})}});"


def header_bytes(layout: Layout, header: HeaderReference) -> str:
    """Write the size in bytes of a header as it stands."""
    fixed = header.type.fixed_bits // 8
    varbit = header.type.varbit
    if varbit is None:
        return str(fixed)
    return f"({fixed} + {layout.member(header, varbit).length} / 8)"


def emit_header(layout: Layout, header: HeaderReference, base: str) -> list[str]:
    """Write statements that store a whole header at `base`."""
    pieces = fixed_pieces(layout, header)
    varbit = header.type.varbit
    if varbit is None:
        return emit(pieces, base)
    reference = layout.member(header, varbit)
    before, after, offset = _around(header, pieces)
    lines = emit(before, base)
    lines.append(f"ss_put_bytes({base}, {offset}, {reference.code}, {reference.length} / 8);")
    if after:
        lines += ["{", f"  uint8_t *after = {base} + {reference.length} / 8;"]
        lines += ["  " + line for line in emit(after, "after")]
        lines.append("}")
    return lines


def emit_changed(layout: Layout, header: HeaderReference, changed: Collection[str], base: str) -> list[str]:
    """Write statements that store those bytes of a header at `base` that fields of these names are in."""
    return [line for run in _runs_with(layout, header, changed) for line in emit(run, base)]


def extract_used(layout: Layout, header: HeaderReference, used: Collection[str], base: str) -> list[str]:
    """Write statements that fill the fields of a header that stand in bytes with those of these names."""
    return [line for run in _runs_with(layout, header, used) for line in extract(run, base)]


def _runs_with(layout: Layout, header: HeaderReference, names: Collection[str]) -> Iterator[list[Piece]]:
    wanted = {layout.member(header, field).code for field in header.type.fields if field.name in names}
    return (run for run in runs(fixed_pieces(layout, header)) if any(piece.code in wanted for piece in run))


def extract_header(layout: Layout, header: HeaderReference, base: str, varbit_bits: str | None) -> list[str]:
    """Write statements that fill a header from `base`; `varbit_bits` is the length of its varbit."""
    pieces = fixed_pieces(layout, header)
    varbit = header.type.varbit
    if varbit is None or varbit_bits is None:
        return extract(pieces, base)
    reference = layout.member(header, varbit)
    before, after, offset = _around(header, pieces)
    lines = extract(before, base)
    lines.append(f"{reference.length} = (uint32_t){varbit_bits};")
    lines.append(f"ss_get_bytes({reference.code}, {base}, {offset}, {reference.length} / 8);")
    if after:
        lines += ["{", f"  const uint8_t *after = {base} + {reference.length} / 8;"]
        lines += ["  " + line for line in extract(after, "after")]
        lines.append("}")
    return lines


def _around(header: HeaderReference, pieces: list[Piece]) -> tuple[list[Piece], list[Piece], int]:
    position = next(i for i, field in enumerate(header.type.fields) if field.varbit)
    offset = sum(field.bits for field in header.type.fields[:position])
    return pieces[:position], pieces[position:], offset
