# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Client arbitration: who becomes primary, who is told, and who is sent away."""

from __future__ import annotations

from typing import Any

import pytest
from p4.v1 import p4runtime_pb2 as p4rt

from softswitch.p4runtime.arbitration import STREAM_LIMIT, Arbiter
from softswitch.p4runtime.status import Code, StatusError

OK, TAKEN, NONE = Code.OK, Code.ALREADY_EXISTS, Code.NOT_FOUND


def ask(election: int | None, device: int = 1, role: str | None = None) -> Any:
    message = p4rt.MasterArbitrationUpdate(device_id=device)
    if election is not None:
        message.election_id.high, message.election_id.low = election >> 64, election & (1 << 64) - 1
        message.election_id.SetInParent()
    if role is not None:
        message.role.name = role
    return message


def told(notices: Any) -> list[tuple[Any, int, int | None]]:
    """Return (stream, status code, election id) of each notice."""
    found = []
    for stream, response in notices:
        message = response.arbitration
        assert message.device_id == 1
        election = message.election_id.high << 64 | message.election_id.low if message.HasField("election_id") else None
        found.append((stream, message.status.code, election))
    return found


def code_of(call: Any) -> Code:
    with pytest.raises(StatusError) as caught:
        call()
    return caught.value.code


def test_the_highest_election_id_is_primary() -> None:
    arbiter = Arbiter(1)
    assert told(arbiter.update("a", ask(5))) == [("a", OK, 5)]
    assert told(arbiter.update("b", ask(3))) == [("b", TAKEN, 5)]
    assert told(arbiter.update("c", ask(7))) == [("a", TAKEN, 7), ("b", TAKEN, 7), ("c", OK, 7)]
    assert arbiter.primaries() == ["c"] and arbiter.is_primary("c") and not arbiter.is_primary("a")


def test_election_ids_have_128_bits() -> None:
    arbiter = Arbiter(1)
    arbiter.update("a", ask((1 << 64) - 1))
    assert told(arbiter.update("b", ask(1 << 64)))[-1] == ("b", OK, 1 << 64)
    arbiter.authorize("", 1 << 64)


def test_zero_is_an_election_id_and_unset_is_none() -> None:
    arbiter = Arbiter(1)
    assert told(arbiter.update("a", ask(None))) == [("a", NONE, None)]
    assert told(arbiter.update("b", ask(0))) == [("a", TAKEN, 0), ("b", OK, 0)]


def test_when_the_primary_goes_nobody_takes_over_by_itself() -> None:
    arbiter = Arbiter(1)
    arbiter.update("a", ask(5))
    arbiter.update("b", ask(3))
    assert told(arbiter.close("a")) == [("b", NONE, 5)]
    assert code_of(lambda: arbiter.authorize("", 3)) == Code.PERMISSION_DENIED
    assert told(arbiter.update("b", ask(4))) == [("b", NONE, 5)]
    assert told(arbiter.update("b", ask(5))) == [("b", OK, 5)]


def test_a_backup_that_goes_is_nobodys_news() -> None:
    arbiter = Arbiter(1)
    arbiter.update("a", ask(5))
    arbiter.update("b", ask(3))
    assert arbiter.close("b") == [] and arbiter.close("stranger") == []


def test_a_primary_may_step_down() -> None:
    arbiter = Arbiter(1)
    arbiter.update("a", ask(5))
    arbiter.update("b", ask(3))
    assert told(arbiter.update("a", ask(4))) == [("a", NONE, 5), ("b", NONE, 5)]


def test_roles_are_elected_apart() -> None:
    arbiter = Arbiter(1)
    arbiter.update("a", ask(5))
    (notice,) = arbiter.update("b", ask(1, role="routes"))
    assert notice[1].arbitration.role.name == "routes" and notice[1].arbitration.status.code == OK
    arbiter.authorize("", 5)
    arbiter.authorize("routes", 1)
    assert code_of(lambda: arbiter.authorize("routes", 5)) == Code.PERMISSION_DENIED
    assert code_of(lambda: arbiter.authorize("other", 5)) == Code.NOT_FOUND
    assert set(arbiter.primaries()) == {"a", "b"}


def test_wrong_updates_end_the_stream() -> None:
    arbiter = Arbiter(1)
    assert code_of(lambda: arbiter.update("a", ask(5, device=2))) == Code.NOT_FOUND
    arbiter.update("a", ask(5))
    assert code_of(lambda: arbiter.update("b", ask(5))) == Code.INVALID_ARGUMENT
    assert code_of(lambda: arbiter.update("a", ask(5, device=2))) == Code.FAILED_PRECONDITION
    assert code_of(lambda: arbiter.update("a", ask(5, role="routes"))) == Code.FAILED_PRECONDITION
    configured = ask(9)
    configured.role.config.SetInParent()
    assert code_of(lambda: arbiter.update("c", configured)) == Code.INVALID_ARGUMENT
    assert told(arbiter.update("a", ask(5))) == [("a", OK, 5)]


def test_only_the_primary_is_authorized() -> None:
    arbiter = Arbiter(1)
    assert code_of(lambda: arbiter.authorize("", 5)) == Code.PERMISSION_DENIED
    arbiter.update("a", ask(5))
    arbiter.authorize("", 5)
    for election in (None, 0, 4, 6):
        assert code_of(lambda election=election: arbiter.authorize("", election)) == Code.PERMISSION_DENIED  # type: ignore[misc]


def test_there_is_a_limit_to_the_controllers_of_a_role() -> None:
    arbiter = Arbiter(1)
    for place in range(STREAM_LIMIT):
        arbiter.update(place, ask(None))
    assert code_of(lambda: arbiter.update("one more", ask(1))) == Code.RESOURCE_EXHAUSTED
