# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a replay delivered: bit-exact shares by importance band, layer and class, and the order of arrival."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from traffic.packer import MOST_IMPORTANT
from traffic.replay.frames import ETHERNET, datagram, gradient_header
from traffic.replay.session import Outcome
from traffic.replay.stream import Stream
from traffic.replay.verify import State
from traffic.wire import BANDS, HEADER, GradientFlag, GradientType

KIND = np.dtype(
    [("gradient", "?"), ("job", "u2"), ("type", "u1"), ("layer", "u2"), ("dscp", "u1"), ("importance", "u1")]
)
"""What a fabric decides by: of ordinary packets the DSCP, of gradient packets the rest."""

BAND_WIDTH = 256 // BANDS
MOST_IMPORTANT_QUARTER = 192
"""Least importance of the most important quarter of packets."""


@dataclass(frozen=True)
class Kind:
    """What classifies a packet: `dscp` of ordinary traffic, the other fields of a gradient packet."""

    gradient: bool
    job: int
    type: int
    layer: int
    dscp: int


Classifier = Callable[[Kind], int]
"""Returns the class, 0..7, into which the installed policy puts packets of a kind."""


@dataclass(frozen=True)
class Share:
    """Packets sent, and how many of them arrived bit-exact at least once."""

    sent: int
    delivered: int

    @property
    def share(self) -> float | None:
        """Delivered of sent, 0..1; None if nothing was sent."""
        return self.delivered / self.sent if self.sent else None


@dataclass(frozen=True)
class Summary:
    """A whole replay's result."""

    total: Share
    trimmed: int
    altered: int
    duplicates: int
    foreign: int
    """Packets that nobody in the replay sent, or that cannot be recognised any more."""
    host_drops: int
    by_importance: tuple[Share, ...]
    """By band, least important first."""
    most_important_quarter: Share
    by_layer: dict[int, Share]
    by_class: dict[int, Share]
    """Empty without a classifier."""
    ordinary: Share
    reordered: float
    """Share of arrived packets that a later one of their flow overtook (RFC 4737, section 3)."""
    reordering_extent: int
    """Most packets of a flow by which one was overtaken (RFC 4737, section 4.2)."""
    offered_bps: float
    """Frames sent by all senders together, in bits per second, pauses included."""
    late_us: float
    """The latest that any burst left after it was due."""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {
            "packets": {
                "sent": self.total.sent,
                "delivered": self.total.delivered,
                "trimmed": self.trimmed,
                "altered": self.altered,
                "duplicates": self.duplicates,
                "foreign": self.foreign,
                "host_drops": self.host_drops,
            },
            "delivered": {
                "total": self.total.share,
                "importance": [band.share for band in self.by_importance],
                "most_important_quarter": self.most_important_quarter.share,
                "layer": {str(layer): share.share for layer, share in self.by_layer.items()},
                "class": {str(class_): share.share for class_, share in self.by_class.items()},
                "ordinary": self.ordinary.share,
            },
            "order": {"reordered": self.reordered, "extent": self.reordering_extent},
            "offered_bps": self.offered_bps,
            "late_us": self.late_us,
        }


def summarise(outcome: Outcome, classify: Classifier | None = None) -> Summary:
    """Count what arrived of what was sent."""
    kinds, sent, delivered, duplicates = [], [], [], 0
    reordered, extent = 0, 0
    for flow, stream in enumerate(outcome.streams):
        own = outcome.arrivals[outcome.arrivals["flow"] == flow]
        exact = own["index"][own["state"] == State.EXACT].astype(np.int64)
        total = stream.packets_in(outcome.rounds)
        arrived = np.zeros(total, bool)
        arrived[exact] = True
        duplicates += len(exact) - int(arrived.sum())
        kinds.append(kinds_of(stream))
        row = np.arange(total) % len(stream)
        sent.append(np.bincount(row, minlength=len(stream)))
        delivered.append(np.bincount(row[arrived], minlength=len(stream)))
        overtaken = overtaken_by(exact)
        reordered += int((overtaken > 0).sum())
        extent = max(extent, int(overtaken.max(initial=0)))

    kind, sent_of, delivered_of = np.concatenate(kinds), np.concatenate(sent), np.concatenate(delivered)

    def share(chosen: NDArray[np.bool_]) -> Share:
        return Share(int(sent_of[chosen].sum()), int(delivered_of[chosen].sum()))

    state = np.bincount(outcome.arrivals["state"], minlength=len(State))
    gradient = kind["gradient"]
    importance = kind["importance"]
    classes = _classes(kind, classify) if classify else np.zeros(0, np.int64)
    return Summary(
        total=share(np.ones(len(kind), bool)),
        trimmed=int(state[State.TRIMMED]),
        altered=int(state[State.ALTERED]),
        duplicates=duplicates,
        foreign=int(state[State.FOREIGN]),
        host_drops=outcome.receiver.host_drops,
        by_importance=tuple(share(gradient & (importance // BAND_WIDTH == band)) for band in range(BANDS)),
        most_important_quarter=share(gradient & (importance >= MOST_IMPORTANT_QUARTER)),
        by_layer={
            int(layer): share(gradient & (kind["layer"] == layer)) for layer in np.unique(kind["layer"][gradient])
        },
        by_class={int(class_): share(classes == class_) for class_ in np.unique(classes)[::-1]},
        ordinary=share(~gradient),
        reordered=reordered / max(1, int(state[State.EXACT])),
        reordering_extent=extent,
        offered_bps=_offered(outcome),
        late_us=max(sender.late_us for sender in outcome.senders),
    )


def kinds_of(stream: Stream) -> NDArray[np.void]:
    """Return the KIND record of every packet of a stream."""
    kinds = np.zeros(len(stream), KIND)
    if stream.gradient:
        header, kinds["gradient"] = stream.packets.headers, True
    else:
        found = [gradient_header(frame) for frame in stream.packets.rows()]
        header = np.frombuffer(b"".join(each or bytes(HEADER.itemsize) for each in found), HEADER)
        kinds["gradient"] = [each is not None for each in found]
        kinds["dscp"] = [_dscp(frame) for frame in stream.packets.rows()]
    for name in ("job", "layer", "importance"):
        kinds[name] = header[name]
    kinds["type"] = header["version_type"] & 0x0F
    spared = (header["flags"] & (GradientFlag.PROTECTED | GradientFlag.RETRANSMISSION)) != 0
    spared |= kinds["type"] > GradientType.TRIMMED  # control messages
    kinds["importance"][spared | ~kinds["gradient"]] = MOST_IMPORTANT
    return kinds


def overtaken_by(indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each arrival of one flow how far back it came after the earliest arrival that was sent later.

    0 for a packet in order. `indices` are positions in the order of sending, in order of arrival.
    """
    if not len(indices):
        return indices
    highest = np.maximum.accumulate(indices)
    late = indices < highest
    overtaker = np.searchsorted(highest, indices, side="right")
    return np.where(late, np.arange(len(indices)) - overtaker, 0)


def _classes(kinds: NDArray[np.void], classify: Classifier) -> NDArray[np.int64]:
    fields = ["gradient", "job", "type", "layer", "dscp"]
    plain = np.zeros(len(kinds), [(name, KIND[name]) for name in fields])
    for name in fields:
        plain[name] = kinds[name]
    unique, inverse = np.unique(plain, return_inverse=True)
    classes = np.array([classify(Kind(*each.tolist())) for each in unique])
    found: NDArray[np.int64] = classes[inverse]
    return found


def _dscp(frame: bytes) -> int:
    found = datagram(frame)
    if found is None:
        return 0
    if found.version == 4:
        return frame[ETHERNET + 1] >> 2
    return (frame[ETHERNET] << 8 | frame[ETHERNET + 1]) >> 6 & 0x3F


def _offered(outcome: Outcome) -> float:
    per_round = sum(stream.bytes_per_round(outcome.overhead) for stream in outcome.streams)
    return 8 * per_round * outcome.rounds / max(sender.seconds for sender in outcome.senders)
