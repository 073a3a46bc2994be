# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The measured round trip and the timeouts that follow from it (RFC 6298), in ns."""

from dataclasses import dataclass

MILLISECOND = 1_000_000
SECOND = 1_000_000_000


@dataclass
class RoundTrip:
    """Smoothed round trip of one kind of packet to one peer."""

    initial: int = 50 * MILLISECOND
    """Timeout before anything was measured. RFC 6298 says 1 s, for the Internet; a fabric is smaller."""
    least: int = 5 * MILLISECOND
    """Shortest timeout: what a busy host may be late by."""
    most: int = SECOND // 4
    """Doubling ends here: what is sent upon a timeout is a hundred bytes, which congest nothing, so be persistent."""
    smoothed: int = 0
    variation: int = 0
    minimum: int = 0
    """The shortest ever measured: the way without queues."""

    def sample(self, round_trip: int) -> None:
        """Take a measurement of a packet that was sent once (Karn: every transmission has its own number)."""
        round_trip = max(round_trip, 1)
        if not self.smoothed:
            self.smoothed, self.variation, self.minimum = round_trip, round_trip // 2, round_trip
            return
        self.variation += (abs(self.smoothed - round_trip) - self.variation) // 4
        self.smoothed += (round_trip - self.smoothed) // 8
        self.minimum = min(self.minimum, round_trip)

    def timeout(self, attempt: int = 0) -> int:
        """Return how long to wait for an answer, doubled with every attempt before."""
        measured = self.smoothed + 4 * self.variation if self.smoothed else self.initial
        first = max(measured, self.least)
        return max(first, min(first << min(attempt, 10), self.most))
