# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a switch did with a case, in a form that two switches are compared in and that is recorded as text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Sent = tuple[int, bytes]


@dataclass
class Outcome:
    """For every frame what left, sorted by port and bytes; digests and counts, sorted."""

    frames: list[list[Sent]] = field(default_factory=list)
    digests: list[str] = field(default_factory=list)
    counts: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the outcome as text: a line for each frame, digest and count."""
        lines = [" ".join(f"{port}:{frame.hex()}" for port, frame in sent) or "-" for sent in self.frames]
        return [*lines, *(f"digest {each}" for each in sorted(self.digests)), *sorted(self.counts)]


def differences(wanted: Sequence[str], got: Sequence[str], frames: Sequence[Sent]) -> list[str]:
    """Compare two outcomes' lines; say which frames were treated differently."""
    said = []
    for place in range(max(len(wanted), len(got))):
        left = wanted[place] if place < len(wanted) else "nothing"
        right = got[place] if place < len(got) else "nothing"
        if left != right:
            about = f"frame {place} {frames[place][0]}:{frames[place][1].hex()}" if place < len(frames) else "then"
            said.append(f"{about}\n    wanted {left}\n    got    {right}")
    return said
