# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A switch's P4Runtime, in process: what the gRPC server serves, for callers without a socket.

Requests and responses are p4.v1 messages or their bytes; bytes are the fast path, since large ones are never parsed in
Python. Errors are StatusError. In process the caller is trusted; a server passes `role` and `election` on, and then the
arbiter decides.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError, Message
from p4.v1 import p4runtime_pb2

from softswitch.build import build
from softswitch.errors import ProgramError, SwitchError
from softswitch.native import engine, sanitized
from softswitch.p4runtime import wire
from softswitch.p4runtime.arbitration import Arbiter, role_key
from softswitch.p4runtime.native import ffi, p4runtime
from softswitch.p4runtime.packet_io import packet_in, packet_out
from softswitch.p4runtime.pipeline import Config, Pipeline, write_head
from softswitch.p4runtime.replication import Replication
from softswitch.p4runtime.state_file import WRITE, Record, StateFile, snapshot
from softswitch.p4runtime.status import Code, StatusError
from softswitch.settings import DepthRegister

if TYPE_CHECKING:
    from softswitch.switch import Switch

_LOG = logging.getLogger(__name__)

API_VERSION = "1.4.1"
STAND_IN_FRAMES = 16  # packet memory of a switch that only holds entries
_SET = p4runtime_pb2.SetForwardingPipelineConfigRequest
_GET = p4runtime_pb2.GetForwardingPipelineConfigRequest


class Endpoint:
    """P4Runtime on one switch; every method may be called from any thread."""

    def __init__(self, switch: Switch) -> None:
        self.switch = switch
        p4runtime()  # built now, or no request would be answered in time
        self.arbiter = Arbiter(switch.device_id)
        self.port_watchers: list[Callable[[int, bool], None]] = []
        self.lock = threading.RLock()  # held by every call, and while the switch is given another program
        self._replication = Replication(engine(), switch.handle, self._cpu_port)
        self._committed: Pipeline | None = None
        self._saved: tuple[Pipeline, Path] | None = None
        self._depth_register: DepthRegister | None = None
        self._state_file: StateFile | None = None

    def close(self) -> None:
        """Free what the pipelines hold; the switch stays."""
        with self.lock:
            if self._state_file:
                self._state_file.close()
                self._state_file = None
            self._drop_saved()
            if self._committed:
                self._committed.close()
                self._committed = None

    # Pipelines.

    def bind(self, p4info: str, device: bytes) -> None:
        """Serve the program that the switch has loaded already, by its P4Info in text format and its BMv2 JSON."""
        with self.lock:
            self._drop_saved()
            pipeline = Pipeline(Config.of_files(p4info, device), self.switch, self.switch, self._replication)
            if self._committed:
                self._committed.close()
            self._committed = pipeline
            self._apply_depth_register()

    @property
    def has_pipeline(self) -> bool:
        """Whether Write and Read have something to work on; waits for nobody."""
        committed = self._committed
        return self._saved is not None or (committed is not None and committed.is_current)

    def set_depth_register(self, register: DepthRegister) -> None:
        """Let a register of this program and of later ones read as the queues' live depth.

        Raises ProgramError when the program that is loaded has no such register.
        """
        with self.lock:
            if self.switch.state:
                self.switch.set_depth_register(register.name, register.unit)
            self._depth_register = register

    def _apply_depth_register(self) -> None:
        if self._depth_register:
            try:
                self.switch.set_depth_register(self._depth_register.name, self._depth_register.unit)
            except ProgramError as error:
                _LOG.warning("[%s] %s", self.switch.name, error)

    def set_pipeline(
        self, request: p4runtime_pb2.SetForwardingPipelineConfigRequest | bytes, *, trusted: bool = True
    ) -> None:
        """Serve SetForwardingPipelineConfig; all or nothing."""
        message, config = _split_config(_bytes(request))
        with self.lock:
            self._check(message.device_id, trusted)
            if not trusted:
                self._authorize(message.role, message.role_id, message.election_id, message.HasField("election_id"))
            if (config is None) != (message.action == _SET.COMMIT) and message.action != _SET.UNSPECIFIED:
                state = "missing" if config is None else "not asked for: the saved one is committed"
                raise StatusError(Code.INVALID_ARGUMENT, f"the pipeline's configuration is {state}")
            match message.action:
                case _SET.COMMIT:
                    self._commit_saved()
                case _SET.VERIFY if config:
                    self._verify(config)
                case _SET.VERIFY_AND_SAVE if config:
                    library = self._verify(config)
                    self._drop_saved()
                    self._saved = self._stand_in(config, library), library
                case _SET.VERIFY_AND_COMMIT if config:
                    library = self._verify(config)
                    self._drop_saved()
                    self._commit(config, library, None)
                case _SET.RECONCILE_AND_COMMIT if config:
                    self._reconcile(config)
                case _:
                    raise StatusError(Code.INVALID_ARGUMENT, "the action is missing")
            if message.action not in (_SET.VERIFY, _SET.VERIFY_AND_SAVE):
                try:
                    self._rewrite_state()
                except SwitchError as error:
                    raise StatusError(Code.INTERNAL, f"done, but it will not survive: {error}") from error

    def get_pipeline(
        self, request: p4runtime_pb2.GetForwardingPipelineConfigRequest | bytes, *, trusted: bool = True
    ) -> bytes:
        """Serve GetForwardingPipelineConfig; returns the serialized response."""
        message = _parse(_GET, request)
        with self.lock:
            self._check(message.device_id, trusted)
            pipeline = self._active()
            if pipeline is None:
                return b""
            config, kind = pipeline.config, message.response_type
            parts = []
            if kind in (_GET.ALL, _GET.P4INFO_AND_COOKIE):
                parts.append(wire.data(1, config.p4info))
            if kind in (_GET.ALL, _GET.DEVICE_CONFIG_AND_COOKIE):
                parts.append(wire.data(2, config.device))
            if config.cookie is not None:
                parts.append(wire.data(3, wire.number(1, config.cookie)))
            return wire.data(1, b"".join(parts))

    def _active(self) -> Pipeline | None:
        """Return the pipeline that requests mean: the saved one until it is committed."""
        if self._saved:
            return self._saved[0]
        if self._committed and not self._committed.is_current:
            self._committed.close()
            self._committed = None
        return self._committed

    def _need(self) -> Pipeline:
        pipeline = self._active()
        if pipeline is None:
            raise StatusError(Code.FAILED_PRECONDITION, f"{self.switch.name} has no forwarding pipeline yet")
        return pipeline

    def _drop_saved(self) -> None:
        if self._saved:
            pipeline, _ = self._saved
            self._saved = None
            pipeline.close()
            pipeline.switch.close()

    def _verify(self, config: Config) -> Path:
        """Build a configuration's program and bind it on a stand-in switch: what works there works here."""
        with _building:
            try:
                library = _build(_device_data(config.device))
                self._stand_in(config, library).switch.close()
            except SwitchError as error:
                raise StatusError(Code.INVALID_ARGUMENT, str(error)) from error
        return library

    def _stand_in(self, config: Config, library: Path) -> Pipeline:
        """Return the pipeline on a switch of its own, without ports, that only holds entries."""
        switch = type(self.switch)(f"{self.switch.name} (saved)", self.switch.device_id, frames=STAND_IN_FRAMES)
        try:
            switch.load_library(library)
            return Pipeline(config, switch, self.switch, Replication(engine(), None, self._cpu_port))
        except BaseException:
            switch.close()
            raise

    def _commit(self, config: Config, library: Path, saved: Pipeline | None) -> None:
        """Load a verified program for real, with what the saved pipeline holds, if there is one."""
        try:
            with self.switch.locked():
                if self._committed:
                    self._committed.close()
                    self._committed = None
                self.switch.load_library(library)
                pipeline = Pipeline(config, self.switch, self.switch, self._replication)
                if saved:
                    saved.copy_to(pipeline)
                self._committed = pipeline
                self._apply_depth_register()
        except SwitchError as error:
            raise StatusError(Code.INTERNAL, str(error)) from error
        if saved is None:
            self._replication.clear()
        elif saved.replication is not self._replication:
            self._replication.replace(saved.replication)

    def _commit_saved(self) -> None:
        if not self._saved:
            raise StatusError(Code.NOT_FOUND, "no pipeline is saved")
        saved, library = self._saved
        self._commit(saved.config, library, saved)
        self._drop_saved()

    def _reconcile(self, config: Config) -> None:
        current = self._committed if self._committed and self._committed.is_current else None
        if current and (current.config.p4info, current.config.device) == (config.p4info, config.device):
            current.config = config
            self._drop_saved()
            return
        library = self._verify(config)
        saved = self._stand_in(config, library)
        try:
            saved.replication = self._replication
            if current:
                try:
                    current.copy_to(saved)
                except StatusError as error:
                    reason = f"the entries cannot be kept: {error.message}"
                    raise StatusError(Code.INVALID_ARGUMENT, reason) from error
            self._drop_saved()
            self._commit(config, library, saved)
        finally:
            saved.close()
            saved.switch.close()

    def _cpu_port(self) -> int | None:
        return next((port for port in range(512) if self.switch.port_kind(port) == "cpu"), None)

    # What outlives the process.

    def keep(self, file: StateFile) -> None:
        """Take up what a state file holds, and let it follow every change from now on; raises SwitchError.

        A program that is loaded already stays: the file's entries are for it only if they were.
        """
        with self.lock:
            try:
                self._take_up(file.records())
                self._state_file = file
                self._rewrite_state()
            except (StatusError, SwitchError) as error:
                self._state_file = None
                file.close()
                if isinstance(error, SwitchError):
                    raise
                raise SwitchError(f"{file.path}: {error.message}") from error

    def _take_up(self, records: list[Record]) -> None:
        if not records:
            return
        config = Config.of(records[0][1])
        if self._committed is None:
            self._commit(config, self._verify(config), None)
        current = self._need().config
        if (current.p4info, current.device) != (config.p4info, config.device):
            _LOG.warning("[%s] the state file is of another program: it begins anew", self.switch.name)
            return
        for _, request in records[1:]:
            with contextlib.suppress(StatusError):  # what failed then fails again
                self._need().write(request)

    def _rewrite_state(self) -> None:
        if self._state_file:
            committed = self._committed if self._committed and self._committed.is_current else None
            self._state_file.rewrite(snapshot(committed) if committed else ())

    def _log_write(self, request: bytes) -> None:
        if self._state_file and not self._saved:
            try:
                self._state_file.append(WRITE, request)
                if self._state_file.is_long:
                    self._rewrite_state()
            except SwitchError as error:
                raise StatusError(Code.INTERNAL, f"done, but it will not survive: {error}") from error

    # Write and Read.

    def _check(self, device_id: int, trusted: bool) -> None:
        if device_id != self.switch.device_id and not (trusted and not device_id):
            raise StatusError(Code.NOT_FOUND, f"device {device_id} is not here: this is {self.switch.device_id}")

    def _authorize(self, name: str, number: int, election: Any, has_election: bool) -> None:
        self.arbiter.authorize(role_key(name, number), election.high << 64 | election.low if has_election else None)

    def write(self, request: p4runtime_pb2.WriteRequest | bytes, *, trusted: bool = True) -> None:
        """Serve Write; raises StatusError with one error per update when any fails."""
        data = _bytes(request)
        head = write_head(data)
        with self.lock:
            self._check(head.device_id, trusted)
            if not trusted:
                name = bytes(ffi().buffer(head.role, head.role_length)).decode(errors="replace")
                election = head.election_high << 64 | head.election_low if head.has_election else None
                self.arbiter.authorize(role_key(name, head.role_id), election)
            pipeline = self._need()
            if head.atomicity not in (0, 1, 2):
                raise StatusError(Code.INVALID_ARGUMENT, f"atomicity {head.atomicity} is not known")
            try:
                pipeline.write(data)
            finally:  # a batch that failed may have been applied in part
                self._log_write(data)

    def read_parts(
        self, request: p4runtime_pb2.ReadRequest | bytes, *, trusted: bool = True
    ) -> tuple[list[bytes], StatusError | None]:
        """Serve Read: serialized ReadResponses, and the error that ends the stream, if any."""
        data = _bytes(request)
        with self.lock:
            self._check(_device(data), trusted)
            return self._need().read(data)

    def read(self, request: p4runtime_pb2.ReadRequest | bytes) -> p4runtime_pb2.ReadResponse:
        """Serve Read as one message; raises StatusError when an entity could not be read."""
        parts, error = self.read_parts(request)
        if error:
            raise error
        return p4runtime_pb2.ReadResponse.FromString(b"".join(parts))

    def capabilities(self, request: bytes = b"") -> p4runtime_pb2.CapabilitiesResponse:
        """Serve Capabilities, also for P4Runtime 1.5's requests, which may name a device (field 1)."""
        self._check(_device(request), trusted=True)
        return p4runtime_pb2.CapabilitiesResponse(p4runtime_api_version=API_VERSION)

    # Stream messages.

    def packet_out(self, packet: p4runtime_pb2.PacketOut) -> None:
        """Send a PacketOut into the switch; raises StatusError."""
        pipeline = self._committed
        if pipeline is None:
            raise StatusError(Code.FAILED_PRECONDITION, f"{self.switch.name} has no forwarding pipeline yet")
        if not self.switch.packet_out(packet_out(packet, pipeline.packet_out)):
            raise StatusError(Code.RESOURCE_EXHAUSTED, "the switch takes no packet-out now, or none of this length")

    def acknowledge(self, ack: p4runtime_pb2.DigestListAck) -> None:
        """Take a DigestListAck; raises StatusError."""
        pipeline = self._committed
        if pipeline is None:
            raise StatusError(Code.FAILED_PRECONDITION, f"{self.switch.name} has no forwarding pipeline yet")
        pipeline.digests.acknowledge(ack)

    def poll(self) -> list[bytes]:
        """Take what the switch has for its controllers: serialized StreamMessageResponses, in order.

        Packets in, and digest lists that are complete or due. Port changes go to `port_watchers`.
        """
        for port, up in self.switch.port_events():
            for watcher in list(self.port_watchers):
                watcher(port, up)
        frames, learned = self.switch.packets_in(), self.switch.digests()
        for line in self.switch.log_lines():
            _LOG.info("[%s] %s", self.switch.name, line)
        pipeline = self._committed
        if pipeline is None:
            return []
        messages = [packet_in(frame, pipeline.packet_in) for frame in frames]
        now = self.switch.now
        for learn_list, content in learned:
            complete = pipeline.digests.received(learn_list, content, now)
            if complete:
                messages.append(complete)
        messages += pipeline.digests.due(now)
        return messages

    def digest_deadline_ns(self) -> int | None:
        """Return the switch time at which `poll` has a digest list to give."""
        pipeline = self._committed
        return pipeline.digests.deadline_ns() if pipeline else None

    @property
    def has_idle_entries(self) -> bool:
        """Whether `idle` may have something to say."""
        with self.lock:
            return self._committed is not None and self._committed.is_current and self._committed.has_idle_entries

    def idle(self) -> list[bytes]:
        """Take the entries past their idle timeout, as a serialized StreamMessageResponse, if there are any."""
        with self.lock:
            pipeline = self._committed
            entries = pipeline.idle_entries() if pipeline is not None and pipeline.is_current else b""
        return [wire.data(4, entries + wire.number(2, time.time_ns()))] if entries else []

    def messages(self) -> Iterator[p4runtime_pb2.StreamMessageResponse]:
        """Yield what `poll` and `idle` take, as messages."""
        for message in self.poll() + self.idle():
            yield p4runtime_pb2.StreamMessageResponse.FromString(message)


def _bytes(request: Message | bytes) -> bytes:
    return request if isinstance(request, bytes) else bytes(request.SerializeToString())


def _parse(kind: Any, request: Any) -> Any:
    if not isinstance(request, bytes):
        return request
    try:
        return kind.FromString(request)
    except DecodeError as error:
        raise StatusError(Code.INVALID_ARGUMENT, f"the request is not a valid message: {error}") from error


def _device(request: bytes) -> int:
    """Return the device_id (field 1) of a request that is not parsed in Python."""
    device_id = ffi().new("uint64_t *")
    if not p4runtime().p4rt_read_device(ffi().from_buffer("uint8_t[]", request), len(request), device_id):
        raise StatusError(Code.INVALID_ARGUMENT, "the request is not a valid message")
    return int(device_id[0])


def _split_config(request: bytes) -> tuple[Any, Config | None]:
    """Return a SetForwardingPipelineConfigRequest without its configuration (field 5), and that."""
    rest: list[bytes] = []
    config: bytes | None = None
    try:
        for number, value in wire.fields(request):
            if isinstance(value, int):
                rest.append(wire.number(number, value))
            elif number == 5:
                config = (config or b"") + value
            else:
                rest.append(wire.data(number, value))
    except ValueError as error:
        raise StatusError(Code.INVALID_ARGUMENT, f"the request is not a valid message: {error}") from error
    return _parse(_SET, b"".join(rest)), None if config is None else Config.of(config)


def _device_data(config: bytes) -> bytes:
    """Return the JSON of a device configuration: bare, or in the P4DeviceConfig message of old clients (field 3)."""
    if config.lstrip()[:1] != b"{":
        with contextlib.suppress(ValueError):
            for number, value in wire.fields(config):
                if number == 3 and isinstance(value, bytes):
                    return value
    return config


_building = threading.Lock()  # switches that are given the same program at once build it once


@lru_cache(maxsize=8)
def _build(config: bytes) -> Path:
    with tempfile.TemporaryDirectory(prefix="softswitch-") as scratch:
        path = Path(scratch) / "config.json"
        path.write_bytes(config)
        try:
            return build(path, sanitize=sanitized())
        except ProgramError as error:
            raise ProgramError(error.message, place=error.place, source="the device configuration") from error
