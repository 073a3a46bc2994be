# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Every packet that arrives is compared with what was sent, and counted as what it is."""

from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.packet import Raw

from topologies.errors import UsageError
from traffic import trace
from traffic.header import Gradient
from traffic.packer import Packets
from traffic.replay.frames import Station, readdressed
from traffic.replay.receiver import ReceiverReport
from traffic.replay.sender import SenderReport
from traffic.replay.session import Outcome
from traffic.replay.sources import trace_stream
from traffic.replay.stream import Stream
from traffic.replay.summary import Kind, kinds_of, overtaken_by, summarise
from traffic.replay.verify import ARRIVAL, FrameVerifier, GradientVerifier, State
from traffic.wire import GRADIENT_BYTES, GRADIENT_PORT, GradientFlag, GradientType, version_type

STATION = Station("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1", "fd00::1")


@pytest.fixture(scope="module")
def recorded() -> trace.Trace:
    made, _ = trace.record("digits", workers=2, rounds=3, samples=8)
    return made


@pytest.fixture
def streams(recorded: trace.Trace) -> list[Stream]:
    return [trace_stream(recorded, worker) for worker in range(2)]


def sent(stream: Stream, rounds: int) -> Packets:
    """Copy what a sender sends in its first rounds."""
    rows = [row for number in range(rounds) for row in stream.round(number).rows()]
    return Packets.of(rows)


def taken(packets: Packets, order: np.ndarray) -> Packets:
    return Packets(packets.frames[order], packets.lengths[order])


def outcome(streams: list[Stream], arrivals: np.ndarray, rounds: int) -> Outcome:
    reports = [SenderReport(stream.packets_in(rounds), 1.0, 5.0) for stream in streams]
    return Outcome(streams, reports, ReceiverReport(len(arrivals), 1.0, 0), arrivals, rounds, overhead=42)


def test_rounds_repeat_with_numbers_that_count_on(streams: list[Stream]) -> None:
    stream = streams[0]
    header = sent(stream, 7).headers
    assert np.array_equal(header["sequence"], np.arange(stream.packets_in(7)))
    assert np.unique(header["round"]).tolist() == list(range(7))
    assert stream.packets_in(3) == len(stream)


def test_a_stream_comes_back_from_its_folder(streams: list[Stream], tmp_path: Path) -> None:
    streams[0].save(tmp_path / "stream")
    loaded = Stream.load(tmp_path / "stream")
    before = (tmp_path / "stream" / "frames.npy").read_bytes()
    assert sent(loaded, 5).rows() == sent(streams[0], 5).rows()
    assert (tmp_path / "stream" / "frames.npy").read_bytes() == before, "numbering must stay in the sender's memory"


def test_packets_are_exact_in_any_order_and_round(streams: list[Stream]) -> None:
    verifier = GradientVerifier(streams)
    for flow, stream in enumerate(streams):
        packets = sent(stream, 5)
        order = np.random.default_rng(0).permutation(len(packets))
        arrivals = verifier.check(taken(packets, order))
        assert (arrivals["state"] == State.EXACT).all()
        assert (arrivals["flow"] == flow).all()
        assert np.array_equal(arrivals["index"], order)


@pytest.mark.parametrize("byte", [1, 3, 4, 9, 15, 20, 23, 27, GRADIENT_BYTES, -1])
def test_one_flipped_bit_makes_a_packet_altered(streams: list[Stream], byte: int) -> None:
    packets = sent(streams[0], 4)
    packets.frames[0, byte if byte >= 0 else packets.lengths[0] - 1] ^= 4
    states = GradientVerifier(streams).check(packets)["state"]
    assert states[0] == State.ALTERED
    assert (states[1:] == State.EXACT).all()


def test_a_wrong_round_or_length_makes_a_packet_altered(streams: list[Stream]) -> None:
    packets = sent(streams[0], 1)
    packets.headers["round"][0] += 1
    packets.lengths[1] -= 4
    packets.lengths[2] = 10
    states = GradientVerifier(streams).check(packets)["state"].tolist()
    assert states[:3] == [State.ALTERED, State.ALTERED, State.FOREIGN]


def test_bytes_beyond_a_short_packet_do_not_matter(streams: list[Stream]) -> None:
    packets = sent(streams[0], 1)
    short = int(np.argmin(packets.lengths))
    packets.frames[short, packets.lengths[short] :] = 0xAA  # left there by an earlier, longer packet
    assert GradientVerifier(streams).check(packets)["state"][short] == State.EXACT


def test_trimmed_packets_and_strangers_are_told_apart(streams: list[Stream]) -> None:
    packets = sent(streams[0], 1)
    packets.headers["version_type"][:2] = version_type(GradientType.TRIMMED)
    packets.lengths[:2] = GRADIENT_BYTES
    packets.headers["layer"][1] ^= 1
    packets.headers["rank"][2] = 77
    states = GradientVerifier(streams).check(packets)["state"].tolist()
    assert states[:3] == [State.TRIMMED, State.ALTERED, State.FOREIGN]


def frame(payload: bytes, **fields: int) -> bytes:
    packet = IP(src="1.1.1.1", dst="2.2.2.2", tos=fields.pop("tos", 0)) / UDP(sport=1, dport=fields.pop("dport", 9))
    body = packet / Gradient(**fields) / Raw(payload) if fields else packet / Raw(payload)
    found = readdressed(bytes(body), STATION, STATION)
    assert found
    return found


def frame_stream(frames: list[bytes]) -> Stream:
    return Stream(Packets.of(frames), (0, len(frames)), gradient=False)


def test_equal_frames_count_in_order_and_a_third_copy_is_a_duplicate() -> None:
    stream = frame_stream([frame(b"a"), frame(b"twin"), frame(b"twin")])
    arrivals = FrameVerifier([stream]).check(Packets.of([frame(b"twin"), frame(b"a")] + [frame(b"twin")] * 2))
    assert arrivals["index"].tolist() == [1, 0, 2, 2]
    assert (arrivals["state"] == State.EXACT).all()
    summary = summarise(outcome([stream], arrivals, 1))
    assert (summary.total.sent, summary.total.delivered, summary.duplicates) == (3, 3, 1)


def test_foreign_and_altered_frames_are_not_recognised() -> None:
    verifier = FrameVerifier([frame_stream([frame(b"abc")])])
    altered = bytearray(frame(b"abc"))
    altered[-1] ^= 1
    arrivals = verifier.check(Packets.of([bytes(altered), b"\x00" * 60, frame(b"abc")]))
    assert arrivals["state"].tolist() == [State.FOREIGN, State.FOREIGN, State.EXACT]


def test_a_trimmed_gradient_frame_is_recognised() -> None:
    fields = {"dport": GRADIENT_PORT, "layer": 2, "sequence": 5, "count": 4}
    verifier = FrameVerifier([frame_stream([frame(b"x"), frame(bytes(16), **fields)])])
    arrivals = verifier.check(Packets.of([frame(b"", type=GradientType.TRIMMED, **fields)]))
    assert arrivals.tolist() == [(0, 1, State.TRIMMED)]


def test_kinds_of_frames_are_what_a_fabric_decides_by() -> None:
    spared = GradientFlag.PROTECTED
    gradient = {"dport": GRADIENT_PORT, "job": 3, "layer": 2, "importance": 9}
    kinds = kinds_of(
        frame_stream([
            frame(b"x", tos=46 << 2),
            frame(b"x", **gradient),
            frame(b"x", **gradient, flags=spared),
            frame(b"", **gradient, type=GradientType.STOP),
        ])
    )  # fmt: skip
    assert kinds["gradient"].tolist() == [False, True, True, True]
    assert kinds["dscp"][0] == 46
    assert kinds["importance"].tolist() == [255, 9, 255, 255]
    assert kinds["job"].tolist() == [0, 3, 3, 3]


def test_shares_follow_importance_layer_and_class(streams: list[Stream]) -> None:
    rounds = 6
    arrivals = []
    for flow, stream in enumerate(streams):
        header = sent(stream, rounds).headers
        kept = np.flatnonzero((header["layer"] == 0) | (header["flags"] & GradientFlag.PROTECTED > 0))
        records = np.zeros(len(kept), ARRIVAL)
        records["flow"], records["index"] = flow, kept
        arrivals.append(records)

    def classify(kind: Kind) -> int:
        assert (kind.job, kind.type) == (1, GradientType.DATA)
        return 6 - kind.layer

    summary = summarise(outcome(streams, np.concatenate(arrivals), rounds), classify)
    assert summary.total.sent == sum(stream.packets_in(rounds) for stream in streams)
    assert summary.by_layer[0].share == 1
    assert list(summary.by_class) == [6, 5]
    assert summary.by_class[6] == summary.by_layer[0]
    assert sum(band.sent for band in summary.by_importance) == summary.total.sent
    assert summary.most_important_quarter.sent >= summary.total.sent // 4
    assert summary.ordinary.share is None
    plain = summary.as_dict()["delivered"]
    assert plain["layer"]["0"] == plain["class"]["6"] == 1


def test_order_is_measured_as_rfc_4737_does() -> None:
    assert overtaken_by(np.array([0, 1, 2, 3])).tolist() == [0, 0, 0, 0]
    assert overtaken_by(np.array([0, 3, 1, 2, 4])).tolist() == [0, 0, 1, 2, 0]
    assert overtaken_by(np.zeros(0, np.int64)).tolist() == []


def test_more_senders_than_workers_are_refused(recorded: trace.Trace) -> None:
    with pytest.raises(UsageError, match="2 workers"):
        trace_stream(recorded, 2)
