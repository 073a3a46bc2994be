# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the parts of the compiler share: the program, its layout, and the C names of its objects."""

from __future__ import annotations

from dataclasses import dataclass

from softswitch.compiler.carried import carried_headers
from softswitch.compiler.model import Action, Parameter, Program, Table
from softswitch.compiler.phv import Layout, identifier, native_bytes, words


@dataclass(frozen=True)
class ActionData:
    """Action data as a C struct: the offset of each parameter, and its size."""

    offsets: tuple[int, ...]
    size: int


def action_data(parameters: tuple[Parameter, ...]) -> ActionData:
    """Lay out action data as C does: natural alignment, in order."""
    offsets = []
    at = 0
    align = 1
    for parameter in parameters:
        size = native_bytes(parameter.bits)
        step = min(size, 16) if parameter.bits <= 128 else 8
        at = -(-at // step) * step
        align = max(align, step)
        offsets.append(at)
        at += size
    return ActionData(tuple(offsets), -(-at // align) * align)


class Unit:
    """One program being compiled."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.layout = Layout(program)
        self.carried = carried_headers(program, self.layout)

    @staticmethod
    def action(action: Action) -> str:
        """Name the C function of an action."""
        return f"action_{action.index}_{identifier(action.name)}"

    @staticmethod
    def data(action: Action) -> str:
        """Name the C struct of an action's data."""
        return f"struct data_{action.index}"

    @staticmethod
    def table(table: Table) -> str:
        """Name a table in C."""
        return f"{table.index}_{identifier(table.name)}"

    @staticmethod
    def declare_data(action: Action) -> str:
        """Declare an action's data."""
        fields = []
        for number, parameter in enumerate(action.parameters):
            if parameter.bits > 128:
                fields.append(f"uint64_t p{number}[{words(parameter.bits)}];")
            else:
                size = native_bytes(parameter.bits) * 8
                fields.append(f"{'ss_u128' if size == 128 else f'uint{size}_t'} p{number};")
        return f"{Unit.data(action)} {{ {' '.join(fields)} }};"


def c_string(text: str) -> str:
    """Quote text as a C string."""
    quoted = []
    for byte in text.encode():
        character = chr(byte)
        if character in '"\\':
            quoted.append("\\" + character)
        elif 32 <= byte < 127 and character != "?":
            quoted.append(character)
        else:
            quoted.append(f"\\{byte:03o}")
    return '"' + "".join(quoted) + '"'


def c_bytes(number: int, size: int) -> list[str]:
    """List a number's bytes, the highest first."""
    return [str(byte) for byte in number.to_bytes(size, "big")]


def indent(lines: list[str], depth: int = 1) -> list[str]:
    """Indent lines of C; labels stay at the margin."""
    return [line if line.endswith(":;") or not line else "    " * depth + line for line in lines]
