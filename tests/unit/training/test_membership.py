# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What workers agree on when they meet anew, and who is asked to: no process, no clock."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.unit.training.problems import quadratic
from tests.unit.training.table import Table
from topologies.errors import FailureError
from traffic.collectives.job import Job, Op
from traffic.training.algorithms import AbsSGD
from traffic.training.membership import Caller, Membership, Seat, newest
from traffic.training.real import NotFiniteError, RealTraining
from traffic.training.roster import Member, Roster, RosterSettings
from traffic.training.rule import Rule, State
from traffic.training.share import Floats, Total

WORKERS = 3


def each(what: Callable[[int], Any], ranks: int = WORKERS) -> list[Any]:
    """Do something on every rank at once."""
    with ThreadPoolExecutor(ranks) as pool:
        return [future.result(timeout=100) for future in [pool.submit(what, rank) for rank in range(ranks)]]


def test_all_go_on_from_whoever_has_applied_the_most_sums_and_end_where_that_one_was_to() -> None:
    random = np.random.default_rng(1)
    weights, velocity = (random.standard_normal(9).astype(np.float32) for _ in range(2))
    ahead = State(weights, velocity, 6, float((1 << 24) + 1))
    behind = State(np.zeros(9, np.float32), None, 5, 400.0)
    table = Table(WORKERS)
    states = [behind, ahead, behind]
    found = each(lambda rank: newest(table, rank, WORKERS, states[rank], ending=rank == 1))
    for state, ending in found:
        np.testing.assert_array_equal(state.weights, weights)
        np.testing.assert_array_equal(state.velocity, velocity)
        assert (state.updates, state.samples, ending) == (6, (1 << 24) + 1, True)


def test_replicas_of_as_many_sums_do_not_travel() -> None:
    states = [State(np.full(9, 2.0, np.float32), None, 5, 400.0) for _ in range(WORKERS)]
    table = Table(WORKERS)
    for rank, (state, ending) in enumerate(each(lambda rank: newest(table, rank, WORKERS, states[rank]))):
        assert state is states[rank]
        assert not ending


class Deaf:
    """Sums of which one worker's future fails once it is ending, though the others have that sum."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.training: RealTraining | None = None

    def all_reduce(self, values: Floats, *, tensor: int, layer: int = 0, round: int, weight: int = 1) -> Future[Any]:
        future = self._table.all_reduce(values, tensor=tensor, round=round)
        assert self.training is not None
        if self.training.worker.ending:
            future = Future()
            future.set_exception(FailureError("nobody answers"))
        return future

    def owed(self, tensor: int, size: int, *, failed: int | None = None) -> Floats | None:
        return None


def test_a_worker_that_missed_the_last_sum_ends_with_those_that_have_ended_and_no_gradient_counts_twice() -> None:
    def stop(run: RealTraining, total: Total) -> None:
        run.wants_end = run.worker.rank == 0 and run.progress.phases >= 5

    table = Table(WORKERS)
    deaf = Deaf(table)
    runs = [
        RealTraining(
            quadratic(), AbsSGD(micro=4), Rule(0.1), rank, WORKERS, deaf if rank == 1 else table, on_update=stop
        )
        for rank in range(WORKERS)
    ]
    deaf.training = runs[1]

    def train(rank: int) -> bool:
        try:
            runs[rank].run()
        except FailureError:
            return False
        return True

    assert each(train) == [True, False, True]
    assert runs[0].worker.state.updates == runs[1].worker.state.updates + 1
    again = Table(WORKERS)

    def meet(rank: int) -> None:
        worker = runs[rank].worker
        state, worker.ending = newest(again, rank, WORKERS, worker.state, worker.rule, worker.ending)
        runs[rank].regroup(again, rank, WORKERS, state)
        runs[rank].run()

    phases = [run.progress.phases for run in runs]
    each(meet)
    for run, before in zip(runs, phases, strict=True):
        run.__exit__(None, None, None)
        assert run.progress.phases == before + 1  # the sum that an end is, of nothing
        np.testing.assert_array_equal(run.worker.state.weights, runs[0].worker.state.weights)
        assert run.worker.state.samples == sum(each.progress.samples for each in runs)


class Called:
    """A roster that two workers have called, or one, over pairs of sockets; its job is served at loopback."""

    def __init__(self, stack: ExitStack, callers: int = 2) -> None:
        addresses = ("127.79.1.1", "127.79.1.2")
        job = Job(number=200, workers=addresses, servers=("127.79.2.1",), op=Op.SUM)
        self.roster = Roster(RosterSettings(job.as_dict(), 0), job)
        self.members: list[Member] = []
        self.ends: list[Any] = []
        for number, address in enumerate(addresses[:callers]):
            ours, theirs = socket.socketpair()
            stack.enter_context(theirs)
            member = Member(ours)
            self.roster.selector.register(ours, 1, member)
            self.members.append(member)
            self.ends.append(stack.enter_context(theirs.makefile()))
            self.say(number, join={"name": f"w{number}", "address": address})
        self.roster._look(0.0)

    def say(self, number: int, **message: Any) -> None:
        self.roster._heard(self.members[number], message)

    def hears(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.ends[number].readline())
        return found


@pytest.fixture
def called() -> Iterator[Called]:
    yield from calling(2)


@pytest.fixture
def called_by_one() -> Iterator[Called]:
    yield from calling(1)


def calling(callers: int) -> Iterator[Called]:
    with ExitStack() as stack:
        made = Called(stack, callers)
        yield made
        made.roster._stop_serving("the test is over")
        made.roster.selector.close()
        for member in made.members:
            member.connection.close()


def test_a_worker_that_has_ended_is_left_in_peace_while_the_others_meet_anew(called: Called) -> None:
    assert [called.hears(number)["generation"] for number in (0, 1)] == [1, 1]
    called.say(0, done={})
    called.say(1, failed="nobody answers", generation=1)
    called.roster._look(1.0)
    seat = called.hears(1)
    assert (seat["generation"], seat["rank"], seat["job"]["workers"]) == (2, 0, ["127.79.1.2"])
    called.roster._lost(called.members[0], "has died")  # its process has ended, as it may
    assert called.roster.since is None
    assert called.roster.generation == 2
    called.ends[0].close()
    assert called.members[0] in called.roster.members
    called.say(1, done={})
    assert all(member.done for member in called.roster.members)


def test_a_failure_of_a_generation_that_is_over_asks_nobody_to_meet(called: Called) -> None:
    called.say(1, failed="nobody answers", generation=0)
    assert called.roster.since is None
    called.say(1, failed="nobody answers", generation=1)
    called.say(0, failed="nobody answers either", generation=1)
    called.roster._look(1.0)
    assert [[called.hears(number).get("generation") for _ in (1, 2)] for number in (1,)] == [[1, 2]]
    called.say(0, failed="what it had not heard of yet", generation=1)
    assert called.roster.since is None


def test_the_end_of_a_connection_that_was_just_replaced_is_nothing_new(called: Called) -> None:
    """Both may come with one look at the sockets: the old connection is closed before its event is read."""
    ours, theirs = socket.socketpair()
    anew = Member(ours)
    called.roster.selector.register(ours, 1, anew)
    called.members.append(anew)
    with theirs:
        theirs.sendall(json.dumps({"join": {"name": "w0", "address": "127.79.1.1"}}).encode() + b"\n")
        called.roster._read(anew)
        called.roster._read(called.members[0])
        assert [member for member in called.roster.members if member.address == "127.79.1.1"] == [anew]


def test_a_death_before_the_first_generation_is_waited_out(called_by_one: Called) -> None:
    """Whoever has called first and died may come again, and the others are still on their way."""
    called_by_one.roster._lost(called_by_one.members[0], "has died")
    assert not called_by_one.roster.members
    called_by_one.roster._look(1.0)
    with pytest.raises(FailureError, match="0 of 2 workers came within 61 s"):
        called_by_one.roster._look(61.0)


def test_a_worker_that_calls_anew_before_its_death_was_noticed_is_the_one_that_is_left(called: Called) -> None:
    called.roster._lost(called.members[1], "has died")
    assert [called.hears(0).get("generation") for _ in range(1)] == [1]
    ours, theirs = socket.socketpair()
    anew = Member(ours)
    called.roster.selector.register(ours, 1, anew)
    called.members.append(anew)
    with theirs:
        called.roster._heard(anew, {"join": {"name": "w0", "address": "127.79.1.1"}})
        assert called.roster.members == [anew]
        assert called.hears(0)["regroup"] == 1
        assert "each needs an address of its own" in called.hears(0)["stop"]


def test_a_roster_whose_host_falls_silent_is_not_waited_for_for_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with Membership(Caller("w0", "127.0.0.1", "127.0.0.1", port, "gradlane", 1)) as membership:
            connection = membership._connection
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000
            assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


def test_a_worker_whose_gradients_are_no_numbers_does_not_come_back_with_them() -> None:
    """The generation fails for all; the others meet anew, and this one ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    broken = replace(quadratic(), samples=np.full((256, 800), np.nan, np.float32))
    with listener, RealTraining(broken, AbsSGD(micro=4), Rule(0.1)) as training:
        caller = Caller("w0", "127.0.0.1", "127.0.0.1", listener.getsockname()[1], "gradlane", 800)
        with Membership(caller) as membership:
            job = Job(number=201, workers=("127.0.0.1",), servers=("127.79.3.1",), op=Op.SUM)
            membership._seats.put(Seat(job, 0, 1))
            membership._open = lambda seat: nullcontext(Table(1))  # type: ignore[method-assign]
            with pytest.raises(NotFiniteError, match="no longer finite after update 0"):
                membership.train(training)
