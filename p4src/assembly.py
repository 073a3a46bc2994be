# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Hold the assembly that p4c writes for Tofino to the parsers of the P4 source, and to the chip's stages.

Some releases of p4c (those between its pull requests 5063 and 5753) reduce every `select` to its first branch in
silence. So every value of every select in p4src/tna/parser.p4 must be found again in the assembly's parser states. And
p4c (1.2.5.16) writes down more stages than Tofino 1 has without a word: the assembler alone would refuse them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

PARSER = Path("p4src/tna/parser.p4")
SLICE = r"\[(\d+):(\d+)\]"
STAGES = 12  # of Tofino 1, for ingress and egress together
THREADS = {"GradlaneIngressParser": "ingress", "GradlaneEgressParser": "egress"}


class AssemblyError(Exception):
    """The assembly's parsers are not those of the source: one line says where."""


def check_stages(assembly: str) -> int:
    """Return how many stages an assembly's tables need; raise AssemblyError for more than the chip has."""
    needed = 1 + max((int(stage) for stage in re.findall(r"^stage (\d+) \w+:", assembly, re.MULTILINE)), default=-1)
    if needed > STAGES:
        raise AssemblyError(f"needs {needed} stages; Tofino 1 has {STAGES}")
    return needed


@dataclass(frozen=True)
class Key:
    """One component of a select case: value and mask (bits that are 0 in the mask do not matter)."""

    value: int
    mask: int
    bits: int

    def in_pattern(self, pattern: str) -> bool:
        """Find this key's bits somewhere in a match pattern of 0, 1 and *."""
        wanted = [
            "*" if not self.mask >> i & 1 else str(self.value >> i & 1) for i in reversed(range(self.bits))
        ]  # most significant first
        return any(
            all(have == want for have, want in zip(pattern[at:], wanted, strict=False))
            for at in range(len(pattern) - self.bits + 1)
        )


@dataclass(frozen=True)
class Case:
    """A branch of a select: its keys, those that match anything left out."""

    text: str
    keys: tuple[Key, ...]


@dataclass
class State:
    """A parser state of the assembly: the patterns it branches on, as strings of 0, 1 and *."""

    name: str
    patterns: list[str] = field(default_factory=list)


def check_assembly(root: Path, assembly: str) -> int:
    """Find every select value of the TNA parsers in an assembly; return their number, raise AssemblyError."""
    found = 0
    states = read_states(assembly)
    before = read_predecessors(root)
    for thread, name, cases in read_selects(root):
        names = (name, *before.get((thread, name), ()))
        family = [
            pattern
            for state in states.get(thread, [])
            if any(_is_of(state.name, one) for one in names)
            for pattern in state.patterns
        ]
        if not states.get(thread):
            raise AssemblyError(f"no states in the {thread} parser")
        if not family:
            raise AssemblyError(f"{thread} parser: state {name} does not branch")
        for case in cases:
            if not any(all(key.in_pattern(pattern) for key in case.keys) for pattern in family):
                raise AssemblyError(f"{thread} parser: state {name} has lost its branch {case.text}")
            found += 1
    return found


def _is_of(state: str, name: str) -> bool:
    """Say whether an assembly's state is a source's state, or one of the parts it was split into."""
    return re.fullmatch(rf"(\$entry_point\.)?{re.escape(name)}(\W.*|_\d+)?", state) is not None


def read_states(assembly: str) -> dict[str, list[State]]:
    """Read the parser sections of an assembly: thread -> its states with the patterns they branch on."""
    states: dict[str, list[State]] = {}
    thread = None
    in_states = False
    for line in assembly.splitlines():
        text = line.split("#")[0].rstrip()
        if not text:
            continue
        indent = len(text) - len(text.lstrip())
        text = text.strip()
        if indent == 0:
            section = re.match(r"parser (ingress|egress)\b", text)
            thread, in_states = section[1] if section else None, False
            if thread:
                states.setdefault(thread, [])
        elif thread and text == "states:":
            in_states = True
        elif thread and in_states and indent == 4 and text.endswith(":"):
            states[thread].append(State(text[:-1]))
        elif thread and in_states and indent == 6 and states[thread]:
            if pattern := _pattern(text.removesuffix(":")):
                states[thread][-1].patterns.append(pattern)
    return states


def _pattern(text: str) -> str | None:
    """Read a match of the assembly as bits: 0x08**, 0o11*, 0b01*, a number; None for one that matches anything."""
    if re.fullmatch(r"0x[0-9a-f*]+", text):
        bits = "".join("****" if digit == "*" else f"{int(digit, 16):04b}" for digit in text[2:])
    elif re.fullmatch(r"0o[0-7*]+", text):
        bits = "".join("***" if digit == "*" else f"{int(digit, 8):03b}" for digit in text[2:])
    elif re.fullmatch(r"0b[01*]+", text):
        bits = text[2:]
    elif text.isdecimal():
        bits = f"{int(text):032b}"
    else:
        return None
    return bits if bits.strip("*") else None


def read_selects(root: Path) -> Iterator[tuple[str, str, list[Case]]]:
    """Read every select of the TNA parsers: thread, state, the cases that match something."""
    constants = read_constants(root)
    for thread, state, body in _read_bodies(root):
        if select := re.search(r"transition select\((.*)\) \{(.*)\}", body, re.DOTALL):
            widths = [_width(key.strip(), root) for key in _split(select[1])]
            yield thread, state, list(_cases(select[2], widths, constants))


def read_predecessors(root: Path) -> dict[tuple[str, str], list[str]]:
    """Read, of every state of the TNA parsers, which states go to it whatever they read.

    The compiler merges a state into such a predecessor, whose name the two then have.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for thread, state, body in _read_bodies(root):
        if always := re.search(r"transition (\w+);", body):
            found.setdefault((thread, always[1]), []).append(state)
    return found


def _read_bodies(root: Path) -> Iterator[tuple[str, str, str]]:
    source = _without_comments((root / PARSER).read_text())
    for parser in re.finditer(r"\bparser (\w+)\(.*?\n}", source, re.DOTALL):
        for state in re.finditer(r"\bstate (\w+) \{(.*?)\n    \}", parser[0], re.DOTALL):
            yield THREADS[parser[1]], state[1], state[2]


def _cases(text: str, widths: list[int], constants: dict[str, int]) -> Iterator[Case]:
    for keyset in re.findall(r"([^;]*?):\s*\w+;", text, re.DOTALL):
        keyset = keyset.strip()
        parts = _split(keyset[1:-1]) if keyset.startswith("(") else [keyset]
        keys = [_key(part.strip(), bits, constants) for part, bits in zip(parts, widths, strict=False)]
        if cared := tuple(key for key in keys if key.mask):
            yield Case(keyset, cared)


def _key(text: str, bits: int, constants: dict[str, int]) -> Key:
    full = (1 << bits) - 1
    if text in ("default", "_"):
        return Key(0, 0, bits)
    value, _, mask = (part.strip() for part in text.partition("&&&"))
    return Key(_evaluate(value, constants), _evaluate(mask, constants) if mask else full, bits)


def _evaluate(text: str, constants: dict[str, int]) -> int:
    if slice_ := re.fullmatch(rf"(\w+){SLICE}", text):
        high, low = int(slice_[2]), int(slice_[3])
        return _evaluate(slice_[1], constants) >> low & (1 << high - low + 1) - 1
    try:
        return constants[text] if text in constants else int(text, 0)
    except ValueError:
        raise AssemblyError(f"{PARSER}: cannot tell the value of {text}") from None


def _split(text: str) -> list[str]:
    """Split at commas that stand outside of brackets."""
    return re.split(r",\s*(?![^<(]*[>)])", text)


def _width(key: str, root: Path) -> int:
    """Tell how many bits a select's key has."""
    if slice_ := re.search(rf"{SLICE}$", key):
        return int(slice_[1]) - int(slice_[2]) + 1
    if lookahead := re.search(r"lookahead<bit<(\d+)>>", key):
        return int(lookahead[1])
    if key.endswith("ingress_port"):
        return 9
    header, _, name = key.removeprefix("hdr.").partition(".")
    text = _without_comments((root / "p4src/shared/headers.p4").read_text())
    body = re.search(rf"header {header}_t \{{(.*?)\}}", text, re.DOTALL)
    declared = re.search(rf"(\S+) {name};", body[1]) if body else None
    if declared is None:
        raise AssemblyError(f"{PARSER}: cannot tell the width of {key}")
    return _type_width(declared[1], root)


def _type_width(name: str, root: Path) -> int:
    text = (root / "p4src/shared/types.p4").read_text()
    bits = re.fullmatch(r"bit<(\d+)>", name) or re.search(
        rf"(?:typedef bit<(\d+)> {name};|enum bit<(\d+)> {name} )", text
    )
    if bits is None:
        raise AssemblyError(f"{PARSER}: cannot tell the width of type {name}")
    return int(next(group for group in bits.groups() if group))


def read_constants(root: Path) -> dict[str, int]:
    """Read the numbers that P4 sources give names to: constants, and members of enums as `enum.MEMBER`."""
    constants: dict[str, int] = {}
    for file in sorted([*(root / "p4src/shared").glob("*.p4"), *(root / "p4src/tna").glob("*.p4")]):
        text = _without_comments(file.read_text())
        for name, value in re.findall(r"const \S+ (\w+) = ([0-9a-fA-Fx_]+);", text):
            constants[name] = int(value.replace("_", ""), 0)
        for enum, body in re.findall(r"enum bit<\d+> (\w+) \{(.*?)\}", text, re.DOTALL):
            for member, value in re.findall(r"(\w+) = (\w+)", body):
                constants[f"{enum}.{member}"] = int(value, 0)
    return constants


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)
