# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""gradctl: listings with --json, errors of one line with an exit code, and no traceback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import topologies
from controller.cli import app, common, run
from controller.p4rt.pipeline import Pipeline
from tests.unit.controller.conftest import FakeFabric
from tests.unit.controller.softswitches import SoftswitchFabric

Start = Callable[[str], FakeFabric]
DEADLINE = ["--deadline", "60"]


@pytest.fixture
def softswitches(tmp_path: Path) -> Iterator[SoftswitchFabric]:
    with SoftswitchFabric(topologies.load("leaf_spine"), tmp_path) as fabric:
        yield fabric


def gradctl(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    capsys.readouterr()
    code = run(app, [str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def read(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    code, out, err = gradctl(capsys, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def complaint(capsys: pytest.CaptureFixture[str], code: int, *arguments: str | Path) -> str:
    found, out, err = gradctl(capsys, *arguments)
    assert found == code, (found, out, err)
    assert err.startswith("gradctl: ")
    assert err.count("\n") == 1
    assert "Traceback" not in out + err
    return err


def test_validate_tells_what_a_policy_makes_of_a_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    found = read(capsys, "policy", "validate", "dlcp", "--topology", "fat_tree_4")
    assert (found["policy"], found["fabric"], len(found["entities"])) == ("dlcp", "fat_tree_4", 20)


def test_mistakes_are_one_line_and_exit_with_2(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("name: x\nqueues:\n  default: {bytes: tall}\n")
    assert f"{bad}:3: queues.default.bytes: 'tall' is no depth" in complaint(capsys, 2, "policy", "validate", bad)
    bad.write_text("name: x\npunt:\n" + "".join(f"  - {{protocol: {n}, action: drop}}\n" for n in range(65)))
    assert f"{bad}:2: punt: makes 65 rows of table punt on leaf1, which holds 64" in complaint(
        capsys, 2, "policy", "validate", bad
    )
    assert "no policy is named 'dclp'" in complaint(capsys, 2, "policy", "validate", "dclp")
    assert "No such command" in complaint(capsys, 2, "polish")
    assert "No such option" in complaint(capsys, 2, "status", "--fast")
    assert "Missing argument" in complaint(capsys, 2, "policy", "validate")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert "it is not UTF-8 text" in complaint(capsys, 2, "policy", "validate", binary)


@pytest.mark.parametrize("seconds", ["nan", "inf", "-1", "0", "1e400"])
def test_seconds_that_no_clock_can_wait_for_are_refused(capsys: pytest.CaptureFixture[str], seconds: str) -> None:
    for verb, option in (("status", "--deadline"), ("top", "--deadline"), ("top", "--interval")):
        assert f"Invalid value for '{option}'" in complaint(capsys, 2, verb, option, seconds)


def printed_to(output: int) -> subprocess.CompletedProcess[str]:
    """Print a listing to a file descriptor; -1: to standard output that the shell has closed."""
    command = [sys.executable, "-m", "gradlane.cli", "policy", "schema"]
    if output < 0:
        command = ["sh", "-c", 'exec "$@" >&-', "sh", *command]
    return subprocess.run(
        command, stdout=None if output < 0 else output, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )


def test_a_reader_that_went_away_is_no_error() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    try:
        done = printed_to(theirs)
    finally:
        os.close(theirs)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_disk_is_one_line_and_exits_with_1() -> None:
    with Path("/dev/full").open("w") as full:
        done = printed_to(full.fileno())
    assert (done.returncode, done.stderr) == (1, "gradctl: No space left on device\n")


def test_standard_output_may_be_closed() -> None:
    done = printed_to(-1)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_narrow_terminal_loses_no_column(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (1, 20):
        monkeypatch.setattr(common, "console", Console(width=width))
        common.print_table(["switch", "address", "entries"], [("leaf1", "127.0.0.1:50051", 97)], right=["entries"])
        assert capsys.readouterr().out.split() == ["switch", "address", "entries", "leaf1", "127.0.0.1:50051", "97"]


def test_without_a_fabric_every_verb_says_so_and_exits_with_1(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    state = tmp_path / "none.json"
    for verb in (
        ["status"],
        ["policy", "plan", "dlcp"],
        ["policy", "apply", "dlcp"],
        ["policy", "rollback"],
        ["policy", "history"],
        ["entries"],
        ["counters"],
        ["queues"],
        ["drops"],
        ["paths"],
        ["top", "--count", "1"],
        ["reroute"],
        ["shell", "s1"],
    ):
        assert "no fabric is running" in complaint(capsys, 1, *verb, "--fabric-state", state)


def test_a_state_file_that_is_none_is_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    state = tmp_path / "fabric.json"
    state.write_text("{")
    assert f"{state}: not the state file" in complaint(capsys, 2, "status", "--fabric-state", state)


def test_unknown_switch_table_counter_and_revision(capsys: pytest.CaptureFixture[str], fake_fabric: Start) -> None:
    state = fake_fabric("single").state_file
    on = ["--fabric-state", state]
    assert "has no switch 's9'" in complaint(capsys, 2, "entries", "s9", *on)
    assert "has no table 'routes'" in complaint(capsys, 2, "entries", "--table", "routes", *on)
    assert "has no counter 'cats'" in complaint(capsys, 2, "counters", "--counter", "cats", *on)
    assert "no former policy" in complaint(capsys, 2, "policy", "rollback", *on)
    assert "no revision 3" in complaint(capsys, 2, "policy", "rollback", "--to", "3", *on)
    assert "was given no policy yet" in complaint(capsys, 2, "policy", "apply", *on)
    assert "has no switch 's9'" in complaint(capsys, 2, "shell", "s9", *on)


def test_plan_apply_show_history_rollback(capsys: pytest.CaptureFixture[str], fake_fabric: Start) -> None:
    fabric = fake_fabric("leaf_spine")
    on = ["--fabric-state", fabric.state_file]
    plan = read(capsys, "policy", "plan", "dlcp", *on)
    assert all(switch["program"] and switch["entities"] for switch in plan["switches"].values())
    assert fabric.writes == 0

    report = read(capsys, "policy", "apply", "dlcp", *on)
    assert (report["policy"], report["revision"]) == ("dlcp", 1)
    assert {name: switch["changed"] for name, switch in report["switches"].items()} == {
        name: len(switch["entities"]) for name, switch in plan["switches"].items()
    }
    writes = fabric.writes
    assert "nothing to change" in gradctl(capsys, "policy", "apply", *on)[1]
    assert fabric.writes == writes

    code, out, _ = gradctl(capsys, "policy", "plan", "fifo", *on)
    assert code == 0
    assert "  - judge class=" in out
    assert "  ~ path_mode class=6 -> flow_hash() (was round_robin())" in out
    read(capsys, "policy", "apply", "fifo", *on)
    assert read(capsys, "policy", "show", *on)["name"] == "fifo"
    assert read(capsys, "policy", "rollback", *on)["policy"] == "dlcp"
    history = read(capsys, "policy", "history", *on)
    assert [(revision["number"], revision["policy"]["name"], revision["note"]) for revision in history] == [
        (1, "dlcp", ""),
        (2, "fifo", ""),
        (3, "dlcp", "rollback to 1"),
    ]


def test_a_refusal_exits_with_1_and_names_the_switch(
    capsys: pytest.CaptureFixture[str], fake_fabric: Start, pipeline: Pipeline
) -> None:
    fabric = fake_fabric("leaf_spine")
    on = ["--fabric-state", fabric.state_file]
    table = pipeline.table("judge").id
    fabric.switches["spine1"].refuse = lambda update: "no" if update.entity.table_entry.table_id == table else None
    message = complaint(capsys, 1, "policy", "apply", "dlcp", *on)
    assert "1 of 4 switches did not take policy dlcp: spine1: refused insert judge" in message
    assert "its former state is restored" in message


def test_a_dead_switch_is_named_and_the_others_are_shown(
    capsys: pytest.CaptureFixture[str], fake_fabric: Start
) -> None:
    fabric = fake_fabric("leaf_spine")
    on = ["--fabric-state", fabric.state_file]
    read(capsys, "policy", "apply", "dlcp", *on)
    fabric.switches["spine2"].server.stop(grace=None).wait()
    code, out, err = gradctl(capsys, "status", *on)
    assert code == 1
    assert "leaf1" in out
    assert "no answer" in out
    assert err == f"gradctl: spine2: no switch answers at {fabric.switches['spine2'].address}\n"
    code, out, _ = gradctl(capsys, "entries", "leaf1", *on)
    assert (code, out.splitlines()[0].split()[0]) == (0, "leaf1:")


@pytest.mark.parametrize("form", [[], ["--json"]], ids=["table", "json"])
def test_top_shows_the_others_and_fails_where_a_switch_is_dead(
    capsys: pytest.CaptureFixture[str], fake_fabric: Start, form: list[str]
) -> None:
    fabric = fake_fabric("leaf_spine")
    on = ["--fabric-state", fabric.state_file]
    read(capsys, "policy", "apply", "dlcp", *on)
    top = ["top", "--count", "1", "--interval", "0.1", *form, *on]
    assert gradctl(capsys, *top)[::2] == (0, "")
    fabric.switches["spine2"].server.stop(grace=None).wait()
    code, out, err = gradctl(capsys, *top)
    assert code == 1
    assert "leaf1" in out
    assert err == f"gradctl: spine2: no switch answers at {fabric.switches['spine2'].address}\n"


def test_status_counts_what_differs(capsys: pytest.CaptureFixture[str], fake_fabric: Start) -> None:
    fabric = fake_fabric("single")
    on = ["--fabric-state", fabric.state_file]
    assert read(capsys, "status", *on)["policy"] is None
    read(capsys, "policy", "apply", "dlcp", *on)
    fabric.switches["s1"].entities.popitem()
    found = read(capsys, "status", *on)
    assert (found["policy"], found["revision"], found["switches"]["s1"]["differences"]) == ("dlcp", 1, 1)


def test_listings_of_a_softswitch_fabric(capsys: pytest.CaptureFixture[str], softswitches: SoftswitchFabric) -> None:
    on = ["--fabric-state", softswitches.state_file, *DEADLINE]
    read(capsys, "policy", "apply", "dlcp", *on)
    status = read(capsys, "status", *on)
    assert {switch["differences"] for switch in status["switches"].values()} == {0}

    rows = read(capsys, "entries", "leaf1", "--table", "path_mode", *on)["leaf1"]
    assert [row["action"] for row in rows] == ["flow_hash()"] + ["round_robin()"] * 7
    judged = read(capsys, "entries", "leaf1", "--table", "judge", "--counters", *on)["leaf1"]
    assert {row["packets"] for row in judged} == {0}

    assert len(read(capsys, "queues", "leaf1", "--all", *on)) == 6 * 8
    assert read(capsys, "queues", *on) == []
    assert read(capsys, "drops", *on) == []
    assert read(capsys, "paths", *on) == []
    assert read(capsys, "counters", *on) == {name: [] for name in status["switches"]}
    for verb in ("status", "entries", "queues", "drops", "paths", "counters"):
        assert gradctl(capsys, verb, *on)[0] == 0

    code, out, _ = gradctl(capsys, "top", "--count", "2", "--interval", "0.1", "--json", *on)
    assert code == 0
    looks = [json.loads(line) for line in out.splitlines()]
    assert [(len(look["ports"]), look["errors"]) for look in looks] == [(16, {}), (16, {})]


def test_the_schema_beside_the_policies_is_the_one_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    from controller.policy import POLICY_FOLDER

    assert gradctl(capsys, "policy", "schema")[1] == (POLICY_FOLDER / "policy.schema.json").read_text()


def test_the_schema_of_topologies_is_printed_whole(capsys: pytest.CaptureFixture[str]) -> None:
    from topologies.schema import KINDS, json_schema

    code, out, _ = gradctl(capsys, "topology", "schema")
    assert code == 0
    assert json.loads(out) == json_schema()
    assert set(json_schema()["discriminator"]["mapping"]) == set(KINDS)
