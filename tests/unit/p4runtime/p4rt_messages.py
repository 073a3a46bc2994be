# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Short ways to write P4Runtime messages for the program of everything.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import everything
import pytest
from p4.v1 import p4runtime_pb2 as p4rt

from softswitch.p4runtime import wire
from softswitch.p4runtime.endpoint import Endpoint
from softswitch.p4runtime.status import Code, StatusError

INSERT, MODIFY, DELETE = p4rt.Update.INSERT, p4rt.Update.MODIFY, p4rt.Update.DELETE
Match = tuple[str, Any] | bytes | int


def big(value: int) -> bytes:
    """Return a number in P4Runtime's shortest form."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def action(identifier: int, *arguments: int | bytes) -> p4rt.Action:
    message = p4rt.Action(action_id=identifier)
    for place, argument in enumerate(arguments, 1):
        message.params.add(param_id=place, value=argument if isinstance(argument, bytes) else big(argument))
    return message


def forward(port: int) -> p4rt.Action:
    return action(everything.FORWARD, port)


def entry(
    table: int, *matches: p4rt.FieldMatch, do: p4rt.Action | None = None, priority: int = 0, **fields: Any
) -> Any:
    message = p4rt.TableEntry(table_id=table, match=matches, priority=priority, **fields)
    if do is not None:
        message.action.action.CopyFrom(do)
    return message


def exact(field: int, value: int | bytes) -> p4rt.FieldMatch:
    message = p4rt.FieldMatch(field_id=field)
    message.exact.value = value if isinstance(value, bytes) else big(value)
    return message


def lpm(field: int, value: int, length: int) -> p4rt.FieldMatch:
    message = p4rt.FieldMatch(field_id=field)
    message.lpm.value, message.lpm.prefix_len = big(value), length
    return message


def ternary(field: int, value: int, mask: int) -> p4rt.FieldMatch:
    message = p4rt.FieldMatch(field_id=field)
    message.ternary.value, message.ternary.mask = big(value), big(mask)
    return message


def between(field: int, low: int, high: int) -> p4rt.FieldMatch:
    message = p4rt.FieldMatch(field_id=field)
    message.range.low, message.range.high = big(low), big(high)
    return message


def optional(field: int, value: int) -> p4rt.FieldMatch:
    message = p4rt.FieldMatch(field_id=field)
    message.optional.value = big(value)
    return message


def entity(message: Any) -> p4rt.Entity:
    """Return the Entity that holds a message of one of its kinds."""
    for field in p4rt.Entity.DESCRIPTOR.fields:
        if field.message_type is message.DESCRIPTOR:
            wrapped = p4rt.Entity()
            getattr(wrapped, field.name).CopyFrom(message)
            return wrapped
    raise TypeError(type(message))


def update(kind: int, message: Any) -> p4rt.Update:
    return p4rt.Update(type=kind, entity=entity(message))


def write(endpoint: Endpoint, kind: int, *messages: Any, atomicity: int = 0) -> None:
    endpoint.write(p4rt.WriteRequest(updates=[update(kind, each) for each in messages], atomicity=atomicity))


def bulk_inserts(count: int) -> bytes:
    """Return a WriteRequest with many entries of the exact table, made without Python's slow protobuf."""
    first = 0x020000000000
    template = update(INSERT, entry(everything.EXACT, exact(1, first), do=forward(1))).SerializeToString()
    old = first.to_bytes(6, "big")
    return b"".join(wire.data(4, template.replace(old, (first + i).to_bytes(6, "big"))) for i in range(count))


def read(endpoint: Endpoint, *messages: Any) -> list[Any]:
    """Return what a read of the messages as filters gives, taken out of their entities."""
    response = endpoint.read(p4rt.ReadRequest(entities=[entity(each) for each in messages]))
    return [getattr(each, each.WhichOneof("entity")) for each in response.entities]


def refused(call: Callable[[], Any]) -> dict[int, Code]:
    """Return the codes of a batch's failed updates by place; the call must fail as a batch does."""
    with pytest.raises(StatusError) as caught:
        call()
    assert caught.value.code == Code.UNKNOWN and caught.value.details
    return {place: code for place, (code, _) in caught.value.errors.items()}


def refusal(endpoint: Endpoint, kind: int, message: Any) -> Code:
    """Return the code with which one update is refused."""
    return refused(lambda: write(endpoint, kind, message))[0]


def frame(destination: int = 0x020000000001, source: int = 0x020000000002, ether_type: int = 0x1234) -> bytes:
    return destination.to_bytes(6, "big") + source.to_bytes(6, "big") + ether_type.to_bytes(2, "big") + bytes(50)
