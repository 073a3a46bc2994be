# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The same case on BMv2: simple_switch_grpc, whose frames come and go over a gRPC stream, so that no root is needed."""

from __future__ import annotations

import contextlib
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
from p4.v1 import p4runtime_pb2 as p4rt
from p4.v1 import p4runtime_pb2_grpc

from softswitch.p4runtime import wire
from tests.differential.embedded import counts
from tests.differential.outcome import Outcome, Sent
from tests.differential.program import Program
from tests.differential.templates import Case
from tests.pipeline.targets import _end, _free_port

PATIENCE_S = 10.0
SURPLUS_S = 0.3  # how long a frame that the embedded switch did not send is waited for, once, at the end


def missing() -> str | None:
    """Say why BMv2 cannot be asked."""
    for needed in ("simple_switch_grpc", "simple_switch_CLI"):
        if shutil.which(needed) is None:
            return f"{needed} is not on PATH"
    return None


class Bmv2:
    """A running simple_switch_grpc with a program and a case's entries."""

    def __init__(self, stack: contextlib.ExitStack, program: Program, case: Case) -> None:
        self.case = case
        self.arrived: queue.Queue[Sent] = queue.Queue()
        self.digests: queue.Queue[Any] = queue.Queue()
        self._packets: queue.Queue[bytes | None] = queue.Queue()
        self._requests: queue.Queue[Any] = queue.Queue()
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        address, data, self._thrift = (f"127.0.0.1:{_free_port()}", f"127.0.0.1:{_free_port()}", _free_port())
        log = stack.enter_context((folder / "log").open("w"))
        line = [
            "simple_switch_grpc", "--no-p4", "--device-id", "1", "--thrift-port", str(self._thrift), "-L", "off", "--",
            "--grpc-server-addr", address, "--dp-grpc-server-addr", data, "--priority-queues", "8",
        ]  # fmt: skip
        self._process = subprocess.Popen(line, stdout=log, stderr=log, cwd=folder)
        stack.callback(_end, self._process)
        channel = stack.enter_context(grpc.insecure_channel(address))
        grpc.channel_ready_future(channel).result(timeout=PATIENCE_S)
        self._stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
        stack.callback(self._requests.put, None)
        self._become_primary()
        pipeline = p4rt.SetForwardingPipelineConfigRequest(device_id=1)
        pipeline.election_id.low = 1
        pipeline.action = pipeline.VERIFY_AND_COMMIT
        pipeline.config.p4info.CopyFrom(program.info())
        pipeline.config.p4_device_config = program.json.read_bytes()
        self._stub.SetForwardingPipelineConfig(pipeline, timeout=PATIENCE_S)
        self._write()
        self._fill_value_sets()
        frames = stack.enter_context(grpc.insecure_channel(data))
        grpc.channel_ready_future(frames).result(timeout=PATIENCE_S)
        self._open_dataplane(stack, frames)

    def _become_primary(self) -> None:
        primary = threading.Event()

        def listen(stream: Any) -> None:
            with contextlib.suppress(grpc.RpcError):
                for message in stream:
                    if message.HasField("arbitration"):
                        primary.set()
                    if message.HasField("digest"):
                        self.digests.put(message.digest)
                        ack = p4rt.StreamMessageRequest()
                        ack.digest_ack.digest_id, ack.digest_ack.list_id = (
                            message.digest.digest_id,
                            message.digest.list_id,
                        )
                        self._requests.put(ack)

        stream = self._stub.StreamChannel(iter(self._requests.get, None))
        threading.Thread(target=listen, args=(stream,), daemon=True).start()
        hello = p4rt.StreamMessageRequest()
        hello.arbitration.device_id, hello.arbitration.election_id.low = 1, 1
        self._requests.put(hello)
        assert primary.wait(PATIENCE_S), "no arbitration"

    def _write(self) -> None:
        for entity in self.case.entities:
            request = p4rt.WriteRequest(device_id=1)
            request.election_id.low = 1
            is_meter = entity.WhichOneof("entity") == "meter_entry"
            kind = p4rt.Update.MODIFY if is_meter else p4rt.Update.INSERT
            request.updates.add(type=kind).entity.CopyFrom(entity)
            try:
                self._stub.Write(request, timeout=PATIENCE_S)
            except grpc.RpcError as error:
                raise AssertionError(f"bmv2 refuses {entity}: {error.details()}") from error

    def _fill_value_sets(self) -> None:
        commands = [
            f"pvs_add {name} 0x{_joined(member):x}\n"
            for name, members in self.case.value_sets.items()
            for member in members
        ]
        if commands:
            line = ["simple_switch_CLI", "--thrift-port", str(self._thrift)]
            done = subprocess.run(
                line, input="".join(commands), text=True, capture_output=True, check=True, timeout=PATIENCE_S
            )
            assert "Error" not in done.stdout and "Invalid" not in done.stdout, done.stdout

    def _open_dataplane(self, stack: contextlib.ExitStack, channel: Any) -> None:
        open_stream = channel.stream_stream("/p4.bm.DataplaneInterface/PacketStream")
        stream = open_stream(iter(self._packets.get, None))

        def listen() -> None:
            with contextlib.suppress(grpc.RpcError):
                for message in stream:
                    fields = dict(wire.fields(message))
                    self.arrived.put((int(fields.get(3, 0)), bytes(fields.get(4, b""))))  # type: ignore[arg-type]

        threading.Thread(target=listen, daemon=True).start()
        stack.callback(stream.cancel)
        stack.callback(self._packets.put, None)

    def outcome(self, expected: list[list[Sent]]) -> Outcome:
        """Send all frames, each when as many have left as are expected of the one before; their first byte tells."""
        frames: list[list[Sent]] = [[] for _ in self.case.frames]
        patience = PATIENCE_S
        for place, ((port, frame), wanted) in enumerate(zip(self.case.frames, expected, strict=True)):
            request = [wire.number(1, place + 1), wire.number(2, 1), wire.number(3, port), wire.data(4, frame)]
            self._packets.put(b"".join(request))
            if not self._collect(frames, place, len(wanted), patience):
                patience = SURPLUS_S  # they differ: what is missing is not waited for again and again
        self._collect(frames, 0, 1 << 30, SURPLUS_S)
        outcome = Outcome(frames=[sorted(sent) for sent in frames])
        while not self.digests.empty():
            outcome.digests += [data.SerializeToString().hex() for data in self.digests.get().data]
        outcome.counts = counts(
            self.case,
            lambda request: [e for part in self._stub.Read(request, timeout=PATIENCE_S) for e in part.entities],
        )
        return outcome

    def _collect(self, frames: list[list[Sent]], place: int, count: int, patience: float) -> bool:
        """Sort what arrives to its frame until one has `count`; False when that takes too long."""
        deadline = time.monotonic() + patience
        while len(frames[place]) < count:
            try:
                port, frame = self.arrived.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                assert self._process.poll() is None, f"bmv2 has died: {self._process.poll()}"
                return False
            frames[frame[0]].append((port, frame))
        return True


def _joined(member: tuple[tuple[int, int], ...]) -> int:
    value = 0
    for field, bits in member:
        value = value << bits | field
    return value


@contextlib.contextmanager
def bmv2(program: Program, case: Case) -> Iterator[Bmv2]:
    """Run a BMv2 of its own for a case."""
    with contextlib.ExitStack() as stack:
        yield Bmv2(stack, program, case)
