# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How fast to send to a peer: minimal, driven by delay and ECN.

Loss is cheap here, so the rate need not be right, only fair and free of collapse. Once in a round trip: ease off by
the share of marked packets (DCTCP, RFC 8257) or by how far the queueing delay exceeds its target (Swift, SIGCOMM 2020),
whichever is more, but not far below what comes through, since a queue takes several round trips to drain; else probe
upward by a packet, and faster before the first sign of congestion or after several calm round trips (TIMELY's
hyperactive increase, SIGCOMM 2015), but never far beyond what comes out of the network.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from traffic.transport.timing import MILLISECOND, SECOND
from traffic.wire import FULL_FRAME

MARK_GAIN = 1 / 8
DELAY_GAIN = 0.8
MOST_DECREASE = 0.5
DRAINING = 0.85
"""Share of what comes through: sending that lets the queue drain, which takes several round trips; less would leave the
link idle after."""
FADING = 0.75
"""What is left a round trip later of what came through: it still counts after a moment in which the host was busy."""
CALM_ROUNDS = 5
CALM_FACTOR = 1.25
BEYOND_FAIR = 1 / 8
"""Of a packet a round trip: how a rate grows that takes what others do not use."""
FRAME_BITS = 8 * FULL_FRAME


@dataclass(frozen=True)
class RateSettings:
    """Bounds of a peer's rate, in bits of whole frames per second, and the delay that is no congestion, in ns."""

    line: float = 10e9
    """The network card's rate: never more."""
    initial: float = 20e6
    """Before anything was heard: 16 packets in 10 ms."""
    least: float = 1e6
    """A packet in 12 ms: low enough for 100 senders to share 100 Mbit/s, high enough to climb from soon."""
    fair: float = math.inf
    """What is left for a peer where everybody sends: up to it the rate grows fast, beyond it slowly."""
    target_delay: int = 3 * MILLISECOND
    """Queueing that is no congestion."""


class RateControl:
    """The rate to one peer, all messages together."""

    def __init__(self, settings: RateSettings) -> None:
        self.settings = settings
        self.rate = min(settings.initial, settings.line)
        self.probing = True
        """Doubling: no congestion was met yet."""
        self._marked_share = 0.0
        self._calm = 0
        self._begin = 0
        self._seen = self._marked = 0
        self._lost = 0.0
        self._sent_bits = 0.0
        self._delay: int | None = None
        self._delivered = 0.0
        self._through = 0.0
        """What came through, bits per second, as of the last round trips."""
        self._adjusted = False

    @property
    def packet_time(self) -> int:
        """Nanoseconds from a packet to the next."""
        return int(FRAME_BITS * SECOND / self.rate)

    def sent(self, frame_bytes: int) -> None:
        """Count what was sent: a rate that is not used does not grow."""
        self._sent_bits += 8.0 * frame_bytes

    def feedback(
        self, now: int, round_trip: int, delay: int | None, seen: int, marked: int, lost: float, delivered: float
    ) -> None:
        """Take a receiver's report of packets since the last one.

        `delay` is the queueing delay in ns if it was measured, `lost` the packets trimmed or missing beyond what the
        message tolerates, `delivered` the rate at which packets came out of the network, 0 where unknown.
        """
        self._seen += seen
        self._marked += marked
        self._lost += lost
        self._delivered = max(self._delivered, delivered)
        if delay is not None:
            self._delay = delay if self._delay is None else min(self._delay, delay)
        self._begin = self._begin or now - round_trip
        if now - self._begin < max(round_trip, MILLISECOND) or not self._seen:
            return
        self._adjust(now - self._begin, round_trip)
        self._begin, self._seen, self._marked, self._lost, self._sent_bits = now, 0, 0, 0.0, 0.0
        self._delay, self._delivered = None, 0.0

    def _adjust(self, elapsed: int, round_trip: int) -> None:
        settings = self.settings
        share = self._marked / self._seen
        self._marked_share += MARK_GAIN * (share - self._marked_share)
        delay, target = self._delay or 0, settings.target_delay
        through = self._seen * FRAME_BITS * SECOND / elapsed if self._adjusted else 0.0
        self._through, self._adjusted = max(through, FADING * self._through), True
        decrease = max(
            max(self._marked_share, share / 4) / 2 if self._marked else 0.0,
            DELAY_GAIN * (delay - target) / delay if delay > target else 0.0,
            self._lost / (self._seen + self._lost) / 2,
        )
        if decrease:
            if self.probing and self._delivered:  # doubling overshot: start from what comes through
                self.rate = min(self.rate, self._delivered)
            self.probing, self._calm = False, 0
            enough = min(self.rate, DRAINING * self._through)
            self.rate = max(self.rate * (1 - min(decrease, MOST_DECREASE)), enough)
        elif self._sent_bits * SECOND >= self.rate * elapsed / 2:
            self._calm += 1
            factor = 2.0 if self.probing else CALM_FACTOR if self._calm > CALM_ROUNDS else 1.0
            grown = self.rate * factor
            if self._delivered:
                grown = min(grown, factor * self._delivered)
            step = FRAME_BITS * SECOND / max(round_trip, MILLISECOND)
            quick = max(self.rate + step, grown)
            slow = self.rate + BEYOND_FAIR * step
            self.rate = quick if quick <= settings.fair else max(settings.fair, slow)
        self.rate = min(max(self.rate, settings.least), settings.line)

    def silence(self) -> None:
        """Nothing was heard for a timeout while packets were sent: halve."""
        self.probing = False
        self.rate = max(self.rate / 2, self.settings.least)
