# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""With a state file, pipeline and entries survive the switch's process, however it ends."""

from __future__ import annotations

import contextlib
import os
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
from p4rt_messages import (
    DELETE,
    INSERT,
    MODIFY,
    action,
    entity,
    entry,
    exact,
    forward,
    lpm,
    read,
    ternary,
    update,
    write,
)
from serving import DEADLINE_S, Controller, free_address, running

from softswitch.errors import SwitchError
from softswitch.p4runtime.endpoint import Endpoint
from softswitch.p4runtime.state_file import StateFile
from softswitch.switch import Switch


@contextlib.contextmanager
def restarted(path: Path) -> Iterator[Endpoint]:
    """A new switch, without a program, that takes up a state file."""
    with Switch() as switch:
        switch.set_cpu_port(e.CPU_PORT)
        switch.add_port(1)
        try:
            switch.p4runtime.keep(StateFile(path))
            yield switch.p4runtime
        finally:
            switch.p4runtime.close()


def config_of(program_files: tuple[Path, Path]) -> p4rt.ForwardingPipelineConfig:
    return p4rt.ForwardingPipelineConfig(p4info=e.p4info(), p4_device_config=program_files[0].read_bytes())


def everything_of(endpoint: Endpoint) -> list[Any]:
    """Read all that a state file is to keep."""
    default = p4rt.TableEntry(is_default_action=True)
    groups, sessions = p4rt.PacketReplicationEngineEntry(), p4rt.PacketReplicationEngineEntry()
    groups.multicast_group_entry.SetInParent()
    sessions.clone_session_entry.SetInParent()
    filters = [
        p4rt.TableEntry(), default, p4rt.ActionProfileMember(), p4rt.ActionProfileGroup(), p4rt.MeterEntry(),
        p4rt.DigestEntry(), p4rt.ValueSetEntry(), groups, sessions,
    ]  # fmt: skip
    return [read(endpoint, each) for each in filters]


def fill(endpoint: Endpoint) -> None:
    """Write something of each kind, and take some away again."""
    session = p4rt.PacketReplicationEngineEntry()
    session.clone_session_entry.session_id = 5
    session.clone_session_entry.replicas.add(egress_port=1, instance=2)
    group = p4rt.PacketReplicationEngineEntry()
    group.multicast_group_entry.multicast_group_id = 9
    group.multicast_group_entry.replicas.add(egress_port=1, instance=3)
    write(endpoint, INSERT, *(entry(e.EXACT, exact(1, place), do=forward(1)) for place in range(50)), session, group)
    write(endpoint, DELETE, *(entry(e.EXACT, exact(1, place)) for place in range(0, 50, 2)))
    write(
        endpoint, INSERT,
        entry(e.LPM, lpm(1, 0x020000000000, 24), do=forward(1), metadata=b"mine"),
        entry(e.TERNARY, ternary(1, 0x0200, 0xFF00), do=forward(1), priority=3),
        entry(e.TIMED, exact(1, 5), do=forward(1), idle_timeout_ns=10**12),
    )  # fmt: skip
    write(endpoint, MODIFY, p4rt.TableEntry(table_id=e.EXACT, is_default_action=True, action=chosen(forward(1))))
    meter = p4rt.MeterEntry(meter_id=e.LIMITS, config=p4rt.MeterConfig(cir=1, cburst=1, pir=2, pburst=2))
    meter.index.index = 3
    write(endpoint, MODIFY, meter)


def chosen(do: p4rt.Action) -> p4rt.TableAction:
    return p4rt.TableAction(action=do)


def test_all_that_was_written_is_there_again(switch: Switch, endpoint: Endpoint, tmp_path: Path) -> None:
    path = tmp_path / "state"
    endpoint.keep(StateFile(path))
    fill(endpoint)
    wanted = everything_of(endpoint)
    assert sum(map(len, wanted)) > 30
    endpoint.close()
    for _ in range(2):  # as it was appended to, and as it was written anew
        with restarted(path) as again:
            assert everything_of(again) == wanted


def test_a_failed_batch_is_kept_as_far_as_it_went(switch: Switch, endpoint: Endpoint, tmp_path: Path) -> None:
    endpoint.keep(StateFile(tmp_path / "state"))
    good, unknown = entry(e.EXACT, exact(1, 1), do=forward(1)), entry(e.EXACT, exact(1, 2), do=action(99))
    with contextlib.suppress(Exception):
        write(endpoint, INSERT, good, unknown)
    wanted = read(endpoint, p4rt.TableEntry(table_id=e.EXACT))
    assert len(wanted) == 1
    endpoint.close()
    with restarted(tmp_path / "state") as again:
        assert read(again, p4rt.TableEntry(table_id=e.EXACT)) == wanted


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_record_cut_short_costs_that_record_only(
    switch: Switch, endpoint: Endpoint, tmp_path: Path, cut: int
) -> None:
    path = tmp_path / "state"
    endpoint.keep(StateFile(path))
    for place in range(3):
        write(endpoint, INSERT, entry(e.EXACT, exact(1, place), do=forward(1)))
    endpoint.close()
    path.write_bytes(path.read_bytes()[:-cut])
    with restarted(path) as again:
        assert len(read(again, p4rt.TableEntry(table_id=e.EXACT))) == 2


def test_a_saved_pipelines_writes_are_kept_once_it_is_committed(
    switch: Switch, endpoint: Endpoint, program_files: tuple[Path, Path], tmp_path: Path
) -> None:
    endpoint.keep(StateFile(tmp_path / "state"))
    config = config_of(program_files)
    request = p4rt.SetForwardingPipelineConfigRequest(device_id=1, config=config)
    request.action = request.VERIFY_AND_SAVE
    endpoint.set_pipeline(request)
    write(endpoint, INSERT, entry(e.EXACT, exact(1, 7), do=forward(1)))
    endpoint.set_pipeline(p4rt.SetForwardingPipelineConfigRequest(device_id=1, action=request.COMMIT))
    wanted = everything_of(endpoint)
    endpoint.close()
    with restarted(tmp_path / "state") as again:
        assert everything_of(again) == wanted


def test_a_file_of_another_kind_and_one_in_use_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_text("something else")
    file = StateFile(path)
    with pytest.raises(SwitchError, match="this is no state file"):
        file.records()
    with pytest.raises(SwitchError, match="another switch keeps its state there"):
        StateFile(path)
    file.close()
    line = [sys.executable, "-m", "softswitch", "--no-p4", "--state-file", str(path)]
    done = subprocess.run([*line, "--grpc-server-addr", free_address()], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"softswitch: {path}: this is no state file\n")


def test_only_a_regular_file_keeps_state_and_nothing_is_left_beside_one_that_is_refused(tmp_path: Path) -> None:
    pipe, other, folder = tmp_path / "pipe", tmp_path / "other", tmp_path / "folder"
    os.mkfifo(pipe)
    folder.mkdir()
    other.write_text("something else")
    for path, reason in (
        (pipe, "no regular file"), (folder, "no regular file"), (other, "no state file"),
        (pipe / "x", "Not a directory"),
    ):  # fmt: skip
        with pytest.raises(SwitchError, match=reason), restarted(path):
            pass
    assert pipe.is_fifo() and sorted(tmp_path.iterdir()) == [folder, other, pipe]


def test_a_link_to_a_state_file_stays_one(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "state")
    with restarted(link):
        pass
    assert link.is_symlink() and (tmp_path / "state").is_file()


def test_what_was_acknowledged_survives_a_kill(program_files: tuple[Path, Path], tmp_path: Path) -> None:
    path, acknowledged = tmp_path / "state", 0
    address = free_address()
    line = ["--no-p4", "--device-id", "1", "--state-file", str(path), "--grpc-server-addr", address]
    with running(*line) as process, Controller(address) as controller:
        controller.become_primary().set_pipeline(config_of(program_files))
        timer = threading.Timer(0.5, process.kill)
        timer.start()
        with contextlib.suppress(grpc.RpcError):
            for batch in range(10_000):
                keys = range(10 * batch, 10 * batch + 10)
                controller.write(*(update(INSERT, entry(e.EXACT, exact(1, key), do=forward(1))) for key in keys))
                acknowledged += 10
        process.wait(DEADLINE_S)
    assert acknowledged
    with running(*line), Controller(address) as controller:
        found = controller.read(entity(p4rt.TableEntry(table_id=e.EXACT)))
    assert acknowledged <= len(found) <= acknowledged + 10
