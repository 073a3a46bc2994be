# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Canonical errors: a code, a message, and for a batch one p4.v1.Error per update (P4Runtime 1.4, section 10)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

from softswitch.p4runtime import wire

ERROR_TYPE = b"type.googleapis.com/p4.v1.Error"


class Code(IntEnum):
    """google.rpc.Code."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class StatusError(Exception):
    """An RPC fails: `details` is a serialized google.rpc.Status when single updates failed, else empty.

    `errors` maps the place of each failed update, or entity of a read, to its code and message.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        details: bytes = b"",
        errors: Mapping[int, tuple[Code, str]] | None = None,
    ) -> None:
        self.code = code
        self.message = message
        self.details = details
        self.errors = dict(errors or {})
        listed = "; ".join(f"{place}: {each.name}: {text}" for place, (each, text) in sorted(self.errors.items())[:5])
        more = f" (and {len(self.errors) - 5} more)" if len(self.errors) > 5 else ""
        super().__init__(f"{code.name}: {message}" + (f" [{listed}{more}]" if listed else ""))


def batch_error(what: str, count: int, errors: Mapping[int, tuple[Code, str]]) -> StatusError:
    """Return the error of a batch: UNKNOWN, with one p4.v1.Error for each of its `count` elements, in order."""
    message = f"{what} failure: {len(errors)} of {count}"
    fine = wire.data(3, wire.data(1, ERROR_TYPE))
    parts = [wire.number(1, Code.UNKNOWN), wire.data(2, message.encode())]
    for place in range(count):
        if place not in errors:
            parts.append(fine)
            continue
        code, text = errors[place]
        error = wire.number(1, code) + wire.data(2, text.encode()) + wire.data(3, b"softswitch")
        parts.append(wire.data(3, wire.data(1, ERROR_TYPE) + wire.data(2, error)))
    return StatusError(Code.UNKNOWN, message, details=b"".join(parts), errors=errors)
