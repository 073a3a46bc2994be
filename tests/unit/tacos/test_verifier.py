# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The verifier accepts what is right, and rejects every kind of wrong schedule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from traffic.collectives.tacos.compact import Translated
from traffic.collectives.tacos.network import Network, Ports, from_arrays, mesh, torus
from traffic.collectives.tacos.schedule import Collective, Schedule, demand, in_order
from traffic.collectives.tacos.symmetric import synthesise_symmetric
from traffic.collectives.tacos.synthesis import synthesise
from traffic.collectives.tacos.trees import synthesise_trees
from traffic.collectives.tacos.verify import RejectedError, Verifier, verify, verify_translated

SIZE = 1e6


def gather() -> Schedule:
    network = mesh(3, 3)
    return synthesise(network, demand(network, Collective.ALL_GATHER, SIZE), check=False)


def reduction() -> Schedule:
    network = mesh(3, 3)
    return synthesise_trees(network, demand(network, Collective.ALL_REDUCE, SIZE), 4)


def without(schedule: Schedule, send: int) -> Schedule:
    keep = np.arange(len(schedule.chunk)) != send
    columns = ("chunk", "link", "start", "end", "reduces")
    return replace(schedule, **{name: getattr(schedule, name)[keep] for name in columns})


def changed(schedule: Schedule, name: str, send: int, value: int) -> Schedule:
    column = getattr(schedule, name).copy()
    column[send] = value
    return replace(schedule, **{name: column})


CORRUPTIONS: dict[str, tuple[Callable[[Schedule], Schedule], str]] = {
    "a send is missing": (lambda s: without(s, len(s.chunk) - 1), "never arrives"),
    "a send on which others rely is missing": (lambda s: without(s, 0), "before its source holds|never arrives"),
    "a send starts before its chunk has come": (lambda s: shifted(s, len(s.chunk) - 1, -1), "before its source|busy"),
    "a send ends too soon": (lambda s: changed(s, "end", 3, int(s.end[3]) - 1), "as long as"),
    "a link is used twice at a time": (lambda s: doubled(s), "busy"),
    "an unknown chunk": (lambda s: changed(s, "chunk", 0, 10**6), "does not exist"),
    "an unknown link": (lambda s: changed(s, "link", 0, 10**6), "does not exist"),
    "a chunk is brought again": (lambda s: repeated(s), "brought already"),
    "a copy that reduces": (lambda s: changed(s, "reduces", 0, 1), "reduces nothing"),
}


def shifted(schedule: Schedule, send: int, by: int) -> Schedule:
    start = schedule.start.copy()
    start[send] += by
    return in_order(schedule.network, schedule.demand, "test", schedule.chunk, schedule.link, start, schedule.reduces)


def sent_again(schedule: Schedule, start: int, reduces: bool) -> Schedule:
    """Return a schedule whose first transfer happens once more."""
    return in_order(
        schedule.network,
        schedule.demand,
        "test",
        np.append(schedule.chunk, schedule.chunk[0]),
        np.append(schedule.link, schedule.link[0]),
        np.append(schedule.start, start),
        np.append(schedule.reduces, reduces),
    )


def doubled(schedule: Schedule) -> Schedule:
    return sent_again(schedule, schedule.start[0] + 1, schedule.reduces[0])


def repeated(schedule: Schedule) -> Schedule:
    return sent_again(schedule, schedule.end.max(), False)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_corrupted_gather_is_rejected(name: str) -> None:
    corrupt, complaint = CORRUPTIONS[name]
    right = gather()
    verify(right)
    with pytest.raises(RejectedError, match=complaint):
        verify(corrupt(right))


def test_every_single_send_of_a_gather_is_needed() -> None:
    right = gather()
    for send in range(len(right.chunk)):
        with pytest.raises(RejectedError):
            verify(without(right, send))


def test_every_single_send_of_a_reduction_is_needed() -> None:
    right = reduction()
    assert verify(right).sends == len(right.chunk)
    for send in range(len(right.chunk)):
        with pytest.raises(RejectedError):
            verify(without(right, send))


@pytest.mark.parametrize("collective", Collective)
def test_no_send_of_any_collective_can_be_left_out_or_carry_another_chunk(collective: Collective) -> None:
    network = mesh(2, 3)
    right = synthesise(network, demand(network, collective, SIZE, chunks=2, group=[0, 2, 3, 5]))
    assert verify(right).sends == len(right.chunk)
    for send in range(len(right.chunk)):
        with pytest.raises(RejectedError):
            verify(without(right, send))
        with pytest.raises(RejectedError):
            verify(changed(right, "chunk", send, (right.chunk[send] + 1) % right.demand.chunks))


def test_a_contribution_that_counts_twice_is_rejected() -> None:
    right = reduction()
    first = int(np.flatnonzero(right.reduces)[0])
    late = in_order(
        right.network,
        right.demand,
        "test",
        np.append(right.chunk, right.chunk[first]),
        np.append(right.link, right.link[first]),
        np.append(right.start, right.end.max()),
        np.append(right.reduces, True),
    )
    with pytest.raises(RejectedError, match="more than once"):
        verify(late)


def test_a_sum_that_leaves_before_all_parts_are_in_is_rejected() -> None:
    network = from_arrays("path", 3, [0, 1, 2, 1], [1, 0, 1, 2], [0.0] * 4, [1e6] * 4)
    wanted = demand(network, Collective.REDUCE, 1e6, root=2)
    into_middle = int(np.flatnonzero((network.source == 0) & (network.destination == 1))[0])
    onward = int(np.flatnonzero((network.source == 1) & (network.destination == 2))[0])
    second = 10**12
    verify(in_order(network, wanted, "test", [0, 0], [into_middle, onward], [0, second], True))
    with pytest.raises(RejectedError, match="lacks a contribution"):
        verify(in_order(network, wanted, "test", [0, 0], [into_middle, onward], [0, second - 1], True))


def test_partners_that_exchange_their_sums_are_accepted() -> None:
    network = from_arrays("pair", 2, [0, 1], [1, 0], [0.0] * 2, [1e6] * 2)
    wanted = replace(demand(network, Collective.ALL_REDUCE, 1e6), chunks=1)
    verify(in_order(network, wanted, "test", [0, 0], [0, 1], [0, 0], True))


def test_a_copy_and_an_addition_that_end_together_leave_nothing_that_counts() -> None:
    second = 10**12
    network = from_arrays("three", 3, [1, 2, 0, 1], [0, 0, 2, 2], [0.0] * 4, [1e6] * 4)
    wanted = demand(network, Collective.REDUCE, 1e6, root=0)
    add, copy, *gather = range(4)

    def played(addition: int) -> Schedule:
        starts = [0, 0, second, addition]
        return in_order(network, wanted, "test", [0] * 4, [*gather, copy, add], starts, [True, True, False, True])

    assert verify(played(second - 1)).end == 2 * second  # the copy takes the place of what was added in vain
    with pytest.raises(RejectedError, match="lacks a contribution"):
        verify(played(second))


def test_sends_that_are_not_in_order_of_their_start_are_rejected() -> None:
    network = from_arrays("pair", 2, [0, 1], [1, 0], [0.0] * 2, [1e6] * 2)
    one = replace(demand(network, Collective.ALL_REDUCE, 1e6), chunks=1)
    late = in_order(network, one, "test", [0, 0], [0, 1], [0, 5], True)
    columns = ("chunk", "link", "start", "end", "reduces")
    with pytest.raises(RejectedError, match="listed before"):
        verify(replace(late, **{name: getattr(late, name)[::-1] for name in columns}))


@pytest.mark.parametrize("column", ["chunk", "link", "start", "end", "reduces"])
def test_columns_of_unequal_length_are_rejected(column: str) -> None:
    right = reduction()
    with pytest.raises(RejectedError, match="unequal length"):
        verify(replace(right, **{column: getattr(right, column)[:-1]}))


def test_links_that_share_a_port_take_turns() -> None:
    one = Network(
        "fork",
        3,
        np.array([0, 0], np.uint32),
        np.array([1, 2], np.uint32),
        np.zeros(2),
        np.full(2, 1e6),
        ports=Ports(np.array([0, 1, 2], np.uint32), np.array([0, 0], np.uint32), np.array([1], np.uint32)),
    )
    wanted = demand(one, Collective.BROADCAST, 1e6, root=0)
    verify(in_order(one, wanted, "test", [0, 0], [0, 1], [0, 10**12], False))
    with pytest.raises(RejectedError, match="busy"):
        verify(in_order(one, wanted, "test", [0, 0], [0, 1], [0, 10**12 - 1], False))


def test_ports_of_more_slots_than_can_be_counted_are_as_good_as_none() -> None:
    one = from_arrays("fork", 3, [0, 0], [1, 2], [0.0] * 2, [1e6] * 2)
    first, port, most = np.array([0, 2, 4], np.uint32), np.array([0, 1, 0, 1], np.uint32), (1 << 32) - 1
    wide = replace(one, ports=Ports(first, port, np.array([most, most], np.uint32)))
    wanted = demand(wide, Collective.BROADCAST, 1e6, root=0)
    assert verify(in_order(wide, wanted, "test", [0, 0], [0, 1], [0, 0], False)).sends == 2


def test_a_copy_on_its_way_is_not_held_yet_though_others_have_come_since() -> None:
    fast, slow = 10**12, 4 * 10**12
    network = from_arrays("fork", 3, [0, 0, 1], [1, 1, 2], [0.0] * 3, [0.25e6, 1e6, 1e6])  # slow, fast, onward
    wanted = demand(network, Collective.SCATTER, 2e6, group=[0, 2], root=0)
    right = in_order(network, wanted, "test", [1, 0, 1], [0, 1, 2], [0, 0, slow], False)
    assert verify(right).end == slow + fast
    for start in (0, fast, slow - 1):
        with pytest.raises(RejectedError, match="before its source holds"):
            verify(in_order(network, wanted, "test", [1, 0, 1], [0, 1, 2], [0, 0, start], False))


def test_a_schedule_may_come_in_pieces() -> None:
    right = gather()
    judge = Verifier(right.network, right.demand)
    for piece in np.array_split(np.arange(len(right.chunk)), 7):
        judge.play(right.chunk[piece], right.link[piece], right.start[piece], right.end[piece])
    assert judge.finish().end == right.end.max()


def translated() -> Translated:
    network = torus(4, 3)
    return synthesise_symmetric(network, demand(network, Collective.ALL_REDUCE, SIZE))


def test_a_translated_schedule_is_right_as_such_and_written_out() -> None:
    short = translated()
    verdict, written = verify_translated(short), verify(short.expanded())
    assert verdict == written


@pytest.mark.parametrize(
    ("column", "change", "complaint"),
    [
        ("start", -1, "before its source|meet"),
        ("duration", 1, "as long as"),
        ("target", -1, "exactly once"),
        ("offset", 1, "does not exist|as long as|before its source|meet"),
    ],
)
def test_a_corrupted_translated_schedule_is_rejected(column: str, change: int, complaint: str) -> None:
    short = translated()
    values = getattr(short, column).copy()
    values[-1] += change
    with pytest.raises(RejectedError, match=complaint):
        verify_translated(replace(short, **{column: values}))


def test_a_network_without_symmetry_is_found_out() -> None:
    short = translated()
    bandwidth = short.network.bandwidth.copy()
    bandwidth[5] /= 2
    with pytest.raises(RejectedError, match="not the same"):
        verify_translated(replace(short, network=replace(short.network, bandwidth=bandwidth)))
