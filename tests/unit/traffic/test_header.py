# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The gradient header is the same in P4, scapy, numpy and the Wireshark dissector."""

import io
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import PcapWriter

from traffic.header import Gradient
from traffic.wire import (
    GRADIENT_BYTES,
    GRADIENT_PORT,
    GRADIENT_VERSION,
    HEADER,
    IPV4_VALUES,
    IPV6_VALUES,
    DataType,
    GradientFlag,
    GradientType,
)

ROOT = Path(__file__).resolve().parents[3]
DISSECTOR = ROOT / "traffic" / "gradient.lua"
P4_SOURCES = sorted((ROOT / "p4src" / "shared").glob("*.p4"))


def layout_of_scapy() -> list[tuple[str, int]]:
    return [(field.name, getattr(field, "size", None) or field.sz * 8) for field in Gradient.fields_desc]


def layout_of_numpy() -> list[tuple[str, int]]:
    split: list[tuple[str, int]] = []
    for name in HEADER.names:
        bits = HEADER[name].itemsize * 8
        split += [("version", 4), ("type", 4)] if name == "version_type" else [(name, bits)]
    return split


def layout_of_dissector() -> list[tuple[str, int]]:
    """Fields in the order of the dissector's table, with the width that offsets and masks give them."""
    rows = re.findall(
        r'^\s*\{ "(\w+)", "\w+", (\d+), (\d+)(?:, mask = (0x[0-9a-f]+))?', DISSECTOR.read_text(), re.MULTILINE
    )
    layout, position = [], 0
    for name, offset, length, mask in rows:
        bits = bin(int(mask, 16)).count("1") if mask else int(length) * 8
        assert position // 8 == int(offset), f"{name} is out of place"
        layout.append((name, bits))
        position += bits
    return layout


def p4_source() -> str:
    if not P4_SOURCES:
        pytest.skip("p4src/shared has no P4 sources")
    return "\n".join(path.read_text() for path in P4_SOURCES)


def widths_of_types(source: str) -> dict[str, int]:
    names = re.findall(r"\b(?:typedef\s+bit<(\d+)>\s+(\w+)\s*;|enum\s+bit<(\d+)>\s+(\w+))", source)
    return {name or enum: int(width or enum_width) for width, name, enum_width, enum in names}


def layout_of_p4() -> list[tuple[str, int]]:
    source = p4_source()
    widths = widths_of_types(source)
    body = re.search(r"\bheader\s+gradient_t\s*\{(.*?)\}", source, re.DOTALL)
    assert body, "p4src/shared defines no header gradient_t"
    fields = re.findall(r"^\s*(?:bit<(\d+)>|(\w+))\s+(\w+)\s*;", re.sub(r"/\*.*?\*/", "", body[1]), re.MULTILINE)
    return [(name, int(width) if width else widths[kind]) for width, kind, name in fields]


def enum_of_p4(name: str) -> dict[str, int]:
    body = re.search(rf"\benum\s+bit<\d+>\s+{name}\s*\{{(.*?)\}}", re.sub(r"//[^\n]*", "", p4_source()), re.DOTALL)
    assert body, f"p4src/shared defines no enum {name}"
    return {key: int(value, 0) for key, value in re.findall(r"(\w+)\s*=\s*(?:\d+w)?(0x[0-9a-fA-F]+|\d+)", body[1])}


@pytest.mark.parametrize("layout", [layout_of_numpy, layout_of_dissector, layout_of_p4])
def test_every_definition_of_the_header_has_the_same_fields(layout) -> None:
    assert layout() == layout_of_scapy()


def test_header_is_as_long_as_its_constant() -> None:
    assert HEADER.itemsize == len(Gradient()) == GRADIENT_BYTES
    assert sum(bits for _, bits in layout_of_scapy()) == GRADIENT_BYTES * 8


@pytest.mark.parametrize(("name", "python"), [("gradient_type_t", GradientType), ("data_type_t", DataType)])
def test_values_have_the_same_names_in_p4(name: str, python: type[IntEnum]) -> None:
    assert enum_of_p4(name) == {kind.name: kind.value for kind in python}


def test_constants_are_the_same_in_p4() -> None:
    pattern = r"^(?:const\s+bit<\d+>\s+(\w+)\s*=\s*(\w+)\s*;|#define\s+(\w+)\s+(\w+)\s*$)"
    constants = {a or c: b or d for a, b, c, d in re.findall(pattern, p4_source(), re.MULTILINE)}
    expected = {"GRADIENT_PORT": GRADIENT_PORT, "GRADIENT_BYTES": GRADIENT_BYTES, "GRADIENT_VERSION": GRADIENT_VERSION}
    expected |= {f"FLAG_{flag.name}": flag.value for flag in GradientFlag}
    assert {name: int(constants[name], 0) for name in expected} == expected


def test_names_of_values_are_the_same_in_the_dissector() -> None:
    text = DISSECTOR.read_text()

    def table(name: str) -> dict[str, int]:
        body = re.search(rf"local {name} = \{{(.*?)\}}", text, re.DOTALL)
        assert body
        return {label: int(value, 0) for value, label in re.findall(r"\[(\w+)\] = \"(\w+)\"", body[1])}

    assert table("types") == {kind.name: kind.value for kind in GradientType}
    assert table("data_types") == {kind.name: kind.value for kind in DataType}
    assert table("flag_bits") == {flag.name: flag.value for flag in GradientFlag}
    assert f"local GRADIENT_PORT = {GRADIENT_PORT}" in text


def test_full_packets_fill_the_mtu() -> None:
    assert (IPV4_VALUES, IPV6_VALUES) == (360, 355)
    assert len(IP() / UDP(dport=GRADIENT_PORT) / Gradient() / Raw(bytes(4 * IPV4_VALUES))) == 1500


ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
SAMPLE = Gradient(
    type=GradientType.TRIMMED,
    flags=GradientFlag.LAST | GradientFlag.PROTECTED,
    data_type=DataType.BFLOAT16,
    importance=200,
    job=0x0102,
    rank=0x0304,
    tensor=0x0506,
    layer=0x0708,
    round=0x090A0B0C,
    offset=0x0D0E0F10,
    count=0x1112,
    path=0x13,
    weight=0x14151617,
    sequence=0x18191A1B,
)


def test_scapy_and_numpy_read_the_same_header() -> None:
    record = np.frombuffer(bytes(SAMPLE), HEADER)[0]
    assert divmod(int(record["version_type"]), 16) == (GRADIENT_VERSION, GradientType.TRIMMED)
    for name in set(HEADER.names) - {"version_type"}:
        assert int(record[name]) == int(getattr(SAMPLE, name)), name


def test_scapy_finds_the_layer_by_its_udp_port() -> None:
    packet = Ether(bytes(ETHER / IP() / UDP(sport=4000, dport=GRADIENT_PORT) / SAMPLE / Raw(b"abcd")))
    assert packet[Gradient].offset == SAMPLE.offset
    assert bytes(packet[Gradient].payload) == b"abcd"


def test_wireshark_dissects_every_field() -> None:
    if not (tshark := shutil.which("tshark")):
        pytest.skip("tshark is not installed")
    capture = io.BytesIO()
    PcapWriter(capture).write(ETHER / IP() / UDP(sport=40000, dport=GRADIENT_PORT) / SAMPLE / Raw(bytes(8)))
    names = [name for name, _ in layout_of_scapy()]
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        script = shutil.copy(DISSECTOR, directory)
        command = [tshark, "-r", "-", "-X", f"lua_script:{script}", "-T", "fields"]
        command += [argument for name in names for argument in ("-e", f"gradient.{name}")]
        nobody = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else None  # Wireshark runs no Lua for root
        shown = subprocess.run(
            command,
            input=capture.getvalue(),
            capture_output=True,
            check=True,
            timeout=60,
            user=nobody,
            group=nobody,
            env={"HOME": directory, "PATH": os.environ["PATH"]},
        )
    fields = shown.stdout.decode().rstrip("\n").split("\t")
    assert [int(value, 0) for value in fields] == [int(getattr(SAMPLE, name)) for name in names], shown.stderr.decode()
