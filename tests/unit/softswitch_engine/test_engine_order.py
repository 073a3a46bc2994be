# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What happens around the program's controls: BMv2's order of clone, resubmit, multicast, drop, recirculate."""

from __future__ import annotations

import pytest
from engine_frames import (
    EGRESS_CLONE,
    INGRESS_CLONE,
    NORMAL,
    RECIRCULATED,
    REPLICATED,
    RESUBMITTED,
    command,
    report,
)

from softswitch.switch import Switch


def ports(sent: list[tuple[int, bytes]]) -> list[int]:
    return [port for port, _ in sent]


def test_a_plain_frame_leaves_as_it_came(switch: Switch) -> None:
    frame = bytes(range(100))
    assert switch.inject(1, frame) == [(2, frame)]
    assert switch.inject(2, frame) == [(1, frame)]


def test_drops_are_counted_where_they_happen(switch: Switch) -> None:
    assert switch.inject(1, command("D")) == []
    assert switch.inject(1, command("d")) == []
    assert switch.inject(1, command("P", 200)) == []
    switch.set_queues(4)
    assert switch.inject(1, command("P", 2, priority=4)) == []
    drops = switch.drops()
    assert [drops[c] for c in ("ingress_drop", "egress_drop", "no_port", "no_queue")] == [1, 1, 1, 1]


def test_a_frame_without_a_program_is_counted() -> None:
    with Switch() as switch:
        switch.add_port(1)
        assert switch.inject(1, bytes(60)) == []
        assert switch.drops()["no_program"] == 1


def test_multicast_makes_a_replica_for_each_port_and_instance(switch: Switch) -> None:
    switch.set_multicast(9, [(2, 5), (3, 6), (2, 7)])
    sent = switch.inject(1, command("M", 9))
    assert sorted((port, report(frame).egress_rid) for port, frame in sent) == [(2, 5), (2, 7), (3, 6)]
    assert {report(frame).instance_type for _, frame in sent} == {REPLICATED}
    assert {report(frame).ingress_port for _, frame in sent} == {1}
    assert switch.account().copied == 2


def test_an_empty_or_removed_group_drops(switch: Switch) -> None:
    assert switch.inject(1, command("M", 9)) == []
    switch.set_multicast(9, [(2, 0)])
    assert ports(switch.inject(1, command("M", 9))) == [2]
    switch.set_multicast(9, [])
    assert switch.inject(1, command("M", 9)) == []
    assert switch.drops()["multicast_empty"] == 2


def test_an_ingress_clone_keeps_only_the_preserved_list(switch: Switch) -> None:
    switch.set_clone(3, [(4, 21)])
    sent = dict(switch.inject(1, command("C", 3)))
    original, clone = report(sent[2]), report(sent[4])
    assert (original.instance_type, original.passes) == (NORMAL, 1)
    # The clone is the frame as it came, parsed anew: ingress did not count its pass.
    assert (clone.instance_type, clone.passes, clone.kept, clone.egress_rid) == (INGRESS_CLONE, 0, 77, 21)
    assert clone.ingress_port == 0  # standard metadata is not preserved, as on BMv2


def test_an_egress_clone_has_the_headers_of_egress(switch: Switch) -> None:
    switch.set_clone(3, [(4, 0), (3, 1)])
    sent = switch.inject(1, command("E", 3))
    clones = [report(frame) for port, frame in sent if port != 2]
    assert sorted(ports(sent)) == [2, 3, 4]
    assert {(c.instance_type, c.passes, c.kept) for c in clones} == {(EGRESS_CLONE, 1, 99)}


def test_a_clone_session_truncates_its_clones_only(switch: Switch) -> None:
    switch.set_clone(3, [(4, 0)], truncate=40)
    sent = dict(switch.inject(1, command("C", 3, length=200)))
    assert (len(sent[2]), len(sent[4])) == (200, 40)


def test_an_unknown_clone_session_clones_nothing(switch: Switch) -> None:
    switch.set_clone(3, [(4, 0)])
    switch.remove_clone(3)
    assert ports(switch.inject(1, command("C", 3))) == [2]


def test_a_clone_of_a_dropped_frame_lives(switch: Switch) -> None:
    switch.set_clone(3, [(4, 0)])
    switch.set_port_up(2, False)
    assert ports(switch.inject(1, command("C", 3))) == [4]


def test_resubmit_passes_ingress_twice_with_its_list(switch: Switch) -> None:
    ((port, frame),) = switch.inject(1, command("R"))
    seen = report(frame)
    assert (port, seen.kept, seen.passes) == (2, 88, 1)
    assert seen.instance_type == NORMAL  # as BMv2 sets it for unicast
    assert RESUBMITTED != NORMAL


def test_recirculate_sends_the_deparsed_frame_through_ingress(switch: Switch) -> None:
    ((port, frame),) = switch.inject(1, command("X"))
    seen = report(frame)
    assert (port, seen.kept, seen.passes) == (3, 66, 2)
    assert RECIRCULATED != NORMAL


def test_an_endless_resubmit_ends(switch: Switch) -> None:
    assert switch.inject(1, command("L")) == []
    assert switch.drops()["pass_limit"] == 1


def test_truncate_cuts_at_transmit(switch: Switch) -> None:
    ((_, frame),) = switch.inject(1, command("T", 50, length=300))
    assert len(frame) == 50
    assert report(frame).packet_length == 300


def test_headers_grow_into_the_headroom(switch: Switch) -> None:
    frame = command("W", length=1792)
    ((_, grown),) = switch.inject(1, frame)
    assert len(grown) == 1792 + 64
    assert grown[:14] == frame[:14] and grown[98:] == frame[34:]


def test_a_frame_beyond_the_limit_is_refused_and_counted(switch: Switch) -> None:
    assert not switch.send(1, bytes(1793))
    assert switch.drops()["oversize"] == 1


def test_larger_frames_are_a_matter_of_memory(program) -> None:  # type: ignore[no-untyped-def]
    with Switch(frames=256, frame_bytes=9018) as switch:
        switch.load_library(program)
        switch.add_port(1)
        switch.add_port(2)
        assert switch.inject(1, bytes(9018)) == [(2, bytes(9018))]


def test_digests_and_log_lines_wait_for_the_controller(switch: Switch) -> None:
    switch.inject(1, command("G", 42, priority=3))
    switch.inject(1, command("l"))
    assert switch.digests() == [(5, bytes([42, 3]))]
    assert switch.log_lines() == ["hello"]
    assert switch.digests() == [] and switch.log_lines() == []


@pytest.mark.parametrize("opcode", ["R", "X", "C", "E", "M"])
def test_nothing_is_lost_when_memory_runs_out(program, opcode: str) -> None:  # type: ignore[no-untyped-def]
    with Switch(frames=128) as switch:
        switch.load_library(program)
        for port in (1, 2, 3, 4):
            switch.add_port(port)
        switch.set_multicast(3, [(2, 0), (3, 0), (4, 0)])
        switch.set_clone(3, [(2, 0), (3, 0), (4, 0)])
        for _ in range(300):
            switch.send(1, command(opcode, 3))
            switch.run()
        taken = len(switch.take())
        account = switch.account()
        assert account.received + account.copied == account.sent + account.dropped + account.queued
        assert account.received == 300 and taken == account.sent
