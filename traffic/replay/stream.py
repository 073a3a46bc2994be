# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What one sender sends, prepared once and shared as a folder by its sender and the receiver that checks it."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from traffic.packer import Packets


@dataclass(frozen=True)
class Stream:
    """Rows to send, cut into rounds.

    The rows of a gradient stream are UDP payloads; when the rounds are through, they start again, and the headers'
    round and sequence numbers count on. Other streams are whole frames, sent as they are.
    """

    packets: Packets
    rounds: tuple[int, ...]
    """First row of every round, and the number of rows at the end."""
    gradient: bool

    def __len__(self) -> int:
        return len(self.packets)

    @property
    def recorded_rounds(self) -> int:
        """Rounds before the stream starts again."""
        return len(self.rounds) - 1

    def packets_in(self, rounds: int) -> int:
        """Return how many packets the first `rounds` rounds have."""
        again, rest = divmod(rounds, self.recorded_rounds)
        return again * len(self) + self.rounds[rest]

    def bytes_per_round(self, overhead: int) -> float:
        """Return the mean bytes of a round, with `overhead` bytes before every row."""
        return (int(self.packets.lengths.sum()) + overhead * len(self)) / self.recorded_rounds

    def round(self, number: int) -> Packets:
        """Return the packets of a round, numbered for it in place: valid until the same rows' next turn."""
        again, index = divmod(number, self.recorded_rounds)
        rows = slice(self.rounds[index], self.rounds[index + 1])
        packets = Packets(self.packets.frames[rows], self.packets.lengths[rows])
        if self.gradient:
            header = packets.headers
            header["round"] = number
            header["sequence"] = again * len(self) + np.arange(rows.start, rows.stop)
        return packets

    def save(self, folder: Path) -> None:
        """Write the stream as a folder."""
        folder.mkdir(parents=True)
        np.save(folder / "frames.npy", self.packets.frames)
        np.save(folder / "lengths.npy", self.packets.lengths)
        (folder / "stream.json").write_text(json.dumps({"rounds": self.rounds, "gradient": self.gradient}))

    @staticmethod
    def load(folder: Path) -> "Stream":
        """Map a saved stream; what is written to its rows stays in this process."""
        about = json.loads((folder / "stream.json").read_text())
        frames = np.load(folder / "frames.npy", mmap_mode="c")
        return Stream(Packets(frames, np.load(folder / "lengths.npy")), tuple(about["rounds"]), about["gradient"])
