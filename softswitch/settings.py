# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a switch process is told at its start: dataclasses, and the JSON file of a fabric that they are read from."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from softswitch.errors import SettingsError, SwitchError
from softswitch.switch import depth_shift


@dataclass(frozen=True)
class QueueSettings:
    """Depth limits of every queue of a port; 0 is no limit."""

    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class PortSettings:
    """A port on an interface: rate in bit/s (0: unlimited), queue limits (None: the engine's), and its kind."""

    port: int
    interface: str
    rate: int = 0
    queue: QueueSettings | None = None
    kind: str = "auto"  # or xdp, or packet


@dataclass(frozen=True)
class DepthRegister:
    """A register that reads as the queues' live depth, and its unit: packets, bytes, or bytes/N."""

    name: str
    unit: str = "packets"


@dataclass(frozen=True)
class TlsSettings:
    """PEM files of the server's certificate and key, and of the authority that clients must be signed by, if any."""

    certificate: str
    key: str
    authority: str | None = None
    client_must_prove: bool = False


@dataclass(frozen=True)
class SwitchSettings:
    """One switch."""

    name: str
    device_id: int = 1
    grpc: str = "127.0.0.1:9559"
    ports: tuple[PortSettings, ...] = ()
    cpu_port: int | None = None
    drop_port: int = 511
    queues: int = 8
    program: str | None = None
    p4info: str | None = None
    depth_register: DepthRegister | None = None
    pcap: str | None = None  # a directory
    tls: TlsSettings | None = None
    state_file: str | None = None  # pipeline and entries survive the process there


def load_fabric(path: Path) -> list[SwitchSettings]:
    """Read a fabric file ({"switches": [...]}); raises SettingsError with the file and the field."""
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"{path}: not JSON: {error}") from error
    if (
        not isinstance(document, dict)
        or not isinstance(document.get("switches"), list)
        or set(document) != {"switches"}
    ):
        raise SettingsError(f'{path}: expected {{"switches": [...]}}')
    switches = [
        _read(SwitchSettings, each, f"{path}: switches[{place}]") for place, each in enumerate(document["switches"])
    ]
    check(switches, str(path))
    return switches


def check(switches: list[SwitchSettings], where: str) -> None:
    """Raise SettingsError when switches of one process contradict each other, or a value is out of range."""
    if not switches:
        raise SettingsError(f"{where}: no switches")
    for what, values in (
        ("name", [switch.name for switch in switches]),
        ("grpc address", [switch.grpc for switch in switches]),
        ("interface", [port.interface for switch in switches for port in switch.ports]),
        ("state file", [switch.state_file for switch in switches if switch.state_file]),
    ):
        twice = {value for value in values if values.count(value) > 1}
        if twice:
            raise SettingsError(f"{where}: {what} {min(twice)} is given twice")
    for switch in switches:
        numbers = [port.port for port in switch.ports]
        if len(set(numbers)) < len(numbers) or switch.cpu_port in numbers:
            raise SettingsError(f"{where}: {switch.name}: a port number is given twice")
        for number in [*numbers, *([] if switch.cpu_port is None else [switch.cpu_port])]:
            if not 0 <= number <= 510:
                raise SettingsError(f"{where}: {switch.name}: port {number} is not in 0..510")
        if not 1 <= switch.queues <= 8:
            raise SettingsError(f"{where}: {switch.name}: queues are 1 to 8, not {switch.queues}")
        if not 0 <= switch.drop_port <= 511:
            raise SettingsError(f"{where}: {switch.name}: drop port {switch.drop_port} is not in 0..511")
        _check_sizes(switch, where)
        if switch.depth_register:
            try:
                depth_shift(switch.depth_register.unit)
            except SwitchError as error:
                raise SettingsError(f"{where}: {switch.name}: {error}") from error


def _check_sizes(switch: SwitchSettings, where: str) -> None:
    """Raise SettingsError for a number that the engine has no room for, or an address that no port can have."""
    sizes = [("device id", switch.device_id, 64)]
    for port in switch.ports:
        queue = port.queue or QueueSettings()
        sizes += [
            (f"rate of port {port.port}", port.rate, 64),
            (f"packets in the queues of port {port.port}", queue.packets, 32),
            (f"bytes in the queues of port {port.port}", queue.bytes, 32),
        ]
    for what, number, bits in sizes:
        if not 0 <= number < 1 << bits:
            raise SettingsError(f"{where}: {switch.name}: {what}: {number} is not in 0..{(1 << bits) - 1}")
    _, colon, listens = switch.grpc.rpartition(":")
    if not switch.grpc.startswith("unix:") and not (colon and listens.isdecimal() and int(listens) < 1 << 16):
        raise SettingsError(f"{where}: {switch.name}: {switch.grpc!r} is no HOST:PORT with a port up to 65535")


def _read(kind: Any, value: object, place: str) -> Any:
    """Return a JSON value as the type; raises SettingsError with its place."""
    if isinstance(kind, UnionType):
        choices = [each for each in get_args(kind) if each is not type(None)]
        return None if value is None else _read(choices[0], value, place)
    if get_origin(kind) is tuple:
        if not isinstance(value, list):
            raise SettingsError(f"{place}: expected a list")
        return tuple(_read(get_args(kind)[0], each, f"{place}[{index}]") for index, each in enumerate(value))
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if not isinstance(value, Mapping):
            raise SettingsError(f"{place}: expected an object")
        hints, fields = get_type_hints(kind), {each.name: each for each in dataclasses.fields(kind)}
        for name in value:
            if name not in fields:
                raise SettingsError(f"{place}: unknown field {name!r} (known: {', '.join(fields)})")
        for name, each in fields.items():
            required = each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
            if required and name not in value:
                raise SettingsError(f"{place}: field {name!r} is missing")
        return kind(**{name: _read(hints[name], each, f"{place}.{name}") for name, each in value.items()})
    if (kind is int and isinstance(value, bool)) or not isinstance(value, kind):
        raise SettingsError(
            f"{place}: expected {'a number' if kind is int else kind.__name__}, not {json.dumps(value)}"
        )
    if isinstance(value, str) and "\0" in value:
        raise SettingsError(f"{place}: a zero byte stands in {json.dumps(value)}")
    return value
