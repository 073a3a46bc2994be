# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The targets that the pipeline tests run on, behind one face: write a policy, send frames, read counters."""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import grpc
from google.protobuf import text_format
from p4.config.v1 import p4info_pb2
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from tests.pipeline.reference import CPU_PORT, Exact, Lpm, Match, Policy, Range, Row, Ternary

COMPILED = Path(__file__).resolve().parents[2] / "p4src/compiled"
PROGRAM, P4INFO = COMPILED / "gradlane.json", COMPILED / "gradlane.p4info.txtpb"
PORTS = (1, 2, 3, 4)
CPU_COPY_SESSION = 510


class Target(Protocol):
    """A switch with the gradlane program in it and nothing in its tables."""

    name: str
    live_depth: bool  # queue_depth is the traffic manager's own

    def carries(self, frame: bytes) -> bool:
        """Say whether the target's ports can bring a frame in at all."""

    def write(self, policy: Policy) -> None:
        """Install a policy's rows and groups into empty tables."""

    def clear(self) -> None:
        """Empty the tables."""

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        """Give a frame to a port (the CPU port: as packet-out) and return all that leaves, packet-in included."""

    def counters(self, name: str) -> dict[int, int]:
        """Read a counter array: packets by index, where they are not 0."""

    def row_counts(self, row: Row) -> int:
        """Read the packets that a row with a direct counter has decided."""


class P4Info:
    """The program's P4Info, asked by alias."""

    def __init__(self, path: Path = P4INFO) -> None:
        self.message = text_format.Parse(path.read_text(), p4info_pb2.P4Info())
        self.tables = {t.preamble.alias: t for t in self.message.tables}
        self.actions = {a.preamble.alias: a for a in self.message.actions}
        self.counters = {c.preamble.alias: c for c in self.message.counters}
        self.profile = next(p for p in self.message.action_profiles if p.preamble.alias == "path_selector")

    def entities(self, policy: Policy) -> list[Any]:
        """Turn a policy into P4Runtime entities, in an order in which they can be inserted."""
        entities = []
        if any(row.action == "copy_to_cpu" for row in policy.rows):
            session = p4runtime_pb2.CloneSessionEntry(session_id=CPU_COPY_SESSION)
            session.replicas.add(egress_port=CPU_PORT, instance=1)
            engine = p4runtime_pb2.PacketReplicationEngineEntry(clone_session_entry=session)
            entities.append(p4runtime_pb2.Entity(packet_replication_engine_entry=engine))
        entities += self._groups(policy)
        entities += [p4runtime_pb2.Entity(table_entry=self.row(row)) for row in policy.rows]
        return entities

    def _groups(self, policy: Policy) -> Iterator[Any]:
        profile = self.profile.preamble.id
        member_id = 0
        for group, members in policy.groups.items():
            entry = p4runtime_pb2.ActionProfileGroup(
                action_profile_id=profile, group_id=group, max_size=sum(m.weight for m in members)
            )
            for member in members:
                member_id += 1
                one = p4runtime_pb2.ActionProfileMember(action_profile_id=profile, member_id=member_id)
                one.action.CopyFrom(self.action("set_path", {"next_hop": member.next_hop, "port": member.port}))
                yield p4runtime_pb2.Entity(action_profile_member=one)
                entry.members.add(member_id=member_id, weight=member.weight, watch_port=_number(member.port))
            yield p4runtime_pb2.Entity(action_profile_group=entry)
        for table in ("path_group", "path_group_alternative"):
            for group in policy.groups:
                row = self.row(Row(table, {"group": Exact(group)}, "set_path"))
                row.action.Clear()
                row.action.action_profile_group_id = group
                yield p4runtime_pb2.Entity(table_entry=row)

    def row(self, row: Row) -> Any:
        """Turn a row into a TableEntry."""
        table = self.tables[row.table]
        entry = p4runtime_pb2.TableEntry(table_id=table.preamble.id, priority=row.priority)
        for info in table.match_fields:
            if info.name in row.match:
                _put_match(entry, info, row.match[info.name])
        assert row.match.keys() <= {info.name for info in table.match_fields}, row
        if row.parameters or row.table not in ("path_group", "path_group_alternative"):
            entry.action.action.CopyFrom(self.action(row.action, row.parameters))
        return entry

    def key(self, row: Row) -> Any:
        """Turn a row into a TableEntry that names it: its match and priority."""
        entry = self.row(row)
        entry.ClearField("action")
        return entry

    def action(self, name: str, parameters: dict[str, int]) -> Any:
        """Turn an action's name and parameters into an Action."""
        info = self.actions[name]
        action = p4runtime_pb2.Action(action_id=info.preamble.id)
        assert parameters.keys() == {param.name for param in info.params}, (name, parameters)
        for param in info.params:
            action.params.add(param_id=param.id, value=_number(parameters[param.name]))
        return action


def _put_match(entry: Any, info: Any, match: Match) -> None:
    full = (1 << info.bitwidth) - 1
    match match:
        case Lpm(length=0) | Ternary(mask=0):
            return
        case Range(low=0, high=high) if high == full:
            return
    field = entry.match.add(field_id=info.id)
    match match:
        case Exact(value=value):
            field.exact.value = _number(value)
        case Lpm(value=value, length=length):
            field.lpm.value, field.lpm.prefix_len = _number(value), length
        case Ternary(value=value, mask=mask):
            field.ternary.value, field.ternary.mask = _number(value), _number(mask)
        case Range(low=low, high=high):
            field.range.low, field.range.high = _number(low), _number(high)


def _number(value: int) -> bytes:
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def _requests(entities: list[Any], kind: int) -> Iterator[Any]:
    for start in range(0, len(entities), 100):
        request = p4runtime_pb2.WriteRequest(device_id=1)
        request.election_id.low = 1
        for entity in entities[start : start + 100]:
            request.updates.add(type=kind).entity.CopyFrom(entity)
        yield request


class Softswitch:
    """The embedded switch, in this process: no root, no sockets, no time passes."""

    name = "softswitch"
    live_depth = True

    def __init__(self) -> None:
        from softswitch.switch import Switch

        self.info = P4Info()
        self.switch = Switch(name="s1", device_id=1)
        self.switch.load(PROGRAM, P4INFO)
        self.switch.set_cpu_port(CPU_PORT)
        self.switch.set_depth_register("queue_depth", "bytes/64")
        for port in PORTS:
            self.switch.add_port(port)
        self.switch.set_clock(1_000_000_000)
        self._written: list[Any] = []
        self._counted: dict[str, dict[int, int]] = {}

    def close(self) -> None:
        self.switch.close()

    def carries(self, frame: bytes) -> bool:
        return True

    def write(self, policy: Policy) -> None:
        self._written = self.info.entities(policy)
        self._update(self._written, p4runtime_pb2.Update.INSERT)

    def clear(self) -> None:
        self._update(self._written[::-1], p4runtime_pb2.Update.DELETE)
        self._written = []

    def _update(self, entities: list[Any], kind: int) -> None:
        for request in _requests(entities, kind):
            self.switch.p4runtime.write(request)

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        self._counted.clear()
        if port == CPU_PORT:
            self.switch.packet_out(frame)
            self.switch.run()
            left = self.switch.take()
        else:
            left = self.switch.inject(port, frame)
        return left + [(CPU_PORT, one) for one in self.switch.packets_in()]

    def counters(self, name: str) -> dict[int, int]:
        if name not in self._counted:
            parts, error = self.switch.p4runtime.read_parts(_counter_request(self.info, name))
            assert error is None, error
            self._counted[name] = dict(entry for part in parts for entry in _counted(part))
        return self._counted[name]

    def row_counts(self, row: Row) -> int:
        request = p4runtime_pb2.ReadRequest(device_id=1)
        request.entities.add().direct_counter_entry.table_entry.CopyFrom(self.info.key(row))
        (entity,) = self.switch.p4runtime.read(request).entities
        return int(entity.direct_counter_entry.data.packet_count)


_INSTANCES = itertools.count()


class Bmv2:
    """simple_switch_grpc on veth pairs: needs root. Frames are sent on a port's far end and read from it.

    A frame has been dealt with when fences sent behind it have come back: an ARP request that the switch answers on
    the same port (ingress has seen the frame), then a packet-out to every port in the lowest class.
    """

    name = "bmv2"
    live_depth = False
    FENCE_ADDRESS = 0x7F00FE0C
    FENCE_MAC = 0x0200FE0C0000

    def __init__(self) -> None:
        self.info = P4Info()
        self.fences: list[tuple[int, bytes]] = []
        self.rows = (Row("arp_reply", {"target": Exact(self.FENCE_ADDRESS)}, "reply", {"mac": self.FENCE_MAC}),)
        self._written: list[Any] = []
        self._serial = 0
        self._counted: dict[str, dict[int, int]] = {}
        with contextlib.ExitStack() as stack:
            self._start(stack)
            self._owned = stack.pop_all()

    def close(self) -> None:
        self._owned.close()

    def _start(self, stack: contextlib.ExitStack) -> None:
        prefix = f"gp{os.getpid() % 100000}{next(_INSTANCES)}"
        interfaces = []
        self._sockets = {}
        for port in PORTS:
            near, far = f"{prefix}n{port}", f"{prefix}f{port}"
            _ip("link", "add", near, "type", "veth", "peer", "name", far)
            stack.callback(_ip, "link", "delete", near)
            for one in (near, far):
                Path(f"/proc/sys/net/ipv6/conf/{one}/disable_ipv6").write_text("1")
                _ip("link", "set", one, "mtu", "9000", "up")
            interfaces += ["-i", f"{port}@{near}"]
            self._sockets[port] = stack.enter_context(_packet_socket(far))

        folder = stack.enter_context(tempfile.TemporaryDirectory())
        address, self._thrift = f"127.0.0.1:{_free_port()}", _free_port()
        log = stack.enter_context((Path(folder) / "log").open("w"))
        process = subprocess.Popen(
            ["simple_switch_grpc", "--no-p4", "--device-id", "1", "--thrift-port", str(self._thrift), *interfaces, "--",
             "--grpc-server-addr", address, "--cpu-port", str(CPU_PORT), "--priority-queues", "8"],
            stdout=log, stderr=log, cwd=folder,
        )  # fmt: skip
        stack.callback(_end, process)
        channel = stack.enter_context(grpc.insecure_channel(address))
        grpc.channel_ready_future(channel).result(timeout=20)
        self._stub = p4runtime_pb2_grpc.P4RuntimeStub(channel)
        self._read = channel.unary_stream(
            "/p4.v1.P4Runtime/Read", request_serializer=p4runtime_pb2.ReadRequest.SerializeToString
        )
        self._stream = _Stream(self._stub)
        stack.callback(self._stream.close)

        pipeline = p4runtime_pb2.SetForwardingPipelineConfigRequest(device_id=1)
        pipeline.election_id.low = 1
        pipeline.action = pipeline.VERIFY_AND_COMMIT
        pipeline.config.p4info.CopyFrom(self.info.message)
        pipeline.config.p4_device_config = PROGRAM.read_bytes()
        self._stub.SetForwardingPipelineConfig(pipeline, timeout=30)

    def carries(self, frame: bytes) -> bool:
        """A veth pair carries no frame without an Ethernet header, and Linux none whose tag ends early."""
        return len(frame) >= (20 if frame[12:14] == b"\x81\x00" else 14)

    def write(self, policy: Policy) -> None:
        self._written = self.info.entities(policy.with_rows(*self.rows))
        self._update(self._written, p4runtime_pb2.Update.INSERT)

    def clear(self) -> None:
        self._update(self._written[::-1], p4runtime_pb2.Update.DELETE)
        self._written = []

    def _update(self, entities: list[Any], kind: int) -> None:
        for request in _requests(entities, kind):
            self._stub.Write(request, timeout=30)

    def send(self, port: int, frame: bytes) -> list[tuple[int, bytes]]:
        got: list[tuple[int, bytes]] = []
        self._give(port, frame)
        fence_port = PORTS[0] if port == CPU_PORT else port
        if port != CPU_PORT:
            self._fence(fence_port, fence_port, self._request(), got)
        for out in (*PORTS, CPU_PORT):
            self._fence(CPU_PORT, out, self._packet_out(out), got)
        return got

    def send_together(self, port: int, frames: list[bytes]) -> None:
        """Send frames one after the other and wait until ingress has dealt with them; what leaves is not read.

        Its receive ring holds about 32 frames and counts no loss, hence a fence every 8.
        """
        for start in range(0, len(frames), 8):
            for frame in frames[start : start + 8]:
                self._give(port, frame)
            self._fence(port, port, self._request(), [])

    def cannot_slow_down(self) -> str | None:
        """Say why `slow_down` does not work here."""
        done = subprocess.run(["simple_switch_CLI", "--help"], capture_output=True, check=False)
        return "bmv2: simple_switch_CLI does not run" if done.returncode else None

    def slow_down(self, port: int) -> None:
        """Let every queue of a port send 1 packet a second."""
        line = ["simple_switch_CLI", "--thrift-port", str(self._thrift)]
        subprocess.run(line, input=f"set_queue_rate 1 {port}\n", text=True, capture_output=True, check=True, timeout=20)

    def _fence(self, port: int, out: int, frame: bytes, got: list[tuple[int, bytes]]) -> None:
        self.fences.append((port, frame))
        self._give(port, frame)
        mark = self._serial.to_bytes(4, "big")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for at, arrived in self._arrivals(deadline):
                if mark in arrived and self.FENCE_MAC.to_bytes(6, "big") in arrived:
                    if at == out:
                        return
                else:
                    got.append((at, arrived))
        raise AssertionError(f"bmv2: a fence for port {out} did not come back")

    def _request(self) -> bytes:
        from tests.pipeline.packets import arp_request

        self._serial += 1
        request = arp_request(self.FENCE_ADDRESS)
        return request[:-18] + self._serial.to_bytes(4, "big") + request[-14:]

    def _packet_out(self, port: int) -> bytes:
        from tests.pipeline.packets import packet_out

        self._serial += 1
        frame = bytes(6) + self.FENCE_MAC.to_bytes(6, "big") + b"\x88\xb5" + self._serial.to_bytes(4, "big")
        return packet_out(frame, port)

    def _give(self, port: int, frame: bytes) -> None:
        self._counted.clear()
        if port == CPU_PORT:
            self._stream.packet_out(frame, self.info)
        else:
            self._sockets[port].send(frame)

    def _arrivals(self, deadline: float) -> Iterator[tuple[int, bytes]]:
        ports = {one.fileno(): port for port, one in self._sockets.items()}
        ready, _, _ = select.select([*ports, self._stream.readable], [], [], max(0.0, deadline - time.monotonic()))
        for number in ready:
            if number == self._stream.readable:
                for frame in self._stream.packets_in(self.info):
                    yield CPU_PORT, frame
            else:
                yield ports[number], _receive(self._sockets[ports[number]])

    def counters(self, name: str) -> dict[int, int]:
        if name not in self._counted:
            parts = self._read(_counter_request(self.info, name), timeout=60)
            self._counted[name] = dict(entry for part in parts for entry in _counted(part))
        return self._counted[name]

    def row_counts(self, row: Row) -> int:
        request = p4runtime_pb2.ReadRequest(device_id=1)
        request.entities.add().direct_counter_entry.table_entry.CopyFrom(self.info.key(row))
        (part,) = self._read(request, timeout=10)
        (entity,) = p4runtime_pb2.ReadResponse.FromString(part).entities
        return int(entity.direct_counter_entry.data.packet_count)


def _counter_request(info: P4Info, name: str) -> Any:
    request = p4runtime_pb2.ReadRequest(device_id=1)
    request.entities.add().counter_entry.counter_id = info.counters[name].preamble.id
    return request


def _counted(response: bytes) -> Iterator[tuple[int, int]]:
    """Read the counter entries of a ReadResponse that are not 0: (index, packets).

    An array has thousands, and to parse each would take seconds: one that is 0 ends in an empty `data`.
    """
    at = 0
    while at < len(response):
        at += 1  # the tag of `entities`
        length = shift = 0
        while True:
            byte = response[at]
            at, length, shift = at + 1, length | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        part = response[at : at + length]
        at += length
        if not part.endswith(b"\x1a\x00"):
            entry = p4runtime_pb2.Entity.FromString(part).counter_entry
            if entry.data.packet_count:
                yield entry.index.index, entry.data.packet_count


class _Stream:
    """A P4Runtime stream that is its switch's primary controller, with a pipe that tells of packets in."""

    def __init__(self, stub: Any) -> None:
        import queue
        import threading

        self._out: queue.Queue[Any] = queue.Queue()
        self._in: queue.Queue[Any] = queue.Queue()
        self.readable, self._wake = os.pipe()
        primary = threading.Event()
        self._call = stub.StreamChannel(iter(self._out.get, None))

        def read() -> None:
            with contextlib.suppress(grpc.RpcError):
                for message in self._call:
                    if message.HasField("arbitration"):
                        primary.set()
                    if message.HasField("packet"):
                        self._in.put(message.packet)
                        os.write(self._wake, b"\0")

        self._reader = threading.Thread(target=read, daemon=True)
        self._reader.start()
        arbitration = p4runtime_pb2.StreamMessageRequest()
        arbitration.arbitration.device_id = 1
        arbitration.arbitration.election_id.low = 1
        self._out.put(arbitration)
        assert primary.wait(10), "no arbitration"

    def close(self) -> None:
        self._out.put(None)
        self._call.cancel()
        self._reader.join(10)
        os.close(self.readable)
        os.close(self._wake)

    def packet_out(self, frame: bytes, info: P4Info) -> None:
        word = int.from_bytes(frame[:2], "big")
        values = {"egress_port": word >> 7, "class": word >> 4 & 7, "pad": word & 15}
        message = p4runtime_pb2.StreamMessageRequest()
        message.packet.payload = frame[2:]
        for field in _controller_header(info, "packet_out"):
            message.packet.metadata.add(metadata_id=field.id, value=_number(values[field.name]))
        self._out.put(message)

    def packets_in(self, info: P4Info) -> Iterator[bytes]:
        os.read(self.readable, 1)
        packet = self._in.get_nowait()
        names = {field.id: field.name for field in _controller_header(info, "packet_in")}
        values = {names[m.metadata_id]: int.from_bytes(m.value, "big") for m in packet.metadata}
        yield (values["ingress_port"] << 7 | values["reason"]).to_bytes(2, "big") + packet.payload


def _controller_header(info: P4Info, name: str) -> Any:
    return next(h for h in info.message.controller_packet_metadata if h.preamble.name == name).metadata


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


_PACKET_AUXDATA, _SOL_PACKET, _TAG_VALID, _IGNORE_OUTGOING = 8, 263, 0x10, 23


def _packet_socket(interface: str) -> socket.socket:
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    one.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
    one.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    one.bind((interface, 0))
    return one


def _receive(one: socket.socket) -> bytes:
    """Read a frame and put back the tag that the kernel has taken out."""
    frame, ancillary, _, _ = one.recvmsg(65536, 64)
    for level, kind, data in ancillary:
        if level == _SOL_PACKET and kind == _PACKET_AUXDATA:
            status = int.from_bytes(data[:4], "little")
            if status & _TAG_VALID:
                tag = int.from_bytes(data[16:18], "little")
                return frame[:12] + b"\x81\x00" + tag.to_bytes(2, "big") + frame[12:]
    return frame


def missing(name: str) -> str | None:
    """Say why a target cannot be tested here; None if it can."""
    if name != "bmv2":
        return None
    if shutil.which("simple_switch_grpc") is None:
        return "bmv2: simple_switch_grpc is not on PATH"
    if os.geteuid() != 0:
        return "bmv2: needs root, for veth pairs"
    return None


TARGETS: dict[str, Any] = {"softswitch": Softswitch, "bmv2": Bmv2}
