# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A P4Runtime server that keeps entities in dictionaries: enough of a switch to test the controller without one.

Unlike a real switch it can be told to refuse, to change what it stores, and to fall silent.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, status_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

Entity = p4runtime_pb2.Entity
Update = p4runtime_pb2.Update


def key_of(entity: Entity) -> bytes:
    """Return what tells an entity from every other: its form without what a modify may change."""
    key = Entity()
    match entity.WhichOneof("entity"):
        case "table_entry":
            entry = entity.table_entry
            key.table_entry.table_id = entry.table_id
            key.table_entry.priority = entry.priority
            key.table_entry.is_default_action = entry.is_default_action
            for match in sorted(entry.match, key=lambda match: match.field_id):
                key.table_entry.match.add().CopyFrom(match)
        case "action_profile_member":
            member = entity.action_profile_member
            key.action_profile_member.action_profile_id = member.action_profile_id
            key.action_profile_member.member_id = member.member_id
        case "action_profile_group":
            group = entity.action_profile_group
            key.action_profile_group.action_profile_id = group.action_profile_id
            key.action_profile_group.group_id = group.group_id
    return key.SerializeToString(deterministic=True)


def asks_for(wanted: Entity, entity: Entity) -> bool:
    """Tell whether an entity of a ReadRequest asks for a held one: by kind, by table, and by whether it is default."""
    if wanted.WhichOneof("entity") != entity.WhichOneof("entity"):
        return False
    return not entity.HasField("table_entry") or (
        wanted.table_entry.table_id in (0, entity.table_entry.table_id)
        and wanted.table_entry.is_default_action == entity.table_entry.is_default_action
    )


def integer(value: p4runtime_pb2.Uint128) -> int:
    return int(value.high) << 64 | int(value.low)


class FakeSwitch(p4runtime_pb2_grpc.P4RuntimeServicer):
    """One switch on a port of the loopback interface. Use it as a context manager."""

    def __init__(self, device_id: int = 1) -> None:
        self.device_id = device_id
        self.entities: dict[bytes, Entity] = {}
        self.config: p4runtime_pb2.ForwardingPipelineConfig | None = None
        self.writes = 0
        self.loads = 0
        self.refuse: Callable[[Update], str | None] = lambda update: None
        self.distort: Callable[[Entity], None] = lambda entity: None
        self.silent = threading.Event()
        self._sessions: dict[object, tuple[int, queue.SimpleQueue[Any]]] = {}
        self._highest = 0
        self._lock = threading.Lock()
        self.server = grpc.server(ThreadPoolExecutor(max_workers=16))
        p4runtime_pb2_grpc.add_P4RuntimeServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> FakeSwitch:
        self.server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.silent.clear()
        self.server.stop(grace=None).wait()

    def restart(self) -> None:
        """Forget everything, as a switch that was started anew."""
        self.entities.clear()
        self.config = None

    def _answer(self, context: Any) -> None:
        while self.silent.is_set() and context.is_active():
            threading.Event().wait(0.01)

    # The service

    def Capabilities(self, request: Any, context: Any) -> Any:
        self._answer(context)
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version="1.4.1")

    def GetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        self._answer(context)
        if self.config is None:
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "no program")
        answer = p4runtime_pb2.GetForwardingPipelineConfigResponse()
        if request.response_type == p4runtime_pb2.GetForwardingPipelineConfigRequest.COOKIE_ONLY:
            answer.config.cookie.CopyFrom(self.config.cookie)
        else:
            answer.config.CopyFrom(self.config)
        return answer

    def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        self._check_primary(request, context)
        self.config = request.config
        self.entities.clear()
        self.loads += 1
        return p4runtime_pb2.SetForwardingPipelineConfigResponse()

    def Write(self, request: Any, context: Any) -> Any:
        self._answer(context)
        self._check_primary(request, context)
        self.writes += 1
        errors = [self._apply(update) for update in request.updates]
        if any(code for code, _ in errors):
            status = status_pb2.Status(code=code_pb2.UNKNOWN, message="some updates failed")
            for code, text in errors:
                packed = any_pb2.Any()
                packed.Pack(p4runtime_pb2.Error(canonical_code=code, message=text))
                status.details.append(packed)
            context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
            context.abort(grpc.StatusCode.UNKNOWN, "some updates failed")
        return p4runtime_pb2.WriteResponse()

    def Read(self, request: Any, context: Any) -> Iterator[Any]:
        self._answer(context)
        answer = p4runtime_pb2.ReadResponse()
        for entity in self.entities.values():
            if not any(asks_for(wanted, entity) for wanted in request.entities):
                continue
            shown = answer.entities.add()
            shown.CopyFrom(entity)
            self.distort(shown)
        yield answer

    def StreamChannel(self, requests: Any, context: Any) -> Iterator[Any]:
        session = object()
        answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        context.add_callback(lambda: answers.put(None))

        def receive() -> None:
            try:
                for message in requests:
                    with self._lock:
                        election_id = integer(message.arbitration.election_id)
                        self._sessions[session] = (election_id, answers)
                        self._highest = max(self._highest, election_id)
                        self._tell()
            except grpc.RpcError:
                pass
            answers.put(None)

        threading.Thread(target=receive, daemon=True).start()
        yield from iter(answers.get, None)
        with self._lock:
            self._sessions.pop(session, None)
            self._tell()

    def _tell(self) -> None:
        for election_id, answers in self._sessions.values():
            message = p4runtime_pb2.StreamMessageResponse()
            message.arbitration.device_id = self.device_id
            message.arbitration.election_id.high = self._highest >> 64
            message.arbitration.election_id.low = self._highest & (1 << 64) - 1
            primary = any(other == self._highest for other, _ in self._sessions.values())
            message.arbitration.status.code = (
                code_pb2.OK
                if election_id == self._highest
                else code_pb2.ALREADY_EXISTS
                if primary
                else code_pb2.NOT_FOUND
            )
            answers.put(message)

    def _check_primary(self, request: Any, context: Any) -> None:
        with self._lock:
            asked = integer(request.election_id)
            held = any(election_id == asked for election_id, _ in self._sessions.values())
            if asked != self._highest or not held:
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "not primary")

    def _apply(self, update: Update) -> tuple[int, str]:
        refused = self.refuse(update)
        if refused is not None:
            return code_pb2.INVALID_ARGUMENT, refused
        if self.config is None:
            return code_pb2.FAILED_PRECONDITION, "no program"
        key = key_of(update.entity)
        missing = self._missing(update.entity) if update.type != Update.DELETE else None
        if missing:
            return code_pb2.NOT_FOUND, missing
        match update.type:
            case Update.INSERT | Update.DELETE if update.entity.table_entry.is_default_action:
                return code_pb2.INVALID_ARGUMENT, "a default action is modified"
            case Update.MODIFY if update.entity.table_entry.is_default_action:
                self.entities.pop(key, None)  # the program's own is nothing that is held
                if update.entity.table_entry.HasField("action"):
                    self.entities[key] = update.entity
            case Update.INSERT if key in self.entities:
                return code_pb2.ALREADY_EXISTS, "exists"
            case Update.MODIFY | Update.DELETE if key not in self.entities:
                return code_pb2.NOT_FOUND, "no such entity"
            case Update.DELETE:
                if self._in_use(update.entity):
                    return code_pb2.FAILED_PRECONDITION, "in use"
                del self.entities[key]
            case _:
                self.entities[key] = update.entity
        return code_pb2.OK, ""

    def _missing(self, entity: Entity) -> str | None:
        if entity.HasField("action_profile_group"):
            held = {
                e.action_profile_member.member_id for e in self.entities.values() if e.HasField("action_profile_member")
            }
            for member in entity.action_profile_group.members:
                if member.member_id not in held:
                    return f"no member {member.member_id}"
        group = entity.table_entry.action.action_profile_group_id
        if group and group not in {
            e.action_profile_group.group_id for e in self.entities.values() if e.HasField("action_profile_group")
        }:
            return f"no group {group}"
        return None

    def _in_use(self, entity: Entity) -> bool:
        if entity.HasField("action_profile_member"):
            member = entity.action_profile_member.member_id
            return any(
                member == used.member_id for e in self.entities.values() for used in e.action_profile_group.members
            )
        if entity.HasField("action_profile_group"):
            group = entity.action_profile_group.group_id
            return any(group == e.table_entry.action.action_profile_group_id for e in self.entities.values())
        return False
