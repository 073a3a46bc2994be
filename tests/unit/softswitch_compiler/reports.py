# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Programs that tell what they computed in a header in front of the packet."""

from __future__ import annotations

from bmv2_json import EGRESS_SPEC, Json, ProgramBuilder, assign, call, field, header, hexstr

from softswitch.switch import Switch

Values = list[tuple[str, int, Json]]
PARSER_ERROR = ("error", 8, field("standard_metadata", "parser_error"))


def add_report(program: ProgramBuilder, values: Values, *, name: str = "report", pipeline: str = "ingress") -> None:
    """Put a header with these values (whole bytes) in front of every packet; from ingress, send it to port 1."""
    program.header(name, [[value, bits] for value, bits, _ in values])
    program.order.insert(0, program.order.pop())
    out = [assign(EGRESS_SPEC, hexstr(1))] if pipeline == "ingress" else []
    program.action(
        name,
        [],
        call("add_header", header(name)),
        *(assign(field(name, value), node) for value, _, node in values),
        *out,
    )
    program.run(name, pipeline=pipeline)


def split(frame: bytes, sizes: list[int]) -> tuple[list[int], bytes]:
    """Cut numbers of so many bytes off the front of a frame."""
    values = []
    for size in sizes:
        values.append(int.from_bytes(frame[:size], "big"))
        frame = frame[size:]
    return values, frame


def reported(switch: Switch, frame: bytes, sizes: list[int], port: int = 0) -> tuple[list[int], bytes]:
    """Send a frame and read the report in front of the one that comes out of port 1."""
    [(out_port, out)] = switch.inject(port, frame)
    assert out_port == 1
    return split(out, sizes)
