# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`softswitchctl`: the control channel of a running switch from the command line."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import grpc
from google.protobuf.json_format import MessageToDict
from p4.v1 import p4runtime_pb2, p4runtime_pb2_grpc

from p4src.control import control_pb2 as messages
from p4src.control import telemetry

SERVICE = "/gradlane.softswitch.v1.Control"
TIMEOUT_S = 5.0
ROLE = "softswitchctl"


class Client:
    """A thin client of one switch's control channel."""

    def __init__(self, address: str, credentials: grpc.ChannelCredentials | None = None) -> None:
        self.address = address
        options = [("grpc.enable_http_proxy", 0)]
        self._channel = (
            grpc.secure_channel(address, credentials, options=options)
            if credentials
            else grpc.insecure_channel(address, options=options)
        )

    def call(self, method: str, **fields: Any) -> Any:
        """Make a unary call; fields that are None stay unset; raises grpc.RpcError."""
        request = getattr(messages, f"{method}Request")(
            **{name: each for name, each in fields.items() if each is not None}
        )
        return self._channel.unary_unary(
            f"{SERVICE}/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=getattr(messages, f"{method}Response").FromString,
        )(request, timeout=TIMEOUT_S)

    def watch_ports(self) -> Any:
        """Return the stream of port states."""
        return self._channel.unary_stream(
            f"{SERVICE}/WatchPorts",
            request_serializer=messages.WatchPortsRequest.SerializeToString,
            response_deserializer=messages.PortState.FromString,
        )(messages.WatchPortsRequest())

    def write_as_controller(self, kind: int, entity: p4runtime_pb2.Entity) -> None:
        """Write one P4Runtime entity, as the primary of a role of our own for as long as that takes."""
        device = self.call("GetSwitch").device_id
        hello = p4runtime_pb2.StreamMessageRequest()
        hello.arbitration.device_id, hello.arbitration.role.name = device, ROLE
        hello.arbitration.election_id.low = time.time_ns()  # rises from call to call
        request = p4runtime_pb2.WriteRequest(device_id=device, role=ROLE, election_id=hello.arbitration.election_id)
        request.updates.add(type=kind).entity.CopyFrom(entity)
        stub, done = p4runtime_pb2_grpc.P4RuntimeStub(self._channel), threading.Event()

        def stream() -> Iterator[p4runtime_pb2.StreamMessageRequest]:
            yield hello
            done.wait()

        answers = stub.StreamChannel(stream(), timeout=TIMEOUT_S)
        try:
            next(answers)
            stub.Write(request, timeout=TIMEOUT_S)
        finally:
            done.set()
            answers.cancel()

    def close(self) -> None:
        """Close the channel."""
        self._channel.close()


def _show(message: Any, as_json: bool) -> None:
    fields = MessageToDict(message, preserving_proto_field_name=True, including_default_value_fields=True)
    rows = next((value for value in fields.values() if isinstance(value, list)), None)
    if as_json:
        print(json.dumps(fields))
    elif rows is None:
        for name, value in fields.items():
            print(f"{name}: {value}")
    else:
        for row in rows:
            print("  ".join(f"{name}={value}" for name, value in row.items() if not isinstance(value, list)))


def _ports(client: Client, options: argparse.Namespace) -> None:
    _show(client.call("GetPorts"), options.json)


def _status(client: Client, options: argparse.Namespace) -> None:
    _show(client.call("GetSwitch"), options.json)


def _drops(client: Client, options: argparse.Namespace) -> None:
    _show(client.call("GetDrops"), options.json)


def _queues(client: Client, options: argparse.Namespace) -> None:
    """Depths and counts of every queue that saw a packet, from telemetry."""
    rows = []
    for port in telemetry.ports(client.call("Telemetry").ports):
        for queue in range(telemetry.CLASSES):
            counts = port["queues"][queue]
            if counts["enqueued_packets"] or counts["tail_drops_packets"]:
                names = [name for name in telemetry.QUEUE.names or () if name != "delay_histogram"]
                rows.append({"port": int(port["port"]), "queue": queue, **{name: int(counts[name]) for name in names}})
    if options.json:
        print(json.dumps(rows))
    else:
        for row in rows:
            print("  ".join(f"{name}={value}" for name, value in row.items()))


def _watch(client: Client, options: argparse.Namespace) -> None:
    for state in client.watch_ports():
        if options.json:
            print(json.dumps({"port": state.port, "up": state.up}), flush=True)
        else:
            print(f"port {state.port} is {'up' if state.up else 'down'}", flush=True)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"softswitchctl: {message}\n")


def _unsigned(bits: int) -> Callable[[str], int]:
    """Return what reads a number that a field of so many bits holds."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) >> bits:
            raise argparse.ArgumentTypeError(f"{text!r} is not in 0..{(1 << bits) - 1}")
        return int(text)

    return read


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="softswitchctl", description=__doc__)
    parser.add_argument("--switch", default="127.0.0.1:9559", metavar="HOST:PORT", help="the switch's gRPC address")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--cacert", metavar="PEM", help="TLS: the authority of the switch's certificate")
    parser.add_argument("--cert", metavar="PEM", help="TLS: our certificate, where the switch asks for one")
    parser.add_argument("--key", metavar="PEM", help="TLS: its key")
    verbs = parser.add_subparsers(dest="verb", required=True)

    def verb(name: str, text: str, run: Callable[[Client, argparse.Namespace], None]) -> argparse.ArgumentParser:
        added = verbs.add_parser(name, help=text)
        added.set_defaults(run=run)
        return added

    verb("status", "name, device and pipeline", _status)
    verb("ports", "ports with their state, rate and interface", _ports)
    verb("queues", "depth and counts of every queue", _queues)
    verb("drops", "packets that neither left nor wait, by cause", _drops)
    verb("watch", "port states, as they change", _watch)
    rate = verb(
        "rate", "shape a port", lambda c, o: c.call("SetPortRate", port=o.port, rate=o.rate, overhead=o.overhead)
    )
    rate.add_argument("port", type=_unsigned(32))
    rate.add_argument("rate", type=_unsigned(64), help="bit/s; 0: unlimited")
    rate.add_argument("--overhead", type=_unsigned(32), help="bytes charged beside each frame (24: as on a wire)")
    queue = verb(
        "queue",
        "limit queues",
        lambda c, o: c.call("SetQueue", port=o.port, queue=o.queue, packets=o.packets, bytes=o.bytes),
    )
    queue.add_argument("port", type=_unsigned(32))
    queue.add_argument("--queue", type=_unsigned(32), help="one class; default: all")
    queue.add_argument("--packets", type=_unsigned(32), default=0, help="0: unlimited")
    queue.add_argument("--bytes", type=_unsigned(32), default=0, help="0: unlimited")
    for name, up in (("up", True), ("down", False)):
        state = verb(name, f"take a port {name}", lambda c, o, up=up: c.call("SetPortUp", port=o.port, up=up))  # type: ignore[misc]
        state.add_argument("port", type=_unsigned(32))
    depth = verb(
        "depth",
        "let a register read as live depth",
        lambda c, o: c.call("SetDepthUnit", register=o.register, unit=o.unit),
    )
    depth.add_argument("register")
    depth.add_argument("unit", help="packets, bytes or bytes/N")
    capture = verb("capture", "record a port to a pcap file; without a file, end it", _capture)
    capture.add_argument("port", type=_unsigned(32))
    capture.add_argument("path", nargs="?")
    mirror = verb("mirror", "let a clone session copy to ports; without a port, remove it", _mirror)
    mirror.add_argument("session", type=_unsigned(32))
    mirror.add_argument("port", type=_unsigned(32), nargs="*")
    mirror.add_argument("--bytes", type=_unsigned(31), default=0, help="of each copy; 0: whole")
    verb("stop", "end the switch", lambda c, _: c.call("Stop"))
    return parser


def _mirror(client: Client, options: argparse.Namespace) -> None:
    """Write a clone session; one that is there already is replaced."""
    entity, update = p4runtime_pb2.Entity(), p4runtime_pb2.Update
    session = entity.packet_replication_engine_entry.clone_session_entry
    session.session_id, session.packet_length_bytes = options.session, options.bytes
    for port in options.port:
        session.replicas.add(egress_port=port, instance=1)
    if not options.port:
        client.write_as_controller(update.DELETE, entity)
        return
    try:
        client.write_as_controller(update.INSERT, entity)
    except grpc.RpcError:
        client.write_as_controller(update.MODIFY, entity)


def _capture(client: Client, options: argparse.Namespace) -> None:
    if options.path:
        client.call("StartCapture", port=options.port, path=options.path)
    else:
        client.call("StopCapture", port=options.port)


def _credentials(options: argparse.Namespace) -> grpc.ChannelCredentials | None:
    """Read the files of TLS, if any are named; raises OSError."""
    if not (options.cacert or options.cert or options.key):
        return None
    read = [Path(name).read_bytes() if name else None for name in (options.cacert, options.key, options.cert)]
    return grpc.ssl_channel_credentials(*read)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 for a failure, 2 for wrong usage."""
    options = _parser().parse_args(arguments)
    try:
        client = Client(options.switch, _credentials(options))
    except OSError as error:
        print(f"softswitchctl: {error.filename}: {error.strerror}", file=sys.stderr)
        return 2
    try:
        options.run(client, options)
    except grpc.RpcError as error:
        reason = "does not answer" if error.code() == grpc.StatusCode.UNAVAILABLE else error.details()
        print(f"softswitchctl: {options.switch}: {reason}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    finally:
        client.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
