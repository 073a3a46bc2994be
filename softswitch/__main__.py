# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`python -m softswitch`: run one switch as `simple_switch_grpc` is run, or a whole fabric of them.

Every flag of simple_switch_grpc is known: what has no meaning here is accepted with a notice.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from softswitch.errors import SettingsError, SwitchError

FAILURE, USAGE = 1, 2
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_IGNORED_FLAGS = ("--log-flush", "--debugger", "--restore-state", "--disable-swap")
_IGNORED_VALUES = (
    "--thrift-port", "--nanolog", "--notifications-addr", "--debugger-addr", "--dump-packet-data", "--max-port-count",
    "--log-file-max-size", "--log-file-max-files", "--packet-in", "--use-files", "--dp-grpc-server-addr",
    "--max-mc-groups", "--max-l1-entries", "--max-l2-entries",
)  # fmt: skip
_LEVELS = {"trace": "DEBUG", "debug": "DEBUG", "info": "INFO", "warn": "WARNING", "error": "ERROR", "off": "CRITICAL"}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise SettingsError(message)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="softswitch", description="The embedded P4 switch.", allow_abbrev=False)
    parser.add_argument("program", nargs="?", help="what p4c-bm2-ss wrote (JSON); prog.p4info.txtpb beside it is found")
    parser.add_argument("-i", "--interface", action="append", default=[], metavar="PORT@INTERFACE")
    parser.add_argument("--device-id", type=int, default=None, metavar="N", help="of P4Runtime (default 1)")
    parser.add_argument("--no-p4", action="store_true", help="start without a program: a controller brings it")
    parser.add_argument("--p4info", metavar="FILE", help="P4Info in text format")
    parser.add_argument("--grpc-server-addr", default="0.0.0.0:9559", metavar="HOST:PORT")
    parser.add_argument("--grpc-server-ssl", action="store_true")
    parser.add_argument("--grpc-server-cacert", metavar="PEM")
    parser.add_argument("--grpc-server-cert", metavar="PEM")
    parser.add_argument("--grpc-server-key", metavar="PEM")
    parser.add_argument("--grpc-server-with-client-auth", action="store_true")
    parser.add_argument("--pcap", nargs="?", const=".", metavar="DIRECTORY", help="record each port to INTERFACE.pcap")
    parser.add_argument("--log-console", action="store_true", help="log to standard output")
    parser.add_argument("--log-file", metavar="FILE")
    parser.add_argument("-L", "--log-level", choices=sorted(_LEVELS), default="info")
    parser.add_argument("-v", "--version", action="store_true")
    own = parser.add_argument_group("beyond simple_switch_grpc")
    own.add_argument("--name", default=None, help="name in messages (default s<device id>)")
    own.add_argument("--port-rate", action="append", default=[], metavar="PORT=BITS", help="shaper, such as 1=100M")
    own.add_argument("--queue-depth", metavar="packets=N,bytes=N", help="limits of every queue")
    own.add_argument(
        "--depth-register", metavar="NAME=UNIT", help="a register that reads as live depth: packets, bytes/64"
    )
    own.add_argument("--state-file", metavar="FILE", help="pipeline and entries survive the process there")
    own.add_argument("--port-kind", choices=("auto", "xdp", "packet"), default="auto")
    own.add_argument("--fabric", metavar="JSON", help="run every switch of the file in this process")
    target = parser.add_argument_group("after --")
    target.add_argument("--cpu-port", type=int, metavar="N", help="port of packet-in and packet-out")
    target.add_argument("--drop-port", type=int, default=511, metavar="N")
    target.add_argument("--priority-queues", type=int, default=8, metavar="N")
    for flag in _IGNORED_FLAGS:
        parser.add_argument(flag, action="store_true", help=argparse.SUPPRESS)
    for flag in _IGNORED_VALUES:
        parser.add_argument(flag, help=argparse.SUPPRESS)
    return parser


def _number(text: str, what: str) -> int:
    """Read a number with a unit of k, M or G."""
    digits = text.rstrip("kKmMgG")
    unit = _UNITS.get(text[len(digits) :].lower())
    if not digits.isdecimal() or unit is None:
        raise SettingsError(f"{what}: {text!r} is no number (100, 10k, 100M, 1G)")
    return int(digits) * unit


def _pairs(items: Sequence[str], separator: str, what: str) -> list[tuple[str, str]]:
    pairs = []
    for item in items:
        left, found, right = item.partition(separator)
        if not (left and found and right):
            raise SettingsError(f"{what}: {item!r} is not of the form LEFT{separator}RIGHT")
        pairs.append((left, right))
    return pairs


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """Read the command line; returns the options and notices; raises SettingsError."""
    options = _parser().parse_args([each for each in arguments if each != "--"])
    ignored = [flag for flag in (*_IGNORED_FLAGS, *_IGNORED_VALUES) if getattr(options, flag[2:].replace("-", "_"))]
    return options, [f"{flag} has no meaning here and is ignored" for flag in ignored]


def settings_of(options: argparse.Namespace) -> list[object]:
    """Return what the options describe, a SwitchSettings each; raises SettingsError."""
    from softswitch import settings

    if options.fabric:
        if options.program or options.interface or options.no_p4:
            raise SettingsError("--fabric says everything: no program, interface or --no-p4 beside it")
        return list(settings.load_fabric(Path(options.fabric)))
    if bool(options.program) == options.no_p4:
        raise SettingsError("give a program, or --no-p4, not both" if options.program else "give a program or --no-p4")
    rates = {
        _number(port, "--port-rate"): _number(rate, "--port-rate")
        for port, rate in _pairs(options.port_rate, "=", "--port-rate")
    }
    limits = dict(_pairs(options.queue_depth.split(","), "=", "--queue-depth")) if options.queue_depth else {}
    if not set(limits) <= {"packets", "bytes"}:
        raise SettingsError("--queue-depth: packets=N,bytes=N")
    depths = {name: _number(value, "--queue-depth") for name, value in limits.items()}
    queue = settings.QueueSettings(**depths) if depths else None
    ports = tuple(
        settings.PortSettings(number, interface, rates.get(number, 0), queue, options.port_kind)
        for number, interface in ((_number(left, "-i"), right) for left, right in _pairs(options.interface, "@", "-i"))
    )
    unknown = set(rates) - {port.port for port in ports}
    if unknown:
        raise SettingsError(f"--port-rate: there is no port {min(unknown)}")
    register = None
    if options.depth_register:
        ((name, unit),) = _pairs([options.depth_register], "=", "--depth-register")
        register = settings.DepthRegister(name, unit)
    tls = None
    if options.grpc_server_ssl:
        if not (options.grpc_server_cert and options.grpc_server_key):
            raise SettingsError("--grpc-server-ssl needs --grpc-server-cert and --grpc-server-key")
        tls = settings.TlsSettings(
            options.grpc_server_cert,
            options.grpc_server_key,
            options.grpc_server_cacert,
            options.grpc_server_with_client_auth,
        )
    device_id = options.device_id if options.device_id is not None else 1
    switch = settings.SwitchSettings(
        name=options.name or f"s{device_id}",
        device_id=device_id,
        grpc=options.grpc_server_addr,
        ports=ports,
        cpu_port=options.cpu_port,
        drop_port=options.drop_port,
        queues=options.priority_queues,
        program=options.program,
        p4info=options.p4info,
        depth_register=register,
        pcap=options.pcap,
        tls=tls,
        state_file=options.state_file,
    )
    settings.check([switch], "options")
    return [switch]


def _log(options: argparse.Namespace) -> None:
    try:
        where: logging.Handler = (
            logging.FileHandler(options.log_file)
            if options.log_file
            else logging.StreamHandler(sys.stdout if options.log_console else sys.stderr)
        )
    except OSError as error:
        raise SettingsError(f"--log-file: {options.log_file}: {error.strerror}") from error
    where.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    quiet = not options.log_console and not options.log_file
    logging.getLogger("softswitch").addHandler(where)
    logging.getLogger("softswitch").setLevel("WARNING" if quiet else _LEVELS[options.log_level])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0, 1 for a failure, 2 for wrong usage."""
    try:
        options, notices = parse(sys.argv[1:] if arguments is None else arguments)
        if options.version:
            from importlib.metadata import version

            print(f"softswitch {version('gradlane')}")
            return 0
        _log(options)
        switches = settings_of(options)
        for notice in notices:
            print(f"softswitch: {notice}", file=sys.stderr)
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what fails is said once, by us
        from softswitch.fabric import serve

        asyncio.run(serve(switches, lambda _: print("ready", flush=True)))  # type: ignore[arg-type]
    except SettingsError as error:
        print(f"softswitch: {error}", file=sys.stderr)
        return USAGE
    except SwitchError as error:
        print(f"softswitch: {error}", file=sys.stderr)
        return FAILURE
    return 0


if __name__ == "__main__":
    sys.exit(main())
