# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What one switch should hold, as the compiler gives it and the reconciler makes it so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from controller.p4rt.entities import Entity

Target: TypeAlias = Literal["softswitch", "bmv2"]


@dataclass(frozen=True, order=True)
class QueueLimit:
    """The limits of one queue of a port; 0 is none."""

    port: int
    class_: int
    packets: int
    bytes: int


@dataclass(frozen=True, order=True)
class PortRate:
    """The rate at which a port's shaper sends; 0 is unlimited."""

    port: int
    bits_per_second: int


@dataclass(frozen=True)
class DesiredState:
    """All that one switch should hold. Entities stand in the order in which they may be written."""

    switch: str
    target: Target
    entities: tuple[Entity, ...]
    queues: tuple[QueueLimit, ...]
    rates: tuple[PortRate, ...]
