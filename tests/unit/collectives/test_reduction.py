# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What every rank has after a collective, in virtual time, whatever the network does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tests.unit.collectives.world import World, expected, gradients, job
from traffic.collectives.job import Budget, Op
from traffic.collectives.tacos import files
from traffic.collectives.tacos.network import mesh
from traffic.collectives.tacos.schedule import Collective, demand
from traffic.collectives.tacos.synthesis import synthesise
from traffic.packer import decode, encode
from traffic.transport.loss import Fill
from traffic.transport.timing import MILLISECOND
from traffic.transport.tolerance import Tolerance
from traffic.transport.virtual import Trouble
from traffic.wire import DataType

KINDS: dict[str, dict[str, Any]] = {
    "one server": {"servers": 1, "collective": "ps"},
    "two servers": {"servers": 2, "collective": "ps"},
    "ring": {"collective": "ring"},
    "halving_doubling": {"collective": "halving_doubling"},
}
SIZES = (1, 7, 360, 361, 3000, 12_000)
MOVES = (Collective.ALL_TO_ALL, Collective.GATHER, Collective.SCATTER, Collective.BROADCAST, Collective.REDUCE)
ENGINE = dict.fromkeys(MOVES, "routing")
Matrix = NDArray[np.float32]
ROUNDING = {DataType.FLOAT32: 1e-6, DataType.FLOAT16: 4e-3, DataType.BFLOAT16: 3e-2}
BAD = Trouble(loss=0.05, control_loss=0.05, duplicate=0.05, corrupt=0.02, truncate=0.02, jitter=2 * MILLISECOND)


@pytest.mark.parametrize("wire", DataType)
@pytest.mark.parametrize("op", Op)
@pytest.mark.parametrize("kind", KINDS)
def test_without_loss_the_result_is_numpys_to_rounding(kind: str, op: Op, wire: DataType) -> None:
    world = World.of(job(**KINDS[kind], op=op, wire=wire))
    weights = [3, 1, 4, 15]
    given_, futures = {}, {}
    for tensor, size in enumerate(SIZES):
        given_[tensor] = gradients(4, size, tensor)
        futures[tensor] = world.all_reduce(given_[tensor], tensor=tensor, layer=tensor // 2, weights=weights)
    world.run(20)
    for tensor, size in enumerate(SIZES):
        results = [future.result(0) for future in futures[tensor]]
        wanted = expected(world.job, given_[tensor], weights)
        scale = np.abs(np.stack(given_[tensor])).sum(axis=0) + 1
        assert np.max(np.abs(results[0].values - wanted) / scale) < ROUNDING[wire]
        for result in results:
            np.testing.assert_array_equal(result.values, results[0].values)
            assert (result.tensor, result.layer, result.values.size) == (tensor, tensor // 2, size)
            assert result.weight == 23
            assert not any(sent.result(0).missing_values for sent in result.sent)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_ranks(kind: str, ranks: int) -> None:
    world = World.of(job(ranks, **KINDS[kind]))
    values = gradients(ranks, 5000)
    futures = world.all_reduce(values)
    world.run(10)
    for future in futures:
        np.testing.assert_allclose(future.result(0).values, expected(world.job, values, []), atol=1e-6)


@pytest.mark.parametrize("engine", ["matching", "trees"])
def test_a_synthesised_schedule_sums(engine: str, tmp_path: Path) -> None:
    network = mesh(3, 2, bandwidth=12.5e6, latency=1e-4)
    schedule = synthesise(network, demand(network, Collective.ALL_REDUCE, 1e6, chunks=2), engine=engine)
    files.save(schedule, tmp_path / "schedule.json")
    world = World.of(job(6, collective=str(tmp_path / "schedule.json")), BAD)
    values = {tensor: gradients(6, size, tensor) for tensor, size in enumerate(SIZES)}
    futures = {tensor: world.all_reduce(values[tensor], tensor=tensor) for tensor in values}
    world.run(60)
    for tensor, of_rank in futures.items():
        wanted = expected(world.job, values[tensor], [])
        for future in of_rank:
            np.testing.assert_allclose(future.result(0).values, wanted, atol=1e-6)


RANKS, ROOT, EACH = 6, 4, 2


def of_collective(collective: Collective, values: Matrix, rank: int) -> Matrix:
    """What a rank has in the end, as MPI has it: `values` by rank, shape (ranks, blocks, values of a block)."""
    mine, total, none = slice(rank * EACH, (rank + 1) * EACH), values.sum(axis=0), np.zeros_like(values[0])
    blocks = np.arange(values.shape[1])
    match collective:
        case Collective.ALL_REDUCE:
            return total
        case Collective.REDUCE:
            return total if rank == ROOT else none
        case Collective.REDUCE_SCATTER:
            none[mine] = total[mine]
        case Collective.BROADCAST:
            return values[ROOT]
        case Collective.SCATTER:
            none[mine] = values[ROOT, mine]
        case Collective.ALL_GATHER | Collective.GATHER:
            if collective is Collective.ALL_GATHER or rank == ROOT:
                return values[blocks // EACH, blocks]
        case Collective.ALL_TO_ALL:
            to_me = blocks[blocks // EACH % RANKS == rank]
            none[to_me] = values[to_me // EACH // RANKS, to_me]
    return none


@pytest.mark.parametrize("collective", Collective)
def test_a_schedule_of_any_collective_does_what_mpi_says(collective: Collective, tmp_path: Path) -> None:
    network = mesh(3, 2, bandwidth=12.5e6, latency=1e-4)
    wanted = demand(network, collective, 1e6, chunks=EACH, root=ROOT)
    files.save(synthesise(network, wanted, engine=ENGINE.get(collective, "matching")), tmp_path / "schedule.npz")
    world = World.of(job(RANKS, op=Op.SUM, collective=str(tmp_path / "schedule.npz")), BAD)
    random = np.random.default_rng(3)
    values = random.integers(-99, 99, (RANKS, wanted.chunks, 2 * 360)).astype(np.float32)
    futures = world.do_plan([of_rank.reshape(-1) for of_rank in values])
    world.run(60)
    for rank, future in enumerate(futures):
        found = future.result(0).values.reshape(values[0].shape)
        np.testing.assert_array_equal(found, of_collective(collective, values, rank))


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    seed=st.integers(0, 1 << 16),
    loss=st.floats(0, 0.2),
    control_loss=st.floats(0, 0.2),
    duplicate=st.floats(0, 0.2),
    jitter=st.integers(0, 5 * MILLISECOND),
    tolerance=st.sampled_from([0.0, 0.1, 0.5]),
    size=st.integers(1, 12_000),
    wire=st.sampled_from(list(DataType)),
)
def test_every_rank_has_the_same_bits_whatever_is_lost(
    kind: str,
    seed: int,
    loss: float,
    control_loss: float,
    duplicate: float,
    jitter: int,
    tolerance: float,
    size: int,
    wire: DataType,
) -> None:
    trouble = Trouble(loss=loss, control_loss=control_loss, duplicate=duplicate, jitter=jitter, corrupt=0.02)
    world = World.of(job(**KINDS[kind], tolerance=Tolerance(push=tolerance), wire=wire), trouble, seed=seed)
    for round_ in range(2):
        values = gradients(4, size, seed + round_)
        futures = world.all_reduce(values, tensor=seed % 5, round=round_)
        world.run(60)
        results = [future.result(0) for future in futures]
        for result in results:
            np.testing.assert_array_equal(result.values, results[0].values)
        lost = sum(sent.result(0).missing_values for result in results for sent in result.sent)
        assert lost <= tolerance * size * 4 * 2
        if not lost and wire is DataType.FLOAT32:
            np.testing.assert_allclose(results[0].values, expected(world.job, values, []), atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_values_give_the_same_bits_in_any_order_of_arrival(kind: str) -> None:
    values, found = gradients(4, 20_000), []
    for seed, order in enumerate(([0, 1, 2, 3], [3, 1, 0, 2])):
        world = World.of(job(**KINDS[kind]), Trouble(jitter=3 * MILLISECOND), seed=seed)
        futures = []
        for rank in order:
            futures += world.all_reduce(values, ranks=[rank])
            world.run(0.05 * seed)
        world.run(30)
        found.append(futures[0].result(0).values)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("kind", KINDS)
def test_with_error_feedback_nothing_is_lost_for_good(kind: str) -> None:
    tolerance = Tolerance(push=0.5, schedule=((0, 1.0), (4, 0.0)))
    world = World.of(job(**KINDS[kind], op=Op.SUM, tolerance=tolerance), Trouble(least_important_loss=0.4))
    assert world.job.feeds_back
    total, had, lost = np.zeros(15_000), np.zeros(15_000), []
    for round_ in range(5):
        values = gradients(4, 15_000, round_)
        if round_ == 4:  # nothing new, and nothing may be lost: what is owed comes
            values = [np.zeros_like(each) for each in values]
        total += np.sum(values, axis=0)
        futures = world.all_reduce(values, round=round_)
        world.run(20)
        had += futures[0].result(0).values
        lost.append(sum(sent.result(0).missing_values for future in futures for sent in future.result(0).sent))
        late = [owed for member in world.members[:4] if (owed := member.owed(0, 15_000, None)) is not None]
        np.testing.assert_allclose(had + np.sum(late, axis=0) if late else had, total, atol=1e-4)  # each rank knows it
    assert min(lost[:4]) > 0 == lost[4]
    np.testing.assert_allclose(had, total, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_left_out_of_sums_is_so_for_all_ranks_and_comes_later(kind: str) -> None:
    tolerance = Tolerance(push=0.0, pull=0.5, schedule=((0, 1.0), (3, 0.0)))
    world = World.of(job(**KINDS[kind], op=Op.SUM, tolerance=tolerance), BAD)
    size = 60_000
    total, had, zeros = np.zeros(size), np.zeros(size), []
    for round_ in range(4):
        values = gradients(4, size, round_)
        if round_ == 3:
            values = [np.zeros_like(each) for each in values]
        total += np.sum(values, axis=0)
        futures = world.all_reduce(values, round=round_)
        world.run(30)
        results = [future.result(0).values for future in futures]
        for result in results:
            np.testing.assert_array_equal(result, results[0])
        had += results[0]
        zeros.append(np.count_nonzero(results[0] == 0) / size)
    assert all(0.4 < share <= 0.5 for share in zeros[:3])
    np.testing.assert_allclose(had, total, atol=1e-4)


LATER = Tolerance(push=0.4, schedule=((0, 0.0), (1, 1.0)))


def test_previous_values_stand_in_for_lost_ones() -> None:
    rules = job(servers=1, collective="ps", fill=Fill.PREVIOUS, tolerance=LATER, error_feedback=False)
    world = World.of(rules)
    ones = [np.ones(40_000, np.float32)] * 4
    world.all_reduce(ones, round=0)
    world.run(10)
    world.network.trouble = Trouble(least_important_loss=0.3)
    futures = world.all_reduce([each * 3 for each in ones], round=1)
    world.run(10)
    values = futures[0].result(0).values
    assert set(np.unique(values)) <= {1.0, 1.5, 2.0, 2.5, 3.0}
    assert 1 < values.mean() < 3


def test_a_mean_by_weights_counts_samples_not_ranks() -> None:
    world = World.of(job(2, servers=1, collective="ps", op=Op.WEIGHTED_MEAN))
    futures = world.all_reduce([np.full(10, 1.0, np.float32), np.full(10, 5.0, np.float32)], weights=[30, 10])
    world.run(5)
    assert futures[0].result(0).values.tolist() == [2.0] * 10
    assert futures[1].result(0).weight == 40


def test_a_rank_without_samples_takes_part() -> None:
    world = World.of(job(2, collective="ring", op=Op.WEIGHTED_MEAN))
    futures = world.all_reduce([np.full(800, 1.0, np.float32), np.full(800, 5.0, np.float32)], weights=[0, 10])
    world.run(5)
    assert futures[0].result(0).values.tolist() == [5.0] * 800


@pytest.mark.parametrize("wire", DataType)
def test_values_on_the_wire_are_of_the_jobs_type(wire: DataType) -> None:
    world = World.of(job(2, servers=1, collective="ps", op=Op.SUM, wire=wire))
    values = gradients(2, 3600)
    futures = world.all_reduce(values)
    world.run(5)
    result = futures[0].result(0)
    half = 1 if wire is DataType.FLOAT32 else 2
    assert result.sent[0].result(0).packets == 10 // half
    received = decode(encode(values[0], wire), wire) + decode(encode(values[1], wire), wire)
    np.testing.assert_array_equal(result.values, decode(encode(received, wire), wire))


@pytest.mark.parametrize("root", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_broadcast_is_exact_though_the_wire_is_narrow(kind: str, root: int) -> None:
    world = World.of(job(**KINDS[kind], wire=DataType.FLOAT16, tolerance=Tolerance(push=0.5)), BAD)
    values = gradients(4, 9000)
    futures = world.broadcast(values, root)
    world.run(30)
    for future in futures:
        np.testing.assert_array_equal(future.result(0).values, values[root])


def test_a_budget_is_kept_over_the_training() -> None:
    rules = job(2, servers=1, collective="ps", budget=Budget(share=0.2, rounds=20), tolerance=Tolerance(push=1.0))
    world = World.of(rules, Trouble(least_important_loss=0.5))
    for round_ in range(20):
        world.all_reduce(gradients(2, 36_000, round_), round=round_)
        world.run(2)
    for member in world.members[:2]:
        statistics = member.statistics
        assert 0.02 < statistics.lost_values / statistics.values <= 0.2
        assert statistics.by_band[1, :2].sum() > 0.8 * statistics.by_band[1].sum(), "the least important are lost"


def test_a_job_with_a_key() -> None:
    world = World.of(job(3, collective="ring", key="00112233445566778899aabbccddeeff"), BAD)
    values = gradients(3, 3000)
    futures = world.all_reduce(values)
    world.run(20)
    np.testing.assert_allclose(futures[2].result(0).values, expected(world.job, values, []), atol=1e-6)


def test_a_rank_without_samples_keeps_what_it_owes() -> None:
    """Given with a weight of zero it would be lost for good."""
    tolerance = Tolerance(push=0.5, schedule=((0, 1.0), (1, 0.0)))
    rules = job(2, servers=1, collective="ps", op=Op.WEIGHTED_MEAN, tolerance=tolerance)
    world = World.of(rules, Trouble(least_important_loss=0.4))
    ones, nothing = np.ones(36_000, np.float32), np.zeros(36_000, np.float32)
    had = np.zeros(36_000)
    for round_, weights in enumerate(([2, 2], [0, 2], [2, 2])):
        given = ones if not round_ else nothing
        futures = world.all_reduce([given, nothing], round=round_, weights=weights)
        world.run(10)
        had += futures[0].result(0).values
    np.testing.assert_allclose(had, ones / 2, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_sizes_may_change_from_round_to_round(kind: str) -> None:
    world = World.of(job(**KINDS[kind], tolerance=Tolerance(push=0.4, pull=0.3)), Trouble(least_important_loss=0.3))
    for round_, size in enumerate((30_000, 20_000, 30_000)):
        futures = world.all_reduce(gradients(4, size), round=round_)
        world.run(10)
        first = futures[0].result(0).values
        assert first.size == size
        assert all(np.array_equal(future.result(0).values, first) for future in futures)


def test_what_stands_in_for_a_lost_value_is_not_sent_again() -> None:
    """It would count twice: error feedback is on by itself only where zeros stand in."""
    much = Tolerance(push=0.4, pull=0.3)
    assert job(tolerance=much).feeds_back
    for fill in (Fill.PREVIOUS, Fill.RESCALED):
        assert not job(tolerance=much, fill=fill).feeds_back
        assert job(tolerance=much, fill=fill).owes_left_out
        assert job(tolerance=much, fill=fill, error_feedback=True).feeds_back
