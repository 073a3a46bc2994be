# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What an endpoint may use, and how long it waits. Times are ns."""

from __future__ import annotations

from dataclasses import dataclass, field

from traffic.transport.rate import RateSettings
from traffic.transport.timing import MILLISECOND, SECOND
from traffic.wire import FRAME_OVERHEAD, IPV4_VALUES


@dataclass(frozen=True)
class Settings:
    """How an endpoint behaves; the defaults suit a fabric of 100 Mbit/s to 10 Gbit/s."""

    rate: RateSettings = field(default_factory=RateSettings)
    key: bytes | None = None
    """The job's key, 16 to 64 bytes: control messages must carry its MAC."""
    patience: int = 5 * SECOND
    """A peer of which nothing is heard for this long is lost, and every message with it."""
    overdue: int = 120 * SECOND
    """A message that takes longer fails, also where the peer is alive."""
    linger: int = 2 * SECOND
    """How long a message is remembered after both ends know how it ended, so that what comes late is known."""
    quantum: int = MILLISECOND
    """A burst takes no longer than this at the link's rate."""
    ahead: int = 1
    """Nor longer than so many quanta at the peer's: each burst wakes its sender, but long ones are unfair to others."""
    arrears: int = 10 * MILLISECOND
    """What a sender makes up for that was kept from the processor, at twice its rate: it stands in a queue then."""
    burst: int = 16
    """Packets at once."""
    per_packet: int = IPV4_VALUES
    """float32 values in a packet; twice as many of two bytes."""
    frame_overhead: int = FRAME_OVERHEAD[4]
    """Bytes of a frame before the gradient header."""
    protected_share: float = 0.05
    """The most important packets of a tensor that must arrive."""
    spare_share: float = 0.1
    """Of the tolerance: packets that are sent although they may be missing, so that as many may get lost on the way; at
    most half as many as must arrive."""
    feedback: tuple[int, int] = (2 * MILLISECOND, 10 * MILLISECOND)
    """Bounds of the time between two reports to a sender, which is half a round trip."""
    memory_per_peer: int = 64 << 20
    """Bytes of messages from a peer that nobody here has asked for yet."""
    early_packets: int = 512
    """Packets of a peer that came before the message was known."""
    remembered: int = 4096
    """Complete messages of a peer that linger."""
