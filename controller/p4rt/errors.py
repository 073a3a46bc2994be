# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a switch says when it refuses: gRPC statuses, and P4Runtime's error for each update of a batch, as one line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2

from topologies.errors import FailureError

_SHOWN_UPDATES = 3


class SwitchFailure(FailureError):
    """A switch refused a request or did not answer.

    `code` is the gRPC status name; `updates` holds (index in the batch, code, message) of each refused update.
    """

    def __init__(
        self, switch: str, message: str, *, code: str = "UNKNOWN", updates: tuple[tuple[int, str, str], ...] = ()
    ) -> None:
        super().__init__(f"{switch}: {message}")
        self.switch = switch
        self.code = code
        self.updates = updates


def failure(
    switch: str, address: str, error: grpc.RpcError, deadline: float, describe: Callable[[int], str] | None = None
) -> SwitchFailure:
    """Return what a failed call says, with each refused update; `describe` names the update at an index."""
    code: grpc.StatusCode = error.code()
    details = " ".join(str(error.details() or "").split())
    match code:
        case grpc.StatusCode.UNAVAILABLE:
            why = "" if not details or "Connection refused" in details else f": {details}"
            return SwitchFailure(switch, f"no switch answers at {address}{why}", code=code.name)
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return SwitchFailure(switch, f"no answer from {address} within {deadline:g} s", code=code.name)
    updates = refused_updates(error)
    if not updates:
        return SwitchFailure(switch, f"{code.name}: {details}" if details else code.name, code=code.name)
    shown = [
        f"{describe(index) if describe else f'update {index}'}: {name}{f': {text}' if text else ''}"
        for index, name, text in updates[:_SHOWN_UPDATES]
    ]
    more = f" (and {len(updates) - len(shown)} more)" if len(updates) > len(shown) else ""
    return SwitchFailure(switch, f"refused {'; '.join(shown)}{more}", code=code.name, updates=updates)


def refused_updates(error: Any) -> tuple[tuple[int, str, str], ...]:
    """Return (index, code, message) of each update that a Write refused, from the status' details."""
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        status = status_pb2.Status()
        try:
            status.ParseFromString(value)
        except DecodeError:
            return ()
        found = []
        for index, detail in enumerate(status.details):
            one = p4runtime_pb2.Error()
            if detail.Unpack(one) and one.canonical_code != code_pb2.OK:
                found.append((index, code_pb2.Code.Name(one.canonical_code), one.message))
        return tuple(found)
    return ()
