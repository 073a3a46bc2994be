# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Other people's P4Runtime clients, unmodified, against the embedded switch.

finsy cannot be installed beside p4runtime-shell (their protobuf versions exclude each other): its test runs where
GRADLANE_FINSY_PYTHON names a Python that has it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import everything as e
import pytest
from serving import free_address, running

SHELL = """
import sys
import p4runtime_sh.shell as sh

def session():
    entry = sh.TableEntry("lpm_table")(action="forward")
    entry.match["hdr.source"] = "02:00:00:00:00:00/24"
    entry.action["port"] = "3"
    entry.insert()
    yield "entries", [each.action["port"].value.hex() for each in sh.TableEntry("lpm_table").read()]
    try:
        entry.insert()
    except Exception as error:
        yield "refused", "ALREADY_EXISTS" in str(error)
    rule = sh.TableEntry("ternary_table")(action="forward")
    rule.match["hdr.ether_type"] = "0x1234&&&0xffff"
    rule.action["port"] = "2"
    rule.priority = 3
    rule.insert()
    member = sh.ActionProfileMember("selector")(member_id=1, action="forward")
    member.action["port"] = "1"
    member.insert()
    group = sh.ActionProfileGroup("selector")(group_id=1)
    group.add(1, 2)
    group.insert()
    yield "groups", [each.group_id for each in sh.ActionProfileGroup("selector").read()]
    counter = sh.CounterEntry("hits")
    counter.index = 3
    counter.packet_count = 9
    counter.modify()
    yield "counts", sum(each.packet_count for each in sh.CounterEntry("hits").read())
    sh.MulticastGroupEntry(7).add(1, 1).add(2, 1).insert()
    yield "multicast", [len(each.replicas) for each in sh.MulticastGroupEntry(7).read()]
    sh.CloneSessionEntry(5).add(3, 1).insert()
    yield "clones", [len(each.replicas) for each in sh.CloneSessionEntry(5).read()]
    punt = sh.TableEntry("exact_table")(action="forward")
    punt.match["hdr.destination"] = "02:00:00:00:00:01"
    punt.action["port"] = "510"
    punt.insert()
    packet, packets_in, found = sh.PacketOut(), sh.PacketIn(), []
    packet.payload = bytes.fromhex("020000000001020000000002123400")
    packet.metadata["egress_port"] = "510"
    packet.metadata["pad"] = "0"
    packet.send()
    while not found:
        packets_in.sniff(lambda message: found.append(message.packet.payload.hex()), timeout=0.5)
    yield "packets", found
    entry.delete()
    yield "left", sum(1 for _ in sh.TableEntry("lpm_table").read())

address, p4info, device = sys.argv[1:]
sh.setup(1, address, (0, 1), config=sh.FwdPipeConfig(p4info, device))
try:
    for name, value in session():
        print("#", name, value)
finally:
    sh.teardown()
"""

FINSY = """
import asyncio, sys
from pathlib import Path
import finsy as fy

address, p4info, device = sys.argv[1:]

def match(field, value):
    return fy.Match(**{field: value})

def forward(port):
    return fy.Action("forward", port=port)

async def session(s):
    yield "primary", s.is_primary
    route = fy.P4TableEntry("lpm_table", match=match("hdr.source", "02:00:00:00:00:00/24"), action=forward(3))
    await s.insert([route])
    yield "entries", [e.action.args["port"] async for e in s.read(fy.P4TableEntry("lpm_table"))]
    try:
        await s.insert([route])
    except fy.P4ClientError as error:
        yield "refused", [detail.canonical_code.name for detail in error.details.values()]
    rule = match("hdr.ether_type", (0x1234, 0xFFFF))
    member = fy.P4ActionProfileMember("selector", member_id=1, action=forward(1))
    group = fy.P4ActionProfileGroup("selector", group_id=1, max_size=4, members=[fy.P4Member(1, weight=2)])
    await s.write([+fy.P4TableEntry("ternary_table", match=rule, action=forward(2), priority=3), +member, +group])
    yield "groups", [each.group_id async for each in s.read(fy.P4ActionProfileGroup("selector"))]
    await s.write([~fy.P4CounterEntry("hits", index=3, data=fy.P4CounterData(packet_count=9))])
    yield "counts", sum([each.packet_count async for each in s.read(fy.P4CounterEntry("hits"))])
    multicast = fy.P4MulticastGroupEntry(7, replicas=[(1, 1), (2, 1)])
    await s.write([+multicast, +fy.P4CloneSessionEntry(5, replicas=[(3, 1)])])
    yield "multicast", [len(each.replicas) async for each in s.read(fy.P4MulticastGroupEntry(7))]
    yield "clones", [len(each.replicas) async for each in s.read(fy.P4CloneSessionEntry(5))]
    punt = match("hdr.destination", "02:00:00:00:00:01")
    await s.insert([fy.P4TableEntry("exact_table", match=punt, action=forward(510))])
    packets = s.read_packets()
    arrival = asyncio.ensure_future(anext(packets))
    await asyncio.sleep(0)  # the queue for packets is open now
    await s.write([fy.P4PacketOut(bytes.fromhex("020000000001020000000002123400"), egress_port=510, pad=0)])
    yield "packets", [(await arrival).payload.hex()]
    await s.delete_all()
    yield "left", len([each async for each in s.read(fy.P4TableEntry("lpm_table"))])

async def main():
    options = fy.SwitchOptions(p4info=Path(p4info), p4blob=Path(device), p4force=True)
    async with fy.Switch("s1", address, options) as s:
        async for name, value in session(s):
            print("#", name, value)

asyncio.run(asyncio.wait_for(main(), 30))
"""


@pytest.fixture(scope="module")
def address(library: Path) -> Iterator[str]:
    """A switch process with a CPU port and no other."""
    where = free_address()
    with running("--no-p4", "--grpc-server-addr", where, "--", "--cpu-port", str(e.CPU_PORT)):
        yield where


def said(python: str, session: str, *arguments: str) -> list[str]:
    """Run a client's session, and return what it printed."""
    command = [python, "-c", session, *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 0, result.stderr
    return [line for line in result.stdout.splitlines() if line.startswith("#")]


def test_an_unmodified_p4runtime_shell_works(address: str, program_files: tuple[Path, Path]) -> None:
    assert said(sys.executable, SHELL, address, str(program_files[1]), str(program_files[0])) == [
        "# entries ['03']",
        "# refused True",
        "# groups [1]",
        "# counts 9",
        "# multicast [2]",
        "# clones [1]",
        "# packets ['020000000001020000000002123400']",
        "# left 0",
    ]


def test_an_unmodified_finsy_works(address: str, program_files: tuple[Path, Path]) -> None:
    python = os.environ.get("GRADLANE_FINSY_PYTHON")
    if not python:
        pytest.skip("GRADLANE_FINSY_PYTHON names no Python that has finsy")
    assert said(python, FINSY, address, str(program_files[1]), str(program_files[0])) == [
        "# primary True",
        "# entries [3]",
        "# refused ['ALREADY_EXISTS']",
        "# groups [1]",
        "# counts 9",
        "# multicast [2]",
        "# clones [1]",
        "# packets ['020000000001020000000002123400']",
        "# left 0",
    ]
