# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The state file, and processes told apart by start time: what `make stop` relies on."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import topologies
from topologies import FailureError, UsageError, processes, state, stop
from topologies.processes import ProcessId


@contextmanager
def child(*arguments: str, run: int | None = None) -> Iterator[subprocess.Popen[bytes]]:
    environment = None if run is None else processes.environment(run)
    with subprocess.Popen(arguments or ["sleep", "600"], env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def identity_of(pid: int) -> ProcessId:
    identity = ProcessId.of(pid)
    assert identity is not None
    return identity


def running(run: int) -> state.RunningFabric:
    fabric = topologies.load("leaf_spine")
    owner = identity_of(os.getpid())
    switches = {
        switch.name: state.SwitchState(switch.name, switch.device_id, switch.grpc_address, None, owner, "logs/x.log")
        for switch in fabric.switches
    }
    hosts = {"h1": state.HostState("h1", owner)}
    return state.RunningFabric(run, fabric, "softswitch", False, owner, 1.5, switches, hosts, (owner,))


def test_a_state_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    written = running(state.new_run())
    state.save(written, tmp_path / "deep" / "fabric.json")
    assert state.load(tmp_path / "deep" / "fabric.json") == written
    assert [entry.name for entry in (tmp_path / "deep").iterdir()] == ["fabric.json"]


def test_a_state_lists_each_process_once(tmp_path: Path) -> None:
    assert running(state.new_run()).processes == [identity_of(os.getpid())]


def test_no_state_file_means_that_no_fabric_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert state.find(tmp_path / "fabric.json") is None
    monkeypatch.setenv(state.PATH_VARIABLE, str(tmp_path / "fabric.json"))
    with pytest.raises(FailureError, match="no fabric is running"):
        state.load()
    assert stop.stop() is None


def test_a_state_file_that_finds_no_room_leaves_the_former_and_no_part(tmp_path: Path) -> None:
    former = running(state.new_run())
    state.save(former, tmp_path / "fabric.json")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(FailureError, match="cannot write the state file .*: File too large"):
            state.save(running(state.new_run()), tmp_path / "fabric.json")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert state.find(tmp_path / "fabric.json") == former
    assert [file.name for file in tmp_path.iterdir()] == ["fabric.json"]


def test_neither_a_link_nor_a_device_is_replaced_by_a_state_file(tmp_path: Path) -> None:
    (link := tmp_path / "link").symlink_to("/dev/null")
    state.save(running(state.new_run()), link)
    assert link.is_symlink() and link.is_char_device() and list(tmp_path.iterdir()) == [link]


def test_what_is_no_state_file_is_a_usage_error(tmp_path: Path) -> None:
    file = tmp_path / "fabric.json"
    for text in (
        "",
        "[]",
        "{}",
        "null",
        '{"format": 1}',
        '{"format": 99}',
        '{"format": 1, "run": 1}',
        "[" * 100_000,
    ):
        file.write_text(text)
        with pytest.raises(UsageError, match=f"{file}: "):
            state.load(file)


def test_a_state_file_that_names_no_run_of_ours_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "fabric.json"
    state.save(replace(running(state.new_run()), run=0), file)  # group 0 holds every interface of the machine
    with pytest.raises(UsageError, match="not the state file"):
        state.load(file)


def test_the_marks_of_runs_tell_ours_from_others() -> None:
    assert state.is_run(state.new_run())
    assert not any(state.is_run(number) for number in (0, 1, 0x66FFFFFF, 0x68000000))


def test_a_process_is_ended_politely_and_killed_if_it_does_not_listen() -> None:
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); signal.pause()"
    with child() as meek, subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE) as deaf:
        assert deaf.stdout is not None and deaf.stdout.readline() == b"up\n"
        deaf_identity = identity_of(deaf.pid)
        killed = processes.end([identity_of(meek.pid), deaf_identity], grace=0.3)
        assert killed == [deaf_identity]
        assert (meek.wait(), deaf.wait()) == (-signal.SIGTERM, -signal.SIGKILL)


def test_a_pid_that_another_process_has_now_is_left_alone() -> None:
    with child() as innocent:
        now = identity_of(innocent.pid)
        processes.end([ProcessId(innocent.pid, now.started - 1)], grace=0.1)
        assert innocent.poll() is None and now.is_running()


def test_a_process_that_is_gone_is_no_error() -> None:
    with child("true") as process:
        process.wait()
        assert ProcessId.of(process.pid) is None
        processes.end([ProcessId(process.pid, 1)])


def test_marked_processes_are_found_with_their_children_and_no_others() -> None:
    run, other = state.new_run(), state.new_run()
    grandchild = "sleep 600 & echo $!; wait"
    with (
        subprocess.Popen(["sh", "-c", grandchild], env=processes.environment(run), stdout=subprocess.PIPE) as shell,
        child(run=other) as stranger,
    ):
        assert shell.stdout is not None
        sleeper = int(shell.stdout.readline())
        found = processes.marked(run)
        assert {process.pid for process in found} == {shell.pid, sleeper}
        processes.end(found)
        assert stranger.poll() is None
        assert processes.marked(run) == []


def test_the_temporary_folders_of_a_run_are_cleared_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a run whose owner was killed: nobody else would remove them."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run, other = state.new_run(), state.new_run()
    left, kept = (processes.scratch("replay", processes.environment(one)) for one in (run, other))
    with kept, processes.scratch("replay", {}) as unmarked:
        (Path(left.name) / "flow0").mkdir()
        processes.clear_scratch(run)
        assert {str(folder) for folder in tmp_path.iterdir()} == {kept.name, unmarked}
        left.cleanup()
    assert list(tmp_path.iterdir()) == []


def test_the_temporary_folders_of_a_killed_process_are_cleared_by_stop_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(state.PATH_VARIABLE, str(tmp_path / "none.json"))
    program = (
        "from topologies import processes; import time; f = processes.scratch('job', {}); print(f.name, flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", f"{program}; time.sleep(600)"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    ) as owner:
        assert owner.stdout is not None
        left = Path(owner.stdout.readline().strip())
        with processes.scratch("job", {}) as kept:
            assert processes.clear_orphaned_scratch() == []
            assert left.parent == tmp_path
            assert left.is_dir()
            owner.kill()
            owner.wait()
            assert stop.main([]) == 0
            assert [str(folder) for folder in tmp_path.iterdir()] == [kept]
    assert f"removed {left}" in capsys.readouterr().out


def test_stop_refuses_what_is_no_mark_of_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert stop.main(["--run", "0"]) == 2
    assert "error:" in capsys.readouterr().err
