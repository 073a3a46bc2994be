# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How a policy writes depths (`64KB`, `2ms`, `40 packets`, `90%`), classes (`1-6`) and ranges (`0-31`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

CLASSES = 8
BANDS = 8
RANKS = 256
RANKS_PER_BAND = RANKS // BANDS
MAX_DEPTH = 10**12  # in any unit: beyond it a number is a slip of the pen, and may not even be finite

Unit = Literal["bytes", "seconds", "packets", "percent"]

_DEPTH = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|KiB|MiB|bytes|us|ms|s|packets?|%)")
_UNITS: dict[str, tuple[Unit, float]] = {
    "B": ("bytes", 1),
    "bytes": ("bytes", 1),
    "KB": ("bytes", 1e3),
    "MB": ("bytes", 1e6),
    "GB": ("bytes", 1e9),
    "KiB": ("bytes", 1024),
    "MiB": ("bytes", 1024**2),
    "us": ("seconds", 1e-6),
    "ms": ("seconds", 1e-3),
    "s": ("seconds", 1),
    "packet": ("packets", 1),
    "packets": ("packets", 1),
    "%": ("percent", 1),
}
_RANGE = re.compile(r"(\d+)(?:\s*-\s*(\d+))?")


@dataclass(frozen=True)
class Depth:
    """How deep a queue is: in bytes, in seconds that the port takes to drain it, in packets, or of its limit."""

    amount: float
    unit: Unit
    text: str

    def bytes_at(self, rate_bps: int, packet_bytes: int, limit_bytes: int | None = None) -> int:
        """Return the depth in bytes on a port of `rate_bps`, for packets of `packet_bytes`.

        Raises ValueError for a share of a limit where there is none.
        """
        if self.unit == "bytes":
            return round(self.amount)
        if self.unit == "packets":
            return round(self.amount * packet_bytes)
        if self.unit == "seconds":
            return round(self.amount * rate_bps / 8)
        if limit_bytes is None:
            raise ValueError(f"{self.text} is a share of the queue's limit, and the queue has none")
        return round(self.amount / 100 * limit_bytes)

    def __str__(self) -> str:
        return self.text


def parse_depth(value: Any) -> Depth:
    """Read a depth; a bare number is bytes. Raises ValueError with a message for people."""
    if isinstance(value, Depth):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_DEPTH:
        return Depth(value, "bytes", f"{value}B")
    if isinstance(value, str) and (match := _DEPTH.fullmatch(value.strip())):
        unit, scale = _UNITS[match[2]]
        amount = float(match[1]) * scale
        if unit == "percent" and amount > 100:
            raise ValueError("a share of the queue's limit is at most 100%")
        if amount > MAX_DEPTH:
            raise ValueError(f"{value!r} is deeper than any queue")
        return Depth(amount, unit, value.strip())
    raise ValueError(f"{value!r} is no depth; write 64KB, 2ms (drain time), 40 packets, or 90% (of the queue's limit)")


def parse_range(value: Any, top: int, what: str) -> tuple[int, int]:
    """Read `5` or `0-31` as (low, high), both included. Raises ValueError with a message for people."""
    match = _RANGE.fullmatch(value.strip()) if isinstance(value, str) else None
    if isinstance(value, int) and not isinstance(value, bool):
        low = high = value
    elif match:
        low, high = int(match[1]), int(match[2] or match[1])
    elif isinstance(value, list | tuple) and len(value) == 2 and all(type(end) is int for end in value):
        low, high = value
    else:
        raise ValueError(f"{value!r} is no range of {what}; write one number or two, such as 0-{top}")
    if not 0 <= low <= high <= top:
        raise ValueError(f"{low}-{high} is no range of {what}: they run from 0 to {top}, the lower first")
    return low, high


def parse_classes(value: Any) -> tuple[int, ...]:
    """Read classes: `3`, `1-6`, `1,3,5`, `all`, or a list of those. Returns them ascending, each once."""
    if value == "all":
        return tuple(range(CLASSES))
    items = value if isinstance(value, list | tuple) else value.split(",") if isinstance(value, str) else [value]
    found: set[int] = set()
    for item in items:
        low, high = parse_range(item, CLASSES - 1, "classes")
        found.update(range(low, high + 1))
    if not found:
        raise ValueError("no class is named")
    return tuple(sorted(found))


def format_range(value: tuple[int, int]) -> str:
    """Write a range as a policy does: `5` or `0-31`."""
    low, high = value
    return str(low) if low == high else f"{low}-{high}"


def format_classes(classes: tuple[int, ...]) -> str:
    """Write classes as a policy does: `1-6` where they are contiguous, else `1,3,5`."""
    if classes == tuple(range(classes[0], classes[-1] + 1)):
        return format_range((classes[0], classes[-1]))
    return ",".join(map(str, classes))


def _schema(pattern: str, description: str, *, also_list: bool = False) -> WithJsonSchema:
    choices: list[dict[str, Any]] = [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": pattern}]
    if also_list:
        choices.append({"type": "array", "items": {"anyOf": list(choices)}, "minItems": 1})
    return WithJsonSchema({"anyOf": choices, "description": description})


DepthField = Annotated[
    Depth,
    BeforeValidator(parse_depth),
    PlainSerializer(str, return_type=str),
    _schema(f"^{_DEPTH.pattern}$", "bytes (64KB), drain time (2ms), packets (40 packets), share of the limit (90%)"),
]
ClassesField = Annotated[
    tuple[int, ...],
    BeforeValidator(parse_classes),
    PlainSerializer(format_classes, return_type=str),
    _schema(
        r"^(all|[0-7](\s*-\s*[0-7])?(\s*,\s*[0-7](\s*-\s*[0-7])?)*)$", "classes: 3, 1-6, 1,3,5 or all", also_list=True
    ),
]


def _range(top: int, what: str) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    return (
        BeforeValidator(lambda value: parse_range(value, top, what)),
        PlainSerializer(format_range, return_type=str),
        _schema(f"^{_RANGE.pattern}$", f"{what}: one number or a range within 0-{top}"),
    )


_bands = _range(BANDS - 1, "importance bands")
_importance = _range(RANKS - 1, "importance ranks")
_layers = _range(0xFFFF, "layers")
BandsField = Annotated[tuple[int, int], _bands[0], _bands[1], _bands[2]]
ImportanceField = Annotated[tuple[int, int], _importance[0], _importance[1], _importance[2]]
LayersField = Annotated[tuple[int, int], _layers[0], _layers[1], _layers[2]]
