# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a rank sent and what of it was lost; and the tolerance that follows where a loss budget rules."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from traffic.transport.sender import SendReport
from traffic.transport.tolerance import LossBudget
from traffic.wire import BANDS


@dataclass
class Statistics:
    """Of everything that one node sent. Values and packets that were to be summed may be lost, others never are."""

    values: int = 0
    lost_values: int = 0
    by_layer: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Values, and those lost, by layer."""
    by_band: NDArray[np.int64] = field(default_factory=lambda: np.zeros((2, BANDS), np.int64))
    """Shape (2, 8): packets, and those lost, by band of importance, least first."""
    packets: int = 0
    sent_packets: int = 0
    """Those sent again included."""
    bytes: int = 0
    """Headers and values as sent."""
    ignored: dict[str, int] = field(default_factory=dict)
    """Packets that this node received and that are part of no message, by reason."""

    def add(self, report: SendReport) -> None:
        """Count a message."""
        lost = report.missing_values
        self.values += report.values
        self.lost_values += lost
        values_of_layer, lost_of_layer = self.by_layer.get(report.ids.layer, (0, 0))
        self.by_layer[report.ids.layer] = values_of_layer + report.values, lost_of_layer + lost
        self.by_band += report.bands
        self.packets += report.packets
        self.sent_packets += report.sent
        self.bytes += report.sent_bytes

    def copy(self) -> Statistics:
        """Return the counts as they are now."""
        return Statistics(
            self.values,
            self.lost_values,
            dict(self.by_layer),
            self.by_band.copy(),
            self.packets,
            self.sent_packets,
            self.bytes,
        )


class Spending:
    """Keeps a loss budget's books: what each round lost and how large its gradient was."""

    def __init__(self, budget: LossBudget) -> None:
        self.budget = budget
        self._round = -1
        self._squares = 0.0
        self._values = self._lost = 0

    def tolerance(self, round_number: int) -> float:
        """Return what a message of this round may lose; the first of a new round closes the books of the last."""
        if round_number > self._round:
            if self._values:
                self.budget.observe(float(np.sqrt(self._squares)), self._lost / self._values)
            self._round, self._squares, self._values, self._lost = round_number, 0.0, 0, 0
        return self.budget.tolerance

    def reported(self, report: SendReport) -> None:
        """Take the loss of a message."""
        self._values += report.values
        self._lost += report.missing_values

    def reduced(self, values: NDArray[np.float32]) -> None:
        """Take a tensor's sum."""
        flat = values.reshape(-1)
        self._squares += float(np.dot(flat, flat))
