# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Frames for the hand-made program of forward.c, and what it writes into them."""

from __future__ import annotations

from dataclasses import dataclass

ETHERTYPE = b"\x88\xb5"
NORMAL, INGRESS_CLONE, EGRESS_CLONE, RECIRCULATED, REPLICATED, RESUBMITTED = 0, 1, 2, 4, 5, 6


def command(opcode: str, argument: int = 0, priority: int = 0, length: int = 64) -> bytes:
    """Return a frame that asks the program for something (forward.c)."""
    head = bytes(12) + ETHERTYPE + bytes([ord(opcode), argument, priority, 0])
    return head + bytes(i & 255 for i in range(length - len(head)))


@dataclass(frozen=True)
class Report:
    """What the program wrote into a command's frame at egress."""

    passes: int
    instance_type: int
    egress_rid: int
    enq_qdepth: int
    deq_qdepth: int
    deq_timedelta: int
    kept: int
    ingress_port: int
    packet_length: int


def report(frame: bytes) -> Report:
    """Read the program's report."""
    delay, length = int.from_bytes(frame[22:26], "big"), int.from_bytes(frame[28:30], "big")
    return Report(*frame[17:22], delay, *frame[26:28], length)
