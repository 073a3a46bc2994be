# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How the gradient header names a collective's messages.

The header has no fields for step and chunk. `rank` is the node that sends, `tensor` and `layer` are the user's, and

    round    the user's round, 20 bits | broadcast, 1 bit | number of the send between the two nodes, 11 bits

Source, destination and number tell both ends which step and chunk of the plan it is. Rounds begin again after 2^20,
long after what bore the number before is forgotten. The last tensors are the collective's own.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from traffic.packer import TensorId

ROUNDS = 1 << 20
BROADCAST = 1 << 11
NUMBERS = BROADCAST - 1
EXACT = 0xE000
"""From here on: whole and in float32, whatever the job tolerates and sends. For what may be no gradient."""
TENSORS = 0xF000
"""The user's are those below."""
BARRIER = 0xF000
NOTICE = 0xFFFF


@dataclass(frozen=True, slots=True)
class Name:
    """A tensor of a round, apart from who sends which part of it to whom."""

    tensor: int
    layer: int
    round: int
    broadcast: bool = False

    @property
    def exact(self) -> bool:
        """Whether it goes whole and in float32."""
        return self.broadcast or self.tensor >= EXACT

    def ids(self, job: int, node: int, number: int, weight: int) -> TensorId:
        """Return the name of a message of this tensor."""
        code = (self.round % ROUNDS) << 12 | (BROADCAST if self.broadcast else 0) | number
        return TensorId(job=job, rank=node, tensor=self.tensor, layer=self.layer, round=code, weight=weight)

    def __str__(self) -> str:
        if self.tensor == BARRIER:
            return f"barrier {self.round}"
        return f"{'broadcast of ' if self.broadcast else ''}tensor {self.tensor} of round {self.round}"


@dataclass(frozen=True, slots=True)
class Origin:
    """What a message's key says."""

    job: int
    node: int
    name: Name
    number: int

    @staticmethod
    def of(key: bytes) -> Origin:
        """Read the 12 bytes that name a message to the transport (control.key_of)."""
        job, node, tensor, layer, code = struct.unpack(">HHHHI", key)
        return Origin(job, node, Name(tensor, layer, code >> 12, bool(code & BROADCAST)), code & NUMBERS)
