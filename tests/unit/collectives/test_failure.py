# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Whoever dies, leaves, or disagrees: every rank hears of it, by name, in the time that the job says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.collectives.world import World, gradients, job
from traffic.collectives.errors import CollectiveError
from traffic.transport.timing import SECOND

RULES = {"patience": 2.0, "timeout": 20.0}
KINDS = {
    "one server": {"servers": 1, "collective": "ps"},
    "ring": {"collective": "ring"},
    "halving_doubling": {"collective": "halving_doubling"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_dies_in_mid_round_ends_the_job_for_all(kind: str) -> None:
    world = World.of(job(6, **KINDS[kind], **RULES))
    futures = world.all_reduce(gradients(6, 200_000), tensor=3, round=9)
    world.run(0.02)
    world.network.kill(world.nodes[2])
    began = world.network.now
    assert not any(future.done() for future in futures)
    world.run(RULES["patience"] * 1.5)
    for rank in (0, 1, 3, 4, 5):
        with pytest.raises(CollectiveError, match=r"rank 2 \(10\.0\.0\.3\) is lost: nothing was heard of it for 2 s"):
            futures[rank].result(0)
        with pytest.raises(CollectiveError, match=r"tensor 3 of round 9 failed 2\.\d s after it began"):
            futures[rank].result(0)
    assert world.network.now - began < 3.1 * SECOND
    with pytest.raises(CollectiveError, match="is lost"):
        world.all_reduce(gradients(6, 10), ranks=[1])[0].result(0)


def test_a_server_that_dies_ends_the_job_for_all() -> None:
    world = World.of(job(3, servers=2, collective="ps", **RULES))
    futures = world.all_reduce(gradients(3, 100_000))
    world.run(0.02)
    world.network.kill(world.nodes[4])
    world.run(3)
    for future in futures:
        with pytest.raises(CollectiveError, match=r"server 1 \(10\.0\.1\.2\) is lost"):
            future.result(0)
    assert world.members[3].error is not None, "the other server knows it too"


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_lives_but_gives_nothing_is_named_after_the_timeout(kind: str) -> None:
    world = World.of(job(4, **KINDS[kind], **RULES))
    futures = world.all_reduce(gradients(4, 5000), ranks=[0, 1, 3])
    world.run(RULES["timeout"] - 1)
    assert not any(future.done() for future in futures)
    world.run(2)
    for future in futures:
        with pytest.raises(CollectiveError, match=r"tensor 0 of round 0 failed 20\.\d s .* lives"):
            future.result(0)


def test_a_rank_that_leaves_too_early_is_named_at_once() -> None:
    world = World.of(job(3, servers=1, collective="ps", **RULES))
    futures = world.all_reduce(gradients(3, 5000), ranks=[0, 2])
    world.run(0.5)
    world.members[1].leave()
    world.run(0.1)
    for future in futures:
        with pytest.raises(CollectiveError, match=r"rank 1 \(10\.0\.0\.2\) has left, but tensor 0 of round 0 needs it"):
            future.result(0)


def test_a_rank_that_gives_up_tells_the_others_why() -> None:
    world = World.of(job(4, collective="ring", **RULES))
    futures = world.all_reduce(gradients(4, 5000), ranks=[0, 2, 3])
    world.members[1].fail("rank 1 gave up: loss is nan")
    world.run(0.1)
    for future in futures:
        with pytest.raises(CollectiveError, match="rank 1 gave up: loss is nan"):
            future.result(0)


def test_ranks_that_disagree_on_a_tensor_are_told_so() -> None:
    world = World.of(job(2, servers=1, collective="ps", **RULES))
    one = world.all_reduce(gradients(2, 5000), ranks=[0])
    world.run(0.1)
    other = world.all_reduce(gradients(2, 4000), ranks=[1])
    world.run(1)
    for future in one + other:
        with pytest.raises(CollectiveError, match="has another size or type of tensor 0 of round 0"):
            future.result(0)


def test_ranks_that_disagree_on_a_layer_are_told_so() -> None:
    world = World.of(job(2, servers=1, collective="ps", **RULES))
    one = world.all_reduce(gradients(2, 5000), ranks=[0], layer=1)
    other = world.all_reduce(gradients(2, 5000), ranks=[1], layer=2)
    world.run(1)
    for future in one + other:
        with pytest.raises(CollectiveError, match=r"tensor 0 of round 0 of layer \d and of layer \d"):
            future.result(0)


def test_a_tensor_given_twice_is_an_error() -> None:
    world = World.of(job(2, collective="ring", **RULES))
    values = gradients(2, 5000)
    world.all_reduce(values, ranks=[0])
    with pytest.raises(CollectiveError, match="rank 0 .* was given tensor 0 of round 0 twice"):
        world.all_reduce(values, ranks=[0])[0].result(0)


def test_a_round_given_again_is_an_error_though_its_first_is_done() -> None:
    """The transport may remember the first one, and would take its values for the second's."""
    world = World.of(job(2, servers=1, collective="ps", **RULES))
    values = gradients(2, 5000)
    world.all_reduce(values)
    world.run(10)
    with pytest.raises(CollectiveError, match="rank 0 .* was given tensor 0 of round 0 again after it was done"):
        world.all_reduce(values, ranks=[0])[0].result(0)


def test_jobs_that_differ_do_not_meet() -> None:
    world = World.of(job(2, collective="ring", **RULES))
    other = World.of(job(2, collective="ring", patience=3.0))
    assert world.job.fingerprint != other.job.fingerprint
    assert world.job.fingerprint == job(2, collective="ring", **RULES).fingerprint


def test_a_server_ends_once_all_ranks_have_left() -> None:
    world = World.of(job(3, servers=1, collective="ps", **RULES))
    ended = []
    world.members[3].on_end = lambda: ended.append(True)
    futures = world.all_reduce(gradients(3, 5000))
    world.run(1)
    assert all(np.array_equal(future.result(0).values, futures[0].result(0).values) for future in futures)
    for rank in range(3):
        assert not ended
        world.members[rank].leave()
        world.run(0.1)
    assert ended == [True]
    assert world.members[3].error is None


def test_a_server_notices_a_rank_that_dies_between_rounds() -> None:
    world = World.of(job(3, servers=1, collective="ps", **RULES))
    world.run(3 * RULES["timeout"])
    assert world.members[3].error is None, "nobody has to send"
    world.network.kill(world.nodes[1])
    world.run(4)
    assert str(world.members[3].error) == "rank 1 (10.0.0.2) is lost: nothing was heard of it for 2 s"
    assert str(world.members[0].error) == str(world.members[3].error)


@pytest.mark.parametrize("kind", KINDS)
def test_a_rank_that_starts_anew_in_mid_round_ends_the_job_at_once(kind: str) -> None:
    """A supervisor may start a killed process again before anybody misses it: it lives, but knows nothing."""
    world = World.of(job(4, **KINDS[kind], **RULES))
    futures = world.all_reduce(gradients(4, 200_000), tensor=3, round=9)
    world.run(0.02)
    assert not any(future.done() for future in futures)
    world.restart(2)
    world.run(0.5)
    for rank in (0, 1, 3):
        with pytest.raises(CollectiveError, match=r"rank 2 \(10\.0\.0\.3\) has started anew in the midst of the job"):
            futures[rank].result(0)


def test_all_that_start_anew_one_after_another_meet_again() -> None:
    world = World.of(job(3, servers=1, collective="ps", **RULES))
    futures = world.all_reduce(gradients(3, 200_000))
    world.run(0.02)
    for node in (2, 0, 3, 1):
        world.restart(node)
        world.run(0.5)
    assert all(member.met and member.error is None for member in world.members)
    assert not any(future.done() and future.exception() is None for future in futures)
    again = world.all_reduce(gradients(3, 5000))
    world.run(1)
    assert all(np.array_equal(future.result(0).values, again[0].result(0).values) for future in again)
