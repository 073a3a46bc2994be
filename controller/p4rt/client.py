# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""One switch over P4Runtime: arbitration, the program, writes in batches and reads; every call has a deadline.

p4runtime-shell's own client ends the process when a switch does not answer and prints where it should raise, so this
one stands on the stubs; names come from the shell's context (`pipeline`), and `gradctl shell` is the shell itself.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, TypeAlias

import grpc
import numpy as np
import numpy.typing as npt
from google.rpc import code_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from controller.p4rt import wire
from controller.p4rt.entities import Entity, TableEntry
from controller.p4rt.errors import SwitchFailure, failure
from controller.p4rt.pipeline import Pipeline, own_default_actions

DEADLINE_S: Final = 5.0
PIPELINE_DEADLINE_S: Final = 60.0  # the softswitch compiles a program that it has not seen
BATCH_UPDATES: Final = 2000
BATCH_BYTES: Final = 2 << 20  # servers refuse messages of more than 4 MiB by default
CHANNEL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.use_local_subchannel_pool", 1),
)

_log = logging.getLogger(__name__)
_Update: TypeAlias = tuple[wire.UpdateKind, Entity]
_Answer: TypeAlias = "p4runtime_pb2.MasterArbitrationUpdate | grpc.RpcError | None"  # None: the stream has ended


@dataclass(frozen=True)
class Snapshot:
    """A switch's program, whatever it is, and the updates that bring back all it held, in an order that stands."""

    config: p4runtime_pb2.ForwardingPipelineConfig
    updates: tuple[bytes, ...]


@dataclass(frozen=True)
class CounterCells:
    """An indexed counter: what each cell has counted, by index."""

    counter: str
    packets: npt.NDArray[np.int64]
    bytes: npt.NDArray[np.int64]


class Connection:
    """A connection to one switch. Reads need nothing more; `become_primary` before the first write.

    Use it as a context manager, or `close` it. Calls raise SwitchFailure. One thread at a time.
    """

    def __init__(self, name: str, address: str, device_id: int, *, deadline: float = DEADLINE_S) -> None:
        self.name = name
        self.address = address
        self.device_id = device_id
        self.deadline = deadline
        self.channel = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self._write = self.channel.unary_unary("/p4.v1.P4Runtime/Write")
        self._read = self.channel.unary_stream("/p4.v1.P4Runtime/Read")
        self._stream: _Arbitration | None = None

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session and the channel; what is under way is cancelled."""
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self.channel.close()

    def failure(self, error: grpc.RpcError, describe: Callable[[int], str] | None = None) -> SwitchFailure:
        """Return what a failed call to this switch says."""
        return failure(self.name, self.address, error, self.deadline, describe)

    def api_version(self) -> str:
        """Return the P4Runtime version that the switch speaks; the cheapest proof that it lives."""
        try:
            answer = self._stub.Capabilities(p4runtime_pb2.CapabilitiesRequest(), timeout=self.deadline)
        except grpc.RpcError as error:
            raise self.failure(error) from None
        return str(answer.p4runtime_api_version)

    # The program

    def cookie(self) -> int | None:
        """Return the cookie of the program that the switch runs; None without a program."""
        config = self._config(p4runtime_pb2.GetForwardingPipelineConfigRequest.COOKIE_ONLY)
        return None if config is None else int(config.cookie.cookie)

    def _config(self, response_type: int) -> p4runtime_pb2.ForwardingPipelineConfig | None:
        request = p4runtime_pb2.GetForwardingPipelineConfigRequest(
            device_id=self.device_id, response_type=response_type
        )
        try:
            config = self._stub.GetForwardingPipelineConfig(request, timeout=self.deadline).config
        except grpc.RpcError as error:
            if error.code() in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND):
                return None
            raise self.failure(error) from None
        return config if config.HasField("cookie") or config.HasField("p4info") else None

    def load(self, pipeline: Pipeline) -> None:
        """Give the switch a program; whatever its tables held is gone."""
        config = p4runtime_pb2.ForwardingPipelineConfig(p4info=pipeline.p4info, p4_device_config=pipeline.device_config)
        config.cookie.cookie = pipeline.cookie
        self._load(config)

    def _load(self, config: p4runtime_pb2.ForwardingPipelineConfig) -> None:
        def call(election_id: int) -> None:
            request = p4runtime_pb2.SetForwardingPipelineConfigRequest(
                device_id=self.device_id,
                action=p4runtime_pb2.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                config=config,
            )
            request.election_id.CopyFrom(_uint128(election_id))
            self._stub.SetForwardingPipelineConfig(request, timeout=PIPELINE_DEADLINE_S)

        self._as_primary(call)

    def snapshot(self) -> Snapshot | None:
        """Return all that the switch holds under whatever program it runs; None without a program."""
        config = self._config(p4runtime_pb2.GetForwardingPipelineConfigRequest.ALL)
        if config is None:
            return None
        kinds = [wire.message(2, wire.message(field, b"")) for field in (3, 4, 2)]
        updates = [
            _update(p4runtime_pb2.Update.INSERT, entity)
            for kind in kinds
            for entity in self._entities(kind)
            if not (entity.table_entry.is_default_action or entity.table_entry.is_const)
        ]
        own = own_default_actions(config.p4info)
        defaults = b"".join(
            wire.message(2, wire.message(2, wire.number(1, table) + wire.number(8, 1))) for table in own
        )
        updates += [
            _update(p4runtime_pb2.Update.MODIFY, entity)
            for entity in (self._entities(defaults) if own else ())
            if entity.table_entry.HasField("action")
            and _call(entity.table_entry.action.action) != own[entity.table_entry.table_id]
        ]
        return Snapshot(config, tuple(updates))

    def _entities(self, request: bytes) -> Iterator[p4runtime_pb2.Entity]:
        for response in self._responses(request):
            yield from p4runtime_pb2.ReadResponse.FromString(response).entities

    def restore(self, snapshot: Snapshot) -> None:
        """Give the switch back its program and what it held."""
        self._load(snapshot.config)
        for start in range(0, len(snapshot.updates), BATCH_UPDATES):
            self._send(b"".join(snapshot.updates[start : start + BATCH_UPDATES]))

    # Arbitration

    def become_primary(self) -> None:
        """Become the one client that may write, ahead of whoever was; the session lasts until `close`."""
        if self._stream is not None and self._stream.is_primary():
            return
        if self._stream is None or self._stream.broken:
            if self._stream is not None:
                self._stream.close()
            self._stream = _Arbitration(self)
        self._stream.take_over()

    @property
    def election_id(self) -> int:
        """The election id by which this client is primary; 0 before `become_primary`."""
        return 0 if self._stream is None else self._stream.election_id

    def _as_primary(self, call: Callable[[int], object], describe: Callable[[int], str] | None = None) -> None:
        """Make a call that only the primary may make; once more if another client had become primary meanwhile."""
        for attempt in (1, 2):
            self.become_primary()
            assert self._stream is not None
            try:
                call(self._stream.election_id)
                return
            except grpc.RpcError as error:
                if error.code() is not grpc.StatusCode.PERMISSION_DENIED or attempt == 2:
                    raise self.failure(error, describe) from None
                self._stream.lost()

    # Entities

    def write(self, updates: Iterable[_Update], encoder: wire.Encoder) -> None:
        """Write updates in their order, in batches. Raises SwitchFailure at the first batch that is refused."""
        for batch, encoded in _batches(updates, encoder):

            def describe(index: int, batch: Sequence[_Update] = batch) -> str:
                return f"{batch[index][0]} {batch[index][1]}" if index < len(batch) else f"update {index}"

            self._send(b"".join(wire.message(4, update) for update in encoded), describe)

    def _send(self, updates: bytes, describe: Callable[[int], str] | None = None) -> None:
        def call(election_id: int) -> None:
            head = wire.number(1, self.device_id) + wire.message(3, _uint128(election_id).SerializeToString())
            self._write(head + updates, timeout=self.deadline)

        self._as_primary(call, describe)

    def read(self, decoder: wire.Decoder) -> list[Entity]:
        """Return every table entry, member and group that the switch holds, and default actions that were changed.

        Const entries are left out.
        """
        profiles = wire.message(2, wire.message(3, b"")) + wire.message(2, wire.message(4, b""))
        return [
            entity
            for request in (wire.message(2, wire.message(2, b"")), profiles + decoder.default_actions)
            for response in self._responses(request)
            for entity in decoder.entities(response)
        ]

    def read_table(
        self, pipeline: Pipeline, decoder: wire.Decoder, table: str | None = None
    ) -> list[tuple[TableEntry, wire.Counted | None]]:
        """Return the entries of one table, or of all, with their direct counters."""
        table_id = wire.number(1, pipeline.table(table).id) if table else b""
        entity = wire.message(2, table_id + wire.message(7, b""))
        return [
            counted
            for response in self._responses(wire.message(2, entity))
            for counted in decoder.counted_entries(response)
        ]

    def read_counter(self, pipeline: Pipeline, counter: str) -> CounterCells:
        """Return every cell of an indexed counter."""
        info = pipeline.counter(counter)
        cells = CounterCells(info.name, np.zeros(info.size, np.int64), np.zeros(info.size, np.int64))
        for response in self._responses(wire.message(2, wire.message(7, wire.number(1, info.id)))):
            wire.add_counter_cells(info.id, response, cells.packets, cells.bytes)
        return cells

    def _responses(self, entities: bytes) -> Iterator[bytes]:
        try:
            yield from self._read(wire.number(1, self.device_id) + entities, timeout=self.deadline)
        except grpc.RpcError as error:
            raise self.failure(error) from None


def _batches(updates: Iterable[_Update], encoder: wire.Encoder) -> Iterator[tuple[Sequence[_Update], Sequence[bytes]]]:
    batch: list[_Update] = []
    encoded: list[bytes] = []
    size = 0
    for update in updates:
        wired = encoder.update(*update)
        if encoded and (len(encoded) == BATCH_UPDATES or size + len(wired) > BATCH_BYTES):
            yield batch, encoded
            batch, encoded, size = [], [], 0
        batch.append(update)
        encoded.append(wired)
        size += len(wired)
    if encoded:
        yield batch, encoded


def _update(kind: int, entity: p4runtime_pb2.Entity) -> bytes:
    """Return an update as a field of a WriteRequest."""
    return wire.message(4, wire.number(1, kind) + wire.message(2, entity.SerializeToString()))


def _call(action: p4runtime_pb2.Action) -> tuple[int, dict[int, int]]:
    return action.action_id, {param.param_id: int.from_bytes(param.value, "big") for param in action.params}


def _uint128(value: int) -> p4runtime_pb2.Uint128:
    return p4runtime_pb2.Uint128(high=value >> 64, low=value & (1 << 64) - 1)


def _integer(value: p4runtime_pb2.Uint128) -> int:
    return int(value.high) << 64 | int(value.low)


class _Arbitration:
    """The stream that makes its client primary. Its election id is the time in us, or one above the highest seen."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._outgoing: queue.SimpleQueue[p4runtime_pb2.StreamMessageRequest | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        self._primary = False
        self.broken = False
        self.election_id = time.time_ns() // 1000
        self._call = p4runtime_pb2_grpc.P4RuntimeStub(connection.channel).StreamChannel(iter(self._outgoing.get, None))
        self._reader = threading.Thread(target=self._receive, name=f"{connection.name}-stream", daemon=True)
        self._reader.start()

    def is_primary(self) -> bool:
        """Tell whether this client is primary, by all that the switch has said so far."""
        while not self._answers.empty():
            self._note(self._answers.get())
        return self._primary and not self.broken

    def lost(self) -> None:
        """Note that another client is primary now; a new election id makes what the switch said before void."""
        self._primary = False
        self.election_id = max(self.election_id + 1, time.time_ns() // 1000)

    def take_over(self) -> None:
        """Become primary. Raises SwitchFailure if the switch does not answer or grants it to nobody."""
        deadline = time.monotonic() + self._connection.deadline
        self._primary = False
        self._offer()
        while not self._primary:
            try:
                answer = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise SwitchFailure(
                    self._connection.name,
                    f"no answer from {self._connection.address} to arbitration within {self._connection.deadline:g} s",
                    code="DEADLINE_EXCEEDED",
                ) from None
            self._note(answer)
            if isinstance(answer, grpc.RpcError):
                raise self._connection.failure(answer) from None
            if answer is None:
                raise SwitchFailure(self._connection.name, "the switch ended the session", code="ABORTED")
            if not self._primary:
                self.election_id = max(self.election_id, _integer(answer.election_id)) + 1
                self._offer()

    def _offer(self) -> None:
        request = p4runtime_pb2.StreamMessageRequest()
        request.arbitration.device_id = self._connection.device_id
        request.arbitration.election_id.CopyFrom(_uint128(self.election_id))
        self._outgoing.put(request)

    def _note(self, answer: _Answer) -> None:
        if answer is None or isinstance(answer, grpc.RpcError):
            self.broken, self._primary = True, False
        else:
            self._primary = answer.status.code == code_pb2.OK and _integer(answer.election_id) == self.election_id

    def _receive(self) -> None:
        try:
            for message in self._call:
                if message.HasField("arbitration"):
                    self._answers.put(message.arbitration)
            self._answers.put(None)
        except grpc.RpcError as error:
            self._answers.put(error)

    def close(self) -> None:
        """End the stream, and with it the session."""
        self._outgoing.put(None)
        self._call.cancel()
        self._reader.join(timeout=self._connection.deadline)
