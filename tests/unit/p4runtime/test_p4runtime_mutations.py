# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Requests that are damaged or senseless: always a canonical error, and what was there stays as it was."""

from __future__ import annotations

import random
from typing import Any

import everything as e
import pytest
from p4.v1 import p4runtime_pb2 as p4rt
from p4rt_messages import (
    DELETE,
    INSERT,
    MODIFY,
    action,
    between,
    entity,
    entry,
    exact,
    forward,
    lpm,
    optional,
    read,
    ternary,
    update,
    write,
)

from softswitch.p4runtime.endpoint import Endpoint
from softswitch.p4runtime.status import Code, StatusError

ROUNDS = [200, pytest.param(5000, marks=pytest.mark.long)]
EVERYTHING = [
    p4rt.TableEntry(),
    p4rt.TableEntry(is_default_action=True),
    p4rt.ActionProfileMember(),
    p4rt.ActionProfileGroup(),
    p4rt.CounterEntry(),
    p4rt.MeterEntry(),
    p4rt.RegisterEntry(),
    p4rt.ValueSetEntry(),
    p4rt.PacketReplicationEngineEntry(),
    p4rt.DigestEntry(),
]


def valid_updates() -> list[Any]:
    member = p4rt.ActionProfileMember(action_profile_id=e.SELECTOR, member_id=1, action=forward(2))
    group = p4rt.ActionProfileGroup(action_profile_id=e.SELECTOR, group_id=1)
    group.members.add(member_id=1, weight=1, watch_port=b"\x02")
    multicast = p4rt.PacketReplicationEngineEntry()
    multicast.multicast_group_entry.multicast_group_id = 1
    multicast.multicast_group_entry.replicas.add(egress_port=1, instance=1)
    cell = p4rt.RegisterEntry(register_id=e.CELLS, index=p4rt.Index(index=1))
    cell.data.bitstring = b"\x01"
    value_set = p4rt.ValueSetEntry(value_set_id=e.VALUE_SET)
    value_set.members.add(match=[exact(1, 5)])
    shot = entry(e.GROUPED, exact(1, 1))
    shot.action.action_profile_action_set.action_profile_actions.add(action=forward(1), weight=1, watch_port=b"\x01")
    config = p4rt.MeterConfig(cir=1, cburst=1, pir=1, pburst=1)
    return [
        update(INSERT, entry(e.EXACT, exact(1, 5), do=forward(1), metadata=b"abc", controller_metadata=4)),
        update(INSERT, entry(e.LPM, lpm(1, 0, 8), do=forward(1))),
        update(INSERT, entry(e.TERNARY, ternary(1, 1, 1), ternary(2, 2, 3), do=forward(1), priority=1)),
        update(INSERT, entry(e.RANGE, between(1, 1, 2), do=forward(1), priority=1)),
        update(INSERT, entry(e.OPTIONAL, optional(1, 1), exact(2, 2), do=forward(1), priority=1)),
        update(INSERT, entry(e.TIMED, exact(1, 1), do=forward(1), idle_timeout_ns=5)),
        update(INSERT, entry(e.METERED, exact(1, 1), do=action(e.LIMIT, 1), meter_config=config)),
        update(MODIFY, entry(e.EXACT, do=forward(1), is_default_action=True)),
        update(INSERT, member),
        update(INSERT, group),
        update(INSERT, shot),
        update(MODIFY, p4rt.CounterEntry(counter_id=e.HITS, index=p4rt.Index(index=1), data=p4rt.CounterData())),
        update(MODIFY, p4rt.MeterEntry(meter_id=e.LIMITS, index=p4rt.Index(index=1), config=config)),
        update(MODIFY, cell),
        update(MODIFY, value_set),
        update(INSERT, multicast),
        update(INSERT, p4rt.DigestEntry(digest_id=e.LEARNED)),
        update(DELETE, entry(e.EXACT, exact(1, 5))),
    ]


def damage(message: bytes, chance: random.Random) -> bytes:
    data = bytearray(message)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(data) + 1)
        match chance.randrange(4):
            case 0 if place < len(data):
                data[place] = chance.randrange(256)
            case 1:
                data[place:place] = chance.randbytes(chance.randint(1, 5))
            case 2:
                del data[place : place + chance.randint(1, 5)]
            case _:
                data = data[:place] + data[max(0, place - 9) :]
    return bytes(data)


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("atomicity", [0, 1, 2])
def test_damaged_writes_end_in_canonical_errors(endpoint: Endpoint, atomicity: int, rounds: int) -> None:
    chance = random.Random(17 + atomicity)
    updates = valid_updates()
    outcomes = set()
    for _ in range(rounds):
        chosen = chance.sample(updates, chance.randint(1, 6))
        request = damage(p4rt.WriteRequest(updates=chosen, atomicity=atomicity).SerializeToString(), chance)
        try:
            endpoint.write(request)
            outcomes.add(Code.OK)
        except StatusError as error:
            assert error.code in (Code.UNKNOWN, Code.INVALID_ARGUMENT, Code.NOT_FOUND)
            outcomes |= {error.code} | {code for code, _ in error.errors.values()}
    assert {Code.INVALID_ARGUMENT, Code.NOT_FOUND} <= outcomes
    assert Code.INTERNAL not in outcomes
    read(endpoint, *EVERYTHING)


@pytest.mark.parametrize("rounds", ROUNDS)
def test_damaged_reads_end_in_canonical_errors(endpoint: Endpoint, rounds: int) -> None:
    chance = random.Random(23)
    write(endpoint, INSERT, *(entry(e.EXACT, exact(1, i), do=forward(1)) for i in range(50)))
    before = read(endpoint, *EVERYTHING)
    filters = [*EVERYTHING, *(getattr(each.entity, each.entity.WhichOneof("entity")) for each in valid_updates())]
    for _ in range(rounds):
        chosen = [entity(each) for each in chance.sample(filters, 3)]
        request = damage(p4rt.ReadRequest(entities=chosen).SerializeToString(), chance)
        try:
            parts, error = endpoint.read_parts(request)
        except StatusError as caught:
            assert caught.code in (Code.INVALID_ARGUMENT, Code.NOT_FOUND)
        else:
            assert error is None or error.code == Code.UNKNOWN
    assert read(endpoint, *EVERYTHING) == before


def test_what_fails_changes_nothing_and_what_is_undone_leaves_nothing(endpoint: Endpoint) -> None:
    chance = random.Random(5)
    updates = valid_updates()
    kinds = ("action_profile_member", "action_profile_group")  # they would keep the action set out
    endpoint.write(
        p4rt.WriteRequest(updates=[each for each in updates[:-1] if each.entity.WhichOneof("entity") not in kinds])
    )
    for _ in range(15):
        before = sorted(str(each) for each in read(endpoint, *EVERYTHING))
        chosen = [chance.choice(updates) for _ in range(8)]
        for place in range(len(chosen)):
            if chance.random() < 0.3:
                flipped = p4rt.Update()
                flipped.CopyFrom(chosen[place])
                flipped.type = chance.choice((INSERT, MODIFY, DELETE))
                chosen[place] = flipped
        wrong = update(DELETE, entry(e.EXACT, exact(1, 999)))
        with pytest.raises(StatusError):
            endpoint.write(p4rt.WriteRequest(updates=[*chosen, wrong], atomicity=1))
        assert sorted(str(each) for each in read(endpoint, *EVERYTHING)) == before
