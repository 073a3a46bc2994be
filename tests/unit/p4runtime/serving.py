# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A switch process for tests, and a small P4Runtime client for it."""

from __future__ import annotations

import contextlib
import queue
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import grpc
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc

DEADLINE_S = 60.0
# Loopback only, a metadata limit for the details of large batches, and a channel of its own for every client.
OPTIONS = [
    ("grpc.enable_http_proxy", 0),
    ("grpc.max_metadata_size", 4 << 20),
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.use_local_subchannel_pool", 1),
]


def free_address() -> str:
    """Return a loopback address with a port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run `python -m softswitch` until the block ends; it must be ready first and end cleanly."""
    process = subprocess.Popen(
        [sys.executable, "-m", "softswitch", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if line != "ready\n":
            _, errors = process.communicate(timeout=DEADLINE_S)
            raise AssertionError(f"not ready: {line}{errors}")
        yield process
        if process.poll() is None:
            process.terminate()
            assert process.wait(DEADLINE_S) == 0
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


class Controller:
    """One P4Runtime client: a stream with an election id, and unary calls under it."""

    def __init__(self, address: str, election: int | None = 1, role: str = "", device: int = 1) -> None:
        self.channel = grpc.insecure_channel(address, options=OPTIONS)
        self.stub = p4runtime_pb2_grpc.P4RuntimeStub(self.channel)
        self.device, self.election, self.role = device, election, role
        self.received: queue.Queue[Any] = queue.Queue()
        self.status: queue.Queue[grpc.StatusCode] = queue.Queue()
        self._requests: queue.Queue[Any] = queue.Queue()
        self._stream = self.stub.StreamChannel(iter(self._requests.get, None))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            for message in self._stream:
                self.received.put(message)
        except grpc.RpcError as error:
            self.status.put(error.code())

    def __enter__(self) -> Controller:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._requests.put(None)
        self._stream.cancel()
        self.channel.close()
        self._reader.join(DEADLINE_S)

    def arbitrate(self) -> None:
        message = p4rt.StreamMessageRequest()
        message.arbitration.device_id = self.device
        if self.role:
            message.arbitration.role.name = self.role
        if self.election is not None:
            message.arbitration.election_id.low = self.election
        self._requests.put(message)

    def send(self, message: Any) -> None:
        self._requests.put(message)

    def next(self) -> Any:
        return self.received.get(timeout=DEADLINE_S)

    def become_primary(self) -> Controller:
        self.arbitrate()
        while self.next().arbitration.status.code != 0:
            pass
        return self

    def _signed(self, request: Any) -> Any:
        request.device_id = self.device
        request.role = self.role
        if self.election is not None:
            request.election_id.low = self.election
        return request

    def write(self, *updates: Any) -> None:
        self.stub.Write(self._signed(p4rt.WriteRequest(updates=updates)), timeout=DEADLINE_S)

    def read(self, *entities: Any) -> list[Any]:
        request = p4rt.ReadRequest(device_id=self.device, entities=entities)
        return [each for part in self.stub.Read(request, timeout=DEADLINE_S) for each in part.entities]

    def set_pipeline(
        self, config: Any, action: int = p4rt.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT
    ) -> None:
        request = p4rt.SetForwardingPipelineConfigRequest(action=action, config=config)
        self.stub.SetForwardingPipelineConfig(self._signed(request), timeout=DEADLINE_S)


def code_of(call: Any) -> grpc.StatusCode:
    """Return the status with which a call fails."""
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    raise AssertionError("the call did not fail")
