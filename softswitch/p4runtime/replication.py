# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The packet replication engine: multicast groups and clone sessions (P4Runtime 1.4, section 9.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from p4.v1 import p4runtime_pb2

from softswitch.p4runtime.data import canonical
from softswitch.p4runtime.native import ffi
from softswitch.p4runtime.status import Code, StatusError

GROUPS = 65535  # mcast_grp is 16 bits wide
SESSIONS = 32767  # as on BMv2
INSTANCES = 65535  # egress_rid is 16 bits wide
PORTS = 511
SDN_CPU_PORT = 0xFFFFFFFD
_BACKUP_REPLICAS = 4  # Replica's field in P4Runtime 1.5

Undo = Callable[[], None]


class Replication:
    """Groups and sessions, as written and in the switch; `switch` is None while they only wait for a commit."""

    def __init__(self, lib: Any, switch: Any, cpu_port: Callable[[], int | None]) -> None:
        self._lib = lib
        self._switch = switch
        self._cpu_port = cpu_port
        self._groups: dict[int, p4runtime_pb2.MulticastGroupEntry] = {}
        self._sessions: dict[int, p4runtime_pb2.CloneSessionEntry] = {}

    def write(self, kind: int, entry: p4runtime_pb2.PacketReplicationEngineEntry) -> Undo:
        """Apply an update of type `kind` and return what undoes it; raises StatusError."""
        match entry.WhichOneof("type"):
            case "multicast_group_entry":
                group = entry.multicast_group_entry
                self._check(kind, "multicast group", group.multicast_group_id, GROUPS, self._groups)
                return self._set_group(group.multicast_group_id, None if kind == p4runtime_pb2.Update.DELETE else group)
            case "clone_session_entry":
                session = entry.clone_session_entry
                self._check(kind, "clone session", session.session_id, SESSIONS, self._sessions)
                return self._set_session(session.session_id, None if kind == p4runtime_pb2.Update.DELETE else session)
        raise StatusError(Code.INVALID_ARGUMENT, "the replication entry is empty")

    def read(self, entry: p4runtime_pb2.PacketReplicationEngineEntry) -> Iterator[p4runtime_pb2.Entity]:
        """Yield what matches: one group or session by its id, all of its kind for id 0, all when no kind is given."""
        kind = entry.WhichOneof("type")
        if kind != "clone_session_entry":
            wanted = entry.multicast_group_entry.multicast_group_id
            for group_id in [wanted] if wanted else sorted(self._groups):
                if group_id in self._groups:
                    entity = p4runtime_pb2.Entity()
                    entity.packet_replication_engine_entry.multicast_group_entry.CopyFrom(self._groups[group_id])
                    yield entity
        if kind != "multicast_group_entry":
            wanted = entry.clone_session_entry.session_id
            for session_id in [wanted] if wanted else sorted(self._sessions):
                if session_id in self._sessions:
                    entity = p4runtime_pb2.Entity()
                    entity.packet_replication_engine_entry.clone_session_entry.CopyFrom(self._sessions[session_id])
                    yield entity

    def clear(self) -> None:
        """Remove every group and session."""
        for group_id in list(self._groups):
            self._set_group(group_id, None)
        for session_id in list(self._sessions):
            self._set_session(session_id, None)

    def replace(self, other: Replication) -> None:
        """Have another's groups and sessions instead of these."""
        self.clear()
        for group_id, group in other._groups.items():
            self._set_group(group_id, group)
        for session_id, session in other._sessions.items():
            self._set_session(session_id, session)

    @staticmethod
    def _check(kind: int, what: str, identifier: int, limit: int, present: dict[int, Any]) -> None:
        if not identifier:
            raise StatusError(Code.INVALID_ARGUMENT, f"{what} 0 stands for all of them in a read")
        if identifier > limit:
            raise StatusError(Code.OUT_OF_RANGE, f"{what} {identifier} is above {limit}")
        if kind == p4runtime_pb2.Update.INSERT and identifier in present:
            raise StatusError(Code.ALREADY_EXISTS, f"{what} {identifier} exists already")
        if kind in (p4runtime_pb2.Update.MODIFY, p4runtime_pb2.Update.DELETE) and identifier not in present:
            raise StatusError(Code.NOT_FOUND, f"{what} {identifier} does not exist")
        if kind not in (p4runtime_pb2.Update.INSERT, p4runtime_pb2.Update.MODIFY, p4runtime_pb2.Update.DELETE):
            raise StatusError(Code.INVALID_ARGUMENT, "the update's type is missing")

    def _replicas(self, replicas: Any) -> list[tuple[int, int]]:
        """Return (port, instance) pairs, with ports made canonical in place."""
        pairs = []
        for replica in replicas:
            if any(field.field_number == _BACKUP_REPLICAS for field in replica.UnknownFields()):
                raise StatusError(Code.UNIMPLEMENTED, "backup replicas are not supported")
            port = replica.egress_port
            if replica.WhichOneof("port_kind") == "port":
                if not replica.port:
                    raise StatusError(Code.INVALID_ARGUMENT, "a replica has no port")
                port = int.from_bytes(replica.port, "big")
                replica.port = canonical(replica.port)
            if port == SDN_CPU_PORT:
                cpu_port = self._cpu_port()
                if cpu_port is None:
                    raise StatusError(Code.INVALID_ARGUMENT, "the switch has no CPU port")
                port = cpu_port
            if not port < PORTS:
                raise StatusError(Code.INVALID_ARGUMENT, f"port {port} is not in 0..{PORTS - 1}")
            if replica.instance > INSTANCES:
                raise StatusError(Code.INVALID_ARGUMENT, f"instance {replica.instance} is above {INSTANCES}")
            pairs.append((port, replica.instance))
        if len(set(pairs)) != len(pairs):
            raise StatusError(Code.INVALID_ARGUMENT, "a replica (port, instance) is given twice")
        return pairs

    def _install(self, call: Callable[..., int], identifier: int, pairs: list[tuple[int, int]], *more: int) -> None:
        array = ffi().new("struct ss_replica[]", pairs or 1)
        if call(self._switch, identifier, array, len(pairs), *more):
            raise StatusError(Code.RESOURCE_EXHAUSTED, "the switch refused the replicas")

    def _set_group(self, identifier: int, group: p4runtime_pb2.MulticastGroupEntry | None) -> Undo:
        before = self._groups.get(identifier)
        if group is not None:
            group = p4runtime_pb2.MulticastGroupEntry.FromString(group.SerializeToString())
        pairs = self._replicas(group.replicas) if group is not None else []
        if self._switch is not None:
            self._install(self._lib.ss_multicast_set, identifier, pairs)
        if group is None:
            self._groups.pop(identifier, None)
        else:
            self._groups[identifier] = group
        return lambda: void(self._set_group(identifier, before))

    def _set_session(self, identifier: int, session: p4runtime_pb2.CloneSessionEntry | None) -> Undo:
        before = self._sessions.get(identifier)
        if session is None:
            if self._switch is not None:
                self._lib.ss_clone_remove(self._switch, identifier)
            self._sessions.pop(identifier, None)
        else:
            session = p4runtime_pb2.CloneSessionEntry.FromString(session.SerializeToString())
            if session.class_of_service:
                raise StatusError(Code.UNIMPLEMENTED, "clones have no class of service of their own")
            if session.packet_length_bytes < 0:
                raise StatusError(Code.INVALID_ARGUMENT, "packet_length_bytes is negative")
            pairs = self._replicas(session.replicas)
            if self._switch is not None:
                self._install(self._lib.ss_clone_set, identifier, pairs, session.packet_length_bytes)
            self._sessions[identifier] = session
        return lambda: void(self._set_session(identifier, before))


def void(_: object) -> None:
    """Take a value and give none."""
