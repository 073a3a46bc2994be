# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The vectorised packer writes the bytes that scapy writes, and what it packs can be placed in any order."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scapy.packet import Raw

from traffic.header import Gradient
from traffic.packer import (
    PROTECTED_BELOW,
    Packets,
    TensorId,
    concatenate,
    decode,
    encode,
    importance,
    mean_magnitudes,
    pack,
    place,
    spread,
)
from traffic.wire import VALUE_BYTES, DataType, GradientFlag

QUARTERS = st.integers(-4000, 4000).map(lambda n: n / 4)  # their sums are exact, so that ranks never hang on rounding
TENSORS = arrays.arrays(np.float32, st.integers(1, 200), elements=QUARTERS)
IDS = st.builds(
    TensorId,
    job=st.integers(0, 0xFFFF),
    rank=st.integers(0, 0xFFFF),
    tensor=st.integers(0, 0xFFFF),
    layer=st.integers(0, 0xFFFF),
    round=st.integers(0, 0xFFFFFFFF),
    weight=st.integers(0, 0xFFFFFFFF),
)


def scapy_packets(values: np.ndarray, ids: TensorId, per_packet: int, sequence: int) -> list[bytes]:
    """Pack packet by packet, from the definitions."""
    chunks = [values[start : start + per_packet] for start in range(0, len(values), per_packet)]
    means = [sum(abs(float(value)) for value in chunk) / len(chunk) for chunk in chunks]
    order = sorted(range(len(chunks)), key=lambda i: (means[i], i))
    packets = []
    for i, chunk in enumerate(chunks):
        protected = len(chunks) < PROTECTED_BELOW
        flags = (GradientFlag.PROTECTED if protected else 0) | (GradientFlag.LAST if i == len(chunks) - 1 else 0)
        rank = 255 if protected else int((order.index(i) + 0.5) * 256 / len(chunks))
        header = Gradient(
            flags=flags,
            importance=rank,
            job=ids.job,
            rank=ids.rank,
            tensor=ids.tensor,
            layer=ids.layer,
            round=ids.round,
            offset=i * per_packet,
            count=len(chunk),
            weight=ids.weight,
            sequence=sequence + i,
        )
        packets.append(bytes(header / Raw(struct.pack(f"<{len(chunk)}f", *chunk))))
    return packets


@given(values=TENSORS, ids=IDS, per_packet=st.integers(1, 30), sequence=st.integers(0, 2**31))
@settings(deadline=None)
def test_packer_is_byte_equal_to_scapy(values: np.ndarray, ids: TensorId, per_packet: int, sequence: int) -> None:
    packets = pack(values, ids, per_packet=per_packet, sequence=sequence)
    assert packets.rows() == scapy_packets(values, ids, per_packet, sequence)


@given(
    values=TENSORS, per_packet=st.integers(1, 30), seed=st.integers(0, 2**32 - 1), data_type=st.sampled_from(DataType)
)
@settings(deadline=None)
def test_packets_placed_in_any_order_and_twice_give_the_tensor_back(
    values: np.ndarray, per_packet: int, seed: int, data_type: DataType
) -> None:
    packets = pack(values, TensorId(), per_packet=per_packet, data_type=data_type)
    order = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(packets)), 2))
    out = np.full(len(values), np.nan, np.float32)
    place(Packets(packets.frames[order], packets.lengths[order]), out)
    assert np.array_equal(out, decode(encode(values, data_type), data_type))


def test_missing_packets_leave_their_place_untouched() -> None:
    values = np.arange(1, 101, dtype=np.float32)
    packets = pack(values, TensorId(), per_packet=10)
    out = np.zeros(100, np.float32)
    place(Packets(np.delete(packets.frames, 3, 0), np.delete(packets.lengths, 3)), out)
    assert not out[30:40].any()
    assert np.array_equal(np.delete(out, np.s_[30:40]), np.delete(values, np.s_[30:40]))


def test_packets_beyond_the_tensor_or_shorter_than_their_count_are_refused() -> None:
    packets = pack(np.ones(20, np.float32), TensorId(), per_packet=10)
    with pytest.raises(ValueError, match="beyond"):
        place(packets, np.zeros(19, np.float32))
    packets.lengths[0] -= 1
    with pytest.raises(ValueError, match="shorter"):
        place(packets, np.zeros(20, np.float32))


def test_importance_ranks_evenly_over_the_whole_scale() -> None:
    assert importance(np.arange(8.0)).tolist() == [16, 48, 80, 112, 144, 176, 208, 240]
    assert importance(np.arange(8.0)[::-1]).tolist() == [240, 208, 176, 144, 112, 80, 48, 16]
    many = importance(np.random.default_rng(1).random(752))
    assert (many.min(), many.max()) == (0, 255)
    assert np.ptp(np.bincount(many >> 5)) == 0


def test_equal_packets_rank_in_order() -> None:
    assert importance(np.zeros(8)).tolist() == sorted(importance(np.zeros(8)).tolist())


def test_a_short_last_packet_is_judged_by_its_mean_not_its_sum() -> None:
    values = np.concatenate([np.ones(80), [2.0]]).astype(np.float32)
    assert mean_magnitudes(values, 10)[-1] == 2
    assert pack(values, TensorId(), per_packet=10).headers["importance"][-1] == 241


def test_tensors_of_fewer_than_eight_packets_are_protected() -> None:
    for packets, protected in ((7, True), (8, False)):
        header = pack(np.ones(packets * 10, np.float32), TensorId(), per_packet=10).headers
        assert bool((header["flags"] & GradientFlag.PROTECTED).all()) is protected
        assert bool((header["importance"] == 255).all()) is protected


@pytest.mark.parametrize("data_type", DataType)
def test_values_round_to_the_nearest_of_their_type(data_type: DataType) -> None:
    exact = np.array([0.0, -0.0, 1.0, -2.5, 0.15625, np.inf], np.float32)
    assert encode(exact, data_type).size == exact.size * VALUE_BYTES[data_type]
    assert np.array_equal(decode(encode(exact, data_type), data_type), exact)
    assert np.isnan(decode(encode(np.array([np.nan], np.float32), data_type), data_type)).all()


def test_bfloat16_rounds_to_even() -> None:
    step = np.float32(2**-7)
    halfway = np.array([1 + step / 2, 1 + 3 * step / 2], np.float32)
    assert decode(encode(halfway, DataType.BFLOAT16), DataType.BFLOAT16).tolist() == [1.0, 1 + 2 * step]


@given(TENSORS, st.integers(1, 30))
@settings(deadline=None)
def test_spreading_loses_nothing_and_numbers_in_order(values: np.ndarray, per_packet: int) -> None:
    packets = spread(pack(values, TensorId(), per_packet=per_packet, sequence=5))
    assert packets.headers["sequence"].tolist() == list(range(5, 5 + len(packets)))
    out = np.full(len(values), np.nan, np.float32)
    place(packets, out)
    assert np.array_equal(out, values)


@pytest.mark.parametrize("count", [8, 100, 558, 1000])
def test_every_stretch_of_a_spread_tensor_has_all_kinds_of_importance(count: int) -> None:
    rising = np.repeat(np.arange(count, dtype=np.float32), 4)
    header = spread(pack(rising, TensorId(), per_packet=4)).headers
    low = np.cumsum(header["importance"] < 64)
    assert np.abs(low - np.arange(1, count + 1) / 4).max() < 3


def test_packets_of_different_widths_join_in_order() -> None:
    parts = [pack(np.ones(25, np.float32), TensorId(tensor=i), per_packet=10 * (i + 1)) for i in range(3)]
    assert concatenate(parts).rows() == [row for part in parts for row in part.rows()]


def test_an_empty_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match="without values"):
        pack(np.zeros(0, np.float32), TensorId())
