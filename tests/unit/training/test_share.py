# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Shares: counts by chunk, how packets carry them, and that a loss only means fewer samples."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from traffic.training.lossy import Loss, deliver
from traffic.training.rule import Rule, State
from traffic.training.share import CHUNK_VALUES, Share, Total, chunks_of, spread
from traffic.wire import IPV4_VALUES

sizes = st.integers(1, 3 * CHUNK_VALUES + 1)


@settings(deadline=None)
@given(sizes, st.integers(0, 1000), st.integers(0, 2**32 - 1))
def test_packets_carry_a_share_and_its_counts(values: int, samples: int, seed: int) -> None:
    share = Share.of(np.random.default_rng(seed).standard_normal(values).astype(np.float32), samples)
    encoded = share.encode()
    assert encoded.size == IPV4_VALUES * chunks_of(values)
    back = Share.decode(encoded, values)
    np.testing.assert_array_equal(back.sums, share.sums)
    np.testing.assert_array_equal(back.counts, share.counts)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_a_sum_of_packets_is_the_packets_of_the_sum_also_where_some_were_lost(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = 2 * CHUNK_VALUES + 5
    shares = [Share.of(random.integers(-9, 9, values).astype(np.float32), float(n)) for n in (3, 5)]
    arrived = random.random((2, 3)) < 0.5
    packets = [
        share.encode() * np.repeat(mask, IPV4_VALUES).astype(np.float32)
        for share, mask in zip(shares, arrived, strict=True)
    ]
    total, _ = deliver(shares, arrived)
    added = Share.decode(packets[0] + packets[1], values)
    np.testing.assert_array_equal(added.sums, total.sums)
    np.testing.assert_array_equal(added.counts, total.counts)


def test_each_chunk_is_divided_by_the_samples_that_arrived_for_it() -> None:
    shares = [
        Share.of(np.full(3 * CHUNK_VALUES, 6.0, np.float32), 3),
        Share.of(np.zeros(3 * CHUNK_VALUES, np.float32), 9),
    ]
    total, _ = deliver(shares, np.array([[True, True, False], [True, False, False]]))
    mean, there = Total(total).mean()
    assert there is not None
    np.testing.assert_allclose(mean[::CHUNK_VALUES], [0.5, 2.0, 0.0])
    np.testing.assert_array_equal(there[::CHUNK_VALUES], [True, True, False])


@settings(deadline=None)
@given(momentum=st.sampled_from([0.0, 0.9]), decay=st.sampled_from([0.0, 0.1]))
def test_a_chunk_that_nobody_delivered_keeps_its_weights_and_its_velocity(momentum: float, decay: float) -> None:
    values = 2 * CHUNK_VALUES
    rule = Rule(0.1, momentum, decay)
    state = State(np.ones(values, np.float32))
    both, first = np.array([[True, True]]), np.array([[True, False]])
    share = [Share.of(np.full(values, 2.0, np.float32), 2)]
    before = rule.step(state, Total(deliver(share, both)[0]))
    after = rule.step(before, Total(deliver(share, first)[0]))
    lost = slice(CHUNK_VALUES, None)
    np.testing.assert_array_equal(after.weights[lost], before.weights[lost])
    assert (after.weights[:CHUNK_VALUES] < before.weights[:CHUNK_VALUES]).all()
    if momentum:
        assert before.velocity is not None and after.velocity is not None
        np.testing.assert_array_equal(after.velocity[lost], before.velocity[lost])


@settings(deadline=None, max_examples=20)
@given(
    loss=st.floats(0, 0.2),
    counts=st.lists(st.integers(1, 64), min_size=2, max_size=8),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_mean_of_what_arrived_is_unbiased(loss: float, counts: list[int], seed: int) -> None:
    """Per-sample gradients are 1 + noise; over many chunks and rounds their mean is 1 at any loss."""
    chunks, rounds, noise = 40, 50, 2.0
    random = np.random.default_rng((seed, rounds))  # (seed, 0) would be the loss's stream: noise that knows of losses
    model = Loss(loss, seed)
    means: list[float] = []
    variances: list[float] = []
    for number in range(rounds):
        sums = [n + noise * np.sqrt(n) * random.standard_normal(chunks) for n in counts]
        shares = [
            Share(spread(s, CHUNK_VALUES * chunks).astype(np.float32), np.full(chunks, n, np.float32))
            for s, n in zip(sums, counts, strict=True)
        ]
        total, _ = deliver(shares, model.arrived(number, len(counts), chunks))
        mean, _ = Total(total).mean()
        there = total.counts > 0
        means += mean[::CHUNK_VALUES][there].tolist()
        variances += (noise**2 / total.counts[there]).tolist()
    error = abs(np.mean(means) - 1)
    assert error < 5 * np.sqrt(np.sum(variances)) / len(means)


def test_dividing_by_what_was_sent_would_be_biased_and_the_test_above_would_see_it() -> None:
    counts, chunks = [16] * 4, 4000
    share = [Share.of(np.full(CHUNK_VALUES * chunks, float(n), np.float32), n) for n in counts]
    total, _ = deliver(share, Loss(0.2, 1).arrived(0, len(counts), chunks))
    naive = total.sums[::CHUNK_VALUES] / sum(counts)
    assert abs(naive.mean() - 0.8) < 0.02
    np.testing.assert_allclose(Total(total).mean()[0][::CHUNK_VALUES].sum(), (total.counts > 0).sum(), rtol=1e-5)


def test_error_feedback_sends_what_was_lost_later_with_its_samples() -> None:
    random = np.random.default_rng(0)
    values, rounds = 4 * CHUNK_VALUES, 30
    loss = Loss(0.5, 2)
    owed = [Share.nothing(values)] * 3
    came, sent = Share.nothing(values), Share.nothing(values)
    for number in range(rounds):
        shares = [Share.of(random.integers(-5, 5, values).astype(np.float32), float(n)) for n in (1, 2, 3)]
        total, owed = deliver(shares, loss.arrived(number, 3, 4), owed)
        came = came + total
        sent = sent + shares[0] + shares[1] + shares[2]
    late = owed[0] + owed[1] + owed[2]
    np.testing.assert_array_equal((came + late).sums, sent.sums)
    np.testing.assert_array_equal((came + late).counts, sent.counts)
    assert came.samples < sent.samples


def test_where_importance_decides_about_drops_error_feedback_undoes_the_bias() -> None:
    """The half of a round's packets that matter least are dropped, so what arrives is too large by itself."""
    chunks, rounds = 200, 40
    random = np.random.default_rng(4)
    means = {}
    for feedback in (False, True):
        owed = [Share.nothing(CHUNK_VALUES * chunks)] if feedback else None
        came = Share.nothing(CHUNK_VALUES * chunks)
        for _ in range(rounds):
            sums = spread(8 + 8 * random.standard_normal(chunks), CHUNK_VALUES * chunks).astype(np.float32)
            share = Share.of(sums, 8.0)
            sent = share + owed[0] if owed else share
            importance = np.abs(sent.sums[::CHUNK_VALUES])
            total, late = deliver([share], (importance >= np.median(importance))[None], owed)
            owed, came = (late if feedback else None), came + total
        means[feedback] = came.sums.sum() / (came.counts.sum() * CHUNK_VALUES)
    assert means[False] > 1.4
    assert abs(means[True] - 1) < 0.1
