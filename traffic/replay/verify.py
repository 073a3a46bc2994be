# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Check every packet that arrives against what was sent, byte by byte, and tell which one it is."""

from collections import defaultdict, deque
from enum import IntEnum
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from traffic.packer import Packets
from traffic.replay.frames import Identity, gradient_header, identity, trimmed_identity
from traffic.replay.stream import Stream
from traffic.wire import GRADIENT_BYTES, HEADER, GradientType, version_type


class State(IntEnum):
    """What became of a packet."""

    EXACT = 0
    TRIMMED = 1
    """Its header arrived bit-exact, its values were cut off on purpose."""
    ALTERED = 2
    """Some byte differs from what was sent."""
    FOREIGN = 3
    """Nobody in this replay sent it."""


ARRIVAL = np.dtype([("flow", "u2"), ("index", "u4"), ("state", "u1")])
"""One arrived packet: its flow, its number in the flow's order of sending, its state. FOREIGN has flow and index 0."""


class Verifier(Protocol):
    """Judges arrived packets."""

    stride: int
    """Bytes of the longest packet that it expects."""

    def check(self, packets: Packets) -> NDArray[np.void]:
        """Return an ARRIVAL record for each packet, in order."""


class GradientVerifier:
    """Knows gradient packets by rank (the flow) and sequence number, whatever their order."""

    def __init__(self, streams: list[Stream]) -> None:
        self._streams = streams
        width = max(stream.packets.frames.shape[1] for stream in streams)
        self._expected = [_blanked(stream.packets, width) for stream in streams]
        self._rounds = [np.repeat(np.arange(stream.recorded_rounds), np.diff(stream.rounds)) for stream in streams]
        self.stride = width

    def check(self, packets: Packets) -> NDArray[np.void]:
        """Return an ARRIVAL record for each packet, in order."""
        arrivals = np.zeros(len(packets), ARRIVAL)
        arrivals["state"] = State.FOREIGN
        header = packets.headers
        whole = packets.lengths >= GRADIENT_BYTES
        for flow, stream in enumerate(self._streams):
            chosen = np.flatnonzero(whole & (header["rank"] == flow))
            if len(chosen):
                own = Packets(packets.frames[chosen], packets.lengths[chosen])
                arrivals["flow"][chosen] = flow
                arrivals["index"][chosen] = own.headers["sequence"]
                arrivals["state"][chosen] = self._states(flow, stream, own)
        return arrivals

    def _states(self, flow: int, stream: Stream, packets: Packets) -> NDArray[np.int64]:
        again, rows = np.divmod(packets.headers["sequence"].astype(np.int64), len(stream))
        right_round = packets.headers["round"] == again * stream.recorded_rounds + self._rounds[flow][rows]
        expected, lengths = self._expected[flow][rows], stream.packets.lengths[rows]
        found = _blanked(packets, self.stride)
        exact = right_round & (packets.lengths == lengths) & (found == expected).all(axis=1)
        trimmed = right_round & (packets.lengths == GRADIENT_BYTES)
        trimmed &= found[:, 0] == version_type(GradientType.TRIMMED)
        trimmed &= (found[:, 1:GRADIENT_BYTES] == expected[:, 1:GRADIENT_BYTES]).all(axis=1)
        return np.where(exact, State.EXACT, np.where(trimmed, State.TRIMMED, State.ALTERED))


def _blanked(packets: Packets, width: int) -> NDArray[np.uint8]:
    """Copy the rows without what repetition changes and without what stands beyond each packet's length."""
    frames = np.zeros((len(packets), width), np.uint8)
    frames[:, : packets.frames.shape[1]] = packets.frames
    header = frames[:, :GRADIENT_BYTES].view(HEADER)[:, 0]
    header["round"] = 0
    header["sequence"] = 0
    for row in np.flatnonzero(packets.lengths < width):
        frames[row, packets.lengths[row] :] = 0
    return frames


class FrameVerifier:
    """Knows IP frames by their bytes, without those that routers change; equal frames count in order of sending."""

    def __init__(self, streams: list[Stream], rounds: int = 1) -> None:
        self._waiting: dict[Identity, deque[tuple[int, int]]] = defaultdict(deque)
        self._last: dict[Identity, tuple[int, int]] = {}
        self._by_header: dict[Identity, tuple[int, int]] = {}
        for flow, stream in enumerate(streams):
            frames = stream.packets.rows()
            known = [identity(frame) for frame in frames]
            for index in range(rounds * len(frames)):
                if (unchanging := known[index % len(frames)]) is not None:
                    self._waiting[unchanging].append((flow, index))
            for index, frame in enumerate(frames):
                if (header := trimmed_identity(frame)) is not None:
                    self._by_header[header] = (flow, index)
        self.stride = max(stream.packets.frames.shape[1] for stream in streams)

    def check(self, packets: Packets) -> NDArray[np.void]:
        """Return an ARRIVAL record for each packet, in order. An altered frame is not recognised: FOREIGN."""
        return np.array([self._arrival(frame) for frame in packets.rows()], ARRIVAL)

    def _arrival(self, frame: bytes) -> tuple[int, int, State]:
        known = identity(frame)
        if known in self._waiting:
            if waiting := self._waiting[known]:
                self._last[known] = waiting.popleft()
            return (*self._last[known], State.EXACT)
        header = gradient_header(frame)
        if header is not None and header[0] == version_type(GradientType.TRIMMED):
            sent = self._by_header.get(trimmed_identity(frame) or b"")
            if sent is not None:
                return (*sent, State.TRIMMED)
        return (0, 0, State.FOREIGN)
