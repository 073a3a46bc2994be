# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Who may write: client arbitration by device, role and election id (P4Runtime 1.4, section 5).

No I/O here: a stream is any hashable object, and what is to be sent comes back as (stream, message) pairs in order.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.status import Code, StatusError

STREAM_LIMIT = 1024  # for each role

Notice = tuple[Hashable, p4runtime_pb2.StreamMessageResponse]


@dataclass
class _Role:
    highest: int | None = None
    primary: Hashable | None = None
    streams: dict[Hashable, int | None] = field(default_factory=dict)


def role_key(name: str, identifier: int) -> str:
    """Return what names a role: its name, or for old clients its number; "" is the default role."""
    return name or (f"#{identifier}" if identifier else "")


class Arbiter:
    """The streams of one device and the primary of each role; calls may come from any thread."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._roles: dict[str, _Role] = {"": _Role()}
        self._role_of: dict[Hashable, str] = {}
        self._messages: dict[str, p4runtime_pb2.Role] = {}
        self._lock = threading.Lock()

    def update(self, stream: Hashable, message: p4runtime_pb2.MasterArbitrationUpdate) -> list[Notice]:
        """Take a MasterArbitrationUpdate; raises StatusError when the stream must end."""
        with self._lock:
            return self._update(stream, message)

    def _update(self, stream: Hashable, message: p4runtime_pb2.MasterArbitrationUpdate) -> list[Notice]:
        known = stream in self._role_of
        if message.device_id != self.device_id:
            code = Code.FAILED_PRECONDITION if known else Code.NOT_FOUND
            raise StatusError(code, f"device {message.device_id} is not here: this is {self.device_id}")
        key = role_key(message.role.name, message.role.id)
        if known and key != self._role_of[stream]:
            raise StatusError(Code.FAILED_PRECONDITION, "a stream keeps its role: open another for another role")
        if message.role.HasField("config"):
            raise StatusError(Code.INVALID_ARGUMENT, "no role configuration is agreed upon: every role has full access")
        election = message.election_id.high << 64 | message.election_id.low if message.HasField("election_id") else None
        role = self._roles.setdefault(key, _Role())
        if election is not None and any(
            each == election for other, each in role.streams.items() if other is not stream
        ):
            raise StatusError(Code.INVALID_ARGUMENT, f"election id {election} is in use by another controller")
        if not known and len(role.streams) >= STREAM_LIMIT:
            raise StatusError(Code.RESOURCE_EXHAUSTED, f"{STREAM_LIMIT} controllers have this role already")
        if message.HasField("role"):
            self._messages[key] = p4runtime_pb2.Role(name=message.role.name, id=message.role.id)
        self._role_of[stream] = key
        role.streams[stream] = election
        if election is not None and (role.highest is None or election >= role.highest):
            role.highest = election
            role.primary = stream
            return self._notices(key, last=stream)
        if role.primary is stream:
            role.primary = None
            return self._notices(key)
        return [(stream, self._notice(key, stream))]

    def close(self, stream: Hashable) -> list[Notice]:
        """Forget a stream that ended; the others learn when it was the primary."""
        with self._lock:
            key = self._role_of.pop(stream, None)
            if key is None:
                return []
            role = self._roles[key]
            del role.streams[stream]
            if role.primary is not stream:
                return []
            role.primary = None
            return self._notices(key)

    def primaries(self) -> list[Hashable]:
        """Return the primary of every role that has one."""
        with self._lock:
            return [role.primary for role in self._roles.values() if role.primary is not None]

    def is_primary(self, stream: Hashable) -> bool:
        """Say whether a stream is its role's primary."""
        with self._lock:
            key = self._role_of.get(stream)
            return key is not None and self._roles[key].primary is stream

    def authorize(self, role: str, election: int | None) -> None:
        """Raise StatusError unless the primary of the role asks (by its election id)."""
        with self._lock:
            known = self._roles.get(role)
            if known is None:
                raise StatusError(Code.NOT_FOUND, f"no controller has role {role!r}")
            if known.primary is None or election is None or known.streams[known.primary] != election:
                raise StatusError(Code.PERMISSION_DENIED, "only the primary controller may change the switch")

    def _notices(self, key: str, last: Hashable | None = None) -> list[Notice]:
        streams = [stream for stream in self._roles[key].streams if stream is not last]
        return [(stream, self._notice(key, stream)) for stream in [*streams, *([last] if last is not None else [])]]

    def _notice(self, key: str, stream: Hashable) -> p4runtime_pb2.StreamMessageResponse:
        role = self._roles[key]
        response = p4runtime_pb2.StreamMessageResponse()
        message = response.arbitration
        message.device_id = self.device_id
        if key in self._messages:
            message.role.CopyFrom(self._messages[key])
        if role.highest is not None:
            message.election_id.high, message.election_id.low = role.highest >> 64, role.highest & (1 << 64) - 1
        if role.primary is stream:
            message.status.code = Code.OK
            message.status.message = "you are primary"
        elif role.primary is not None:
            message.status.code = Code.ALREADY_EXISTS
            message.status.message = "another controller is primary"
        else:
            message.status.code = Code.NOT_FOUND
            message.status.message = "there is no primary"
        return response
