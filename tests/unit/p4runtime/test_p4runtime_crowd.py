# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Many clients at once, two that both want to be primary, and one that is killed in the middle of its writes."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import everything as e
import grpc
import pytest
from p4.v1 import p4runtime_pb2 as p4rt
from p4rt_messages import INSERT, MODIFY, entity, entry, exact, forward, update
from serving import DEADLINE_S, Controller, free_address, running

KEYS = 40


@pytest.fixture
def address(program_files: tuple[Path, Path]) -> Iterator[str]:
    """A switch process with the program committed; the controller's election id was 1."""
    where = free_address()
    with running("--no-p4", "--grpc-server-addr", where):
        with Controller(where) as controller:
            config = p4rt.ForwardingPipelineConfig(p4info=e.p4info(), p4_device_config=program_files[0].read_bytes())
            controller.become_primary().set_pipeline(config)
        yield where


def rows(controller: Controller) -> list[Any]:
    return [each.table_entry for each in controller.read(entity(p4rt.TableEntry(table_id=e.EXACT)))]


def port_of(row: Any) -> int:
    return int.from_bytes(row.action.action.params[0].value, "big")


def atomically(controller: Controller, kind: int, port: int) -> None:
    """Write the same action into every key, all or nothing."""
    request = p4rt.WriteRequest(device_id=1, atomicity=p4rt.WriteRequest.DATAPLANE_ATOMIC)
    request.election_id.low = controller.election
    request.updates.extend(update(kind, entry(e.EXACT, exact(1, key), do=forward(port))) for key in range(KEYS))
    controller.stub.Write(request, timeout=DEADLINE_S)


@pytest.mark.parametrize("clients", [20, pytest.param(100, marks=[pytest.mark.long, pytest.mark.timeout(600)])])
def test_many_clients_write_their_own_entries_at_once(address: str, clients: int) -> None:
    """Each has a role of its own, so each is a primary."""
    controllers = [Controller(address, 10, role=f"role{number}") for number in range(clients)]
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            controllers[number].become_primary()
            keys = range(number * 5, number * 5 + 5)
            controllers[number].write(*(update(INSERT, entry(e.EXACT, exact(1, key), do=forward(1))) for key in keys))
            mine = {int.from_bytes(row.match[0].exact.value, "big") for row in rows(controllers[number])}
            assert set(keys) <= mine
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10 * DEADLINE_S)
    assert not errors
    assert len(rows(controllers[0])) == 5 * clients
    for controller in controllers:
        controller.close()


def test_two_that_race_to_be_primary_tear_nothing(address: str) -> None:
    """Each claims a higher election id than the other's, in turn, and writes a whole table while it may."""
    with Controller(address, 2) as first:
        first.become_primary()
        atomically(first, INSERT, 1)
    wrote = [0, 0]

    def race(side: int) -> None:
        for turn in range(12):
            with Controller(address, 10 + 2 * turn + side) as controller:
                controller.arbitrate()
                controller.next()
                with contextlib.suppress(grpc.RpcError):  # the other one may have taken over
                    while wrote[side] <= turn:
                        atomically(controller, MODIFY, 1 + side)
                        wrote[side] += 1

    threads = [threading.Thread(target=race, args=(side,)) for side in (0, 1)]
    for thread in threads:
        thread.start()
    with Controller(address, None) as reader:
        while any(thread.is_alive() for thread in threads):
            assert len({port_of(row) for row in rows(reader)}) == 1
        assert len(rows(reader)) == KEYS
    assert sum(wrote)


WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
import test_p4runtime_crowd as crowd
controller = crowd.Controller(sys.argv[2], 50).become_primary()
crowd.atomically(controller, crowd.INSERT, 1)
print("writing", flush=True)
while True:
    for port in (2, 3):
        crowd.atomically(controller, crowd.MODIFY, port)
"""


def test_a_client_killed_between_its_bytes_leaves_whole_batches(address: str) -> None:
    line = [sys.executable, "-c", WRITER, str(Path(__file__).parent), address]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None and writer.stdout.readline() == "writing\n"
        with Controller(address, 60) as reader:
            for _ in range(20):
                assert len({port_of(row) for row in rows(reader)}) == 1
            writer.kill()
            writer.wait(DEADLINE_S)
            reader.become_primary()
            atomically(reader, MODIFY, 7)
            assert {port_of(row) for row in rows(reader)} == {7} and len(rows(reader)) == KEYS
