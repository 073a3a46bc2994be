# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""BMv2 as a device: simple_switch_grpc with the same program and the same entries."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import grpc
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from tests.benchmarks.programs import Compiled, Program, message_of

ADDRESS = "127.0.0.1:50051"  # in the device's own network namespace
CPU_PORT = 510
PATIENCE = 30


@contextlib.contextmanager
def bmv2(program: Program, a: str, b: str) -> Iterator[int]:
    """Run BMv2 between two interfaces, and give its process id when its tables are written."""
    assert isinstance(program, Compiled)
    line = [
        "simple_switch_grpc", "--no-p4", "--device-id", "1", "-i", f"1@{a}", "-i", f"2@{b}", "--",
        "--grpc-server-addr", ADDRESS, "--cpu-port", str(CPU_PORT), "--priority-queues", "8",
    ]  # fmt: skip
    everywhere = set(range(os.cpu_count() or 1))
    with subprocess.Popen(line, stdout=sys.stderr, preexec_fn=lambda: os.sched_setaffinity(0, everywhere)) as process:
        try:
            with grpc.insecure_channel(ADDRESS) as channel:
                grpc.channel_ready_future(channel).result(timeout=PATIENCE)
                _install(channel, program)
                yield process.pid
        finally:
            process.terminate()


def _install(channel: grpc.Channel, program: Compiled) -> None:
    stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
    requests: queue.Queue[Any] = queue.Queue()
    arbitration = p4runtime_pb2.StreamMessageRequest()
    arbitration.arbitration.device_id = 1
    arbitration.arbitration.election_id.low = 1
    requests.put(arbitration)
    stream = stub.StreamChannel(iter(requests.get, None))
    next(stream)
    threading.Thread(target=_drain, args=(stream,), daemon=True).start()
    pipeline = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=1)
    pipeline.election_id.low = 1
    pipeline.action = pipeline.VERIFY_AND_COMMIT
    pipeline.config.p4info.CopyFrom(message_of(program.p4info))
    pipeline.config.p4_device_config = program.json.read_bytes()
    stub.SetForwardingPipelineConfig(pipeline, timeout=PATIENCE)
    write = channel.unary_unary("/p4.v1.P4Runtime/Write")
    for request in program.write_requests():
        write(request, timeout=PATIENCE)


def _drain(stream: Any) -> None:
    """Read a stream until its channel is closed."""
    with contextlib.suppress(grpc.RpcError):
        for _ in stream:
            pass
