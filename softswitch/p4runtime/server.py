# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The gRPC server of one switch: P4Runtime over its endpoint, and the control channel, on one port.

Requests and responses are raw bytes where they are large. Calls that may wait run on worker threads, one a switch, so
that a large Write of one switch delays nobody else; streams never hold a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import Executor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError
from p4.v1 import p4runtime_pb2

from softswitch.errors import SettingsError, SwitchError
from softswitch.p4runtime.control import Control
from softswitch.p4runtime.endpoint import Endpoint
from softswitch.p4runtime.status import Code, StatusError
from softswitch.settings import TlsSettings

MESSAGE_LIMIT = 256 << 20
STREAM_BACKLOG = 4096  # messages that wait for one controller; packets in and digests beyond are dropped
IDLE_SCAN_S = 0.05
OPTIONS = (
    ("grpc.max_receive_message_length", MESSAGE_LIMIT),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
)

_CODES = {code.value[0]: code for code in grpc.StatusCode}
T = TypeVar("T")


class _Stream:
    """One controller's StreamChannel: what waits to be sent."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue()

    def send(self, message: bytes) -> None:
        self.queue.put_nowait(message)

    def offer(self, message: bytes) -> bool:
        if self.queue.qsize() >= STREAM_BACKLOG:
            return False
        self.queue.put_nowait(message)
        return True


class SwitchServer:
    """Serve one switch on one address, in the running asyncio loop."""

    def __init__(self, endpoint: Endpoint, control: Control, workers: Executor, tls: TlsSettings | None = None) -> None:
        self.endpoint = endpoint
        self.control = control
        self.port = 0
        self.dropped_messages = 0
        self._workers = workers
        self._busy = asyncio.Lock()
        self._idle: asyncio.Task[None] | None = None
        self._digest_timer: asyncio.TimerHandle | None = None
        self._event_fd = -1
        self._server = grpc.aio.server(options=OPTIONS)
        self._tls = tls
        handlers = {
            "Write": grpc.unary_unary_rpc_method_handler(self._write),
            "Read": grpc.unary_stream_rpc_method_handler(self._read),
            "SetForwardingPipelineConfig": grpc.unary_unary_rpc_method_handler(self._set_pipeline),
            "GetForwardingPipelineConfig": grpc.unary_unary_rpc_method_handler(self._get_pipeline),
            "StreamChannel": grpc.stream_stream_rpc_method_handler(self._stream_channel),
            "Capabilities": grpc.unary_unary_rpc_method_handler(self._capabilities),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("p4.v1.P4Runtime", handlers), control.handler())
        )

    async def start(self, address: str) -> None:
        """Listen on an address (a port of 0 is chosen); raises SwitchError when it is taken."""
        try:
            if self._tls:
                self.port = self._server.add_secure_port(address, _credentials(self._tls))
            else:
                self.port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise SwitchError(f"{self.endpoint.switch.name}: cannot listen on {address} (is it in use?)") from error
        await self._server.start()
        self._event_fd = self.endpoint.switch.event_fd
        asyncio.get_running_loop().add_reader(self._event_fd, self._readable)
        self._readable()
        self._scan_idle()

    async def stop(self, grace: float | None = None) -> None:
        """Stop listening and end all calls; the switch itself stays."""
        if self._event_fd >= 0:
            asyncio.get_running_loop().remove_reader(self._event_fd)
            self._event_fd = -1
        if self._digest_timer:
            self._digest_timer.cancel()
        if self._idle:
            self._idle.cancel()
        self.control.close()
        await self._server.stop(grace)

    # Unary calls.

    async def _work(self, call: Callable[[], T]) -> T:
        async with self._busy:
            return await asyncio.get_running_loop().run_in_executor(self._workers, call)

    async def _answer(self, context: Any, call: Callable[[], T]) -> T:
        try:
            return await self._work(call)
        except StatusError as error:
            await _abort(context, error)
            raise

    async def _write(self, request: bytes, context: Any) -> bytes:
        await self._answer(context, partial(self.endpoint.write, request, trusted=False))
        self._scan_idle()
        return b""

    async def _read(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        parts, error = await self._answer(context, partial(self.endpoint.read_parts, request, trusted=False))
        for part in parts:
            yield part
        if error:
            await _abort(context, error)

    async def _set_pipeline(self, request: bytes, context: Any) -> bytes:
        await self._answer(context, partial(self.endpoint.set_pipeline, request, trusted=False))
        self._scan_idle()
        return b""

    async def _get_pipeline(self, request: bytes, context: Any) -> bytes:
        return await self._answer(context, partial(self.endpoint.get_pipeline, request, trusted=False))

    async def _capabilities(self, request: bytes, context: Any) -> bytes:
        try:
            return bytes(self.endpoint.capabilities(request).SerializeToString())
        except StatusError as error:
            await _abort(context, error)
            raise

    # Streams.

    async def _stream_channel(self, requests: AsyncIterator[bytes], context: Any) -> None:
        stream = _Stream()
        sender = asyncio.ensure_future(_send(stream, context))
        try:
            async for request in requests:
                self._receive(stream, request)
        except StatusError as error:
            sender.cancel()
            await _abort(context, error)
        finally:
            sender.cancel()
            self._notify(self.endpoint.arbiter.close(stream))

    def _receive(self, stream: _Stream, request: bytes) -> None:
        try:
            message = p4runtime_pb2.StreamMessageRequest.FromString(request)
        except DecodeError as error:
            raise StatusError(Code.INVALID_ARGUMENT, f"not a StreamMessageRequest: {error}") from error
        kind = message.WhichOneof("update")
        if kind == "arbitration":
            self._notify(self.endpoint.arbiter.update(stream, message.arbitration))
            return
        response = p4runtime_pb2.StreamMessageResponse()
        try:
            if not self.endpoint.arbiter.is_primary(stream):
                raise StatusError(Code.PERMISSION_DENIED, "only the primary controller may do this")
            if kind == "packet":
                self.endpoint.packet_out(message.packet)
            elif kind == "digest_ack":
                self.endpoint.acknowledge(message.digest_ack)
            else:
                raise StatusError(Code.UNIMPLEMENTED, "no further stream messages are known")
        except StatusError as error:
            response.error.canonical_code = int(error.code)
            response.error.message = error.message
            response.error.space = "softswitch"
            match kind:
                case "packet":
                    response.error.packet_out.packet_out.CopyFrom(message.packet)
                case "digest_ack":
                    response.error.digest_list_ack.digest_list_ack.CopyFrom(message.digest_ack)
                case _:
                    response.error.other.SetInParent()
            stream.offer(response.SerializeToString())

    @staticmethod
    def _notify(notices: Iterable[tuple[Any, p4runtime_pb2.StreamMessageResponse]]) -> None:
        for stream, notice in notices:
            stream.send(notice.SerializeToString())

    # What the switch has to say.

    def _readable(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._event_fd, 8)
        self._publish(self.endpoint.poll())
        deadline = self.endpoint.digest_deadline_ns()
        if self._digest_timer:
            self._digest_timer.cancel()
            self._digest_timer = None
        if deadline is not None:
            delay = max(0.0, (deadline - self.endpoint.switch.now) / 1e9)
            self._digest_timer = asyncio.get_running_loop().call_later(delay + 0.0005, self._readable)

    def _publish(self, messages: list[bytes]) -> None:
        if not messages:
            return
        streams = self.endpoint.arbiter.primaries()
        for message in messages:
            for stream in streams:
                if isinstance(stream, _Stream) and not stream.offer(message):
                    self.dropped_messages += 1

    def _scan_idle(self) -> None:
        """Look for idle entries from time to time, as long as some have a timeout."""
        if self._idle is None or self._idle.done():
            self._idle = asyncio.ensure_future(self._scan())

    async def _scan(self) -> None:
        while await self._work(lambda: self.endpoint.has_idle_entries):
            self._publish(await self._work(self.endpoint.idle))
            await asyncio.sleep(IDLE_SCAN_S)


async def _send(stream: _Stream, context: Any) -> None:
    while True:
        await context.write(await stream.queue.get())


async def _abort(context: Any, error: StatusError) -> None:
    trailing = (("grpc-status-details-bin", error.details),) if error.details else ()
    await context.abort(_CODES[int(error.code)], error.message, trailing_metadata=trailing)


def _credentials(tls: TlsSettings) -> Any:
    """Read the server's files; raises SettingsError for what is no certificate, no key, or no pair."""
    try:  # gRPC says no more than that it cannot listen
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key)
    except ssl.SSLError as error:
        reason = "they do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else "no PEM"
        raise SettingsError(f"certificate {tls.certificate}, key {tls.key}: {reason}") from error
    except OSError as error:
        raise SettingsError(f"certificate {tls.certificate}, key {tls.key}: {error.strerror}") from error
    if tls.authority:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(tls.authority)
        except (ssl.SSLError, OSError) as error:
            reason = "no PEM certificate" if isinstance(error, ssl.SSLError) else str(error.strerror)
            raise SettingsError(f"authority {tls.authority}: {reason}") from error
    elif tls.client_must_prove:
        raise SettingsError("clients must prove themselves, but no authority is named whose certificates count")
    return grpc.ssl_server_credentials(
        [(Path(tls.key).read_bytes(), Path(tls.certificate).read_bytes())],
        root_certificates=Path(tls.authority).read_bytes() if tls.authority else None,
        require_client_auth=tls.client_must_prove,
    )
