# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a user types and reads: `gradctl schedule`, names of networks, files and pictures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from topologies.errors import UsageError
from traffic.collectives.tacos.cli import schedule_app
from traffic.collectives.tacos.files import load, save
from traffic.collectives.tacos.naming import network_of
from traffic.collectives.tacos.network import GIB, mesh
from traffic.collectives.tacos.picture import draw, utilisation
from traffic.collectives.tacos.schedule import Collective, Schedule, demand
from traffic.collectives.tacos.synthesis import synthesise
from traffic.collectives.tacos.verify import verify


def gradctl(*arguments: str | Path) -> str:
    result = CliRunner().invoke(schedule_app, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_schedule_is_made_checked_shown_and_exported(suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"schedule{suffix}"
    made = json.loads(gradctl("synth", "mesh:3x3", "--size", "9e6", "--engine", "matching", "-o", file, "--json"))
    assert made["npus"] == 9 and made["verified"] and made["time_us"] >= made["node_bound_us"]
    assert made["tree_bound_us"] <= made["scatter_gather_bound_us"] <= made["time_us"]
    checked = json.loads(gradctl("verify", file, "--json"))
    assert checked["sends"] == made["sends"] and checked["time_us"] == pytest.approx(made["time_us"])
    picture = tmp_path / "schedule.png"
    gradctl("show", file, "--picture", picture)
    assert picture.read_bytes().startswith(b"\x89PNG")
    gradctl("export", file, tmp_path / "schedule.xml", "--minimum", "1024")
    assert 'minBytes="1024"' in (tmp_path / "schedule.xml").read_text()
    gradctl("export", file, tmp_path / "trace", "--format", "chakra")
    assert len(list(tmp_path.glob("trace.*.et"))) == 9
    gradctl("export", file, tmp_path / "other", "--format", "npz")
    assert len(load(tmp_path / "other.npz").chunk) == made["sends"]


def test_failed_links_and_groups_are_said_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    gradctl("synth", "mesh:3x3", "--group", "0,2,8", "--failed", "0-1", "--failed", "4-5", "-o", file)
    schedule = load(file)
    assert schedule.demand.group == (0, 2, 8)
    used = set(zip(schedule.source.tolist(), schedule.destination.tolist(), strict=True))
    assert not used & {(0, 1), (4, 5)}
    verify(schedule)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["synth", "mesh:3x0"], "every side"),
        (["synth", "mesh:2x2", "--group", "0,x"], "is no NPU number"),
        (["synth", "mesh:2x2", "--failed", "01"], "SOURCE-DESTINATION"),
        (["synth", "mesh:2x2", "--failed", "0-3"], "no link 0 -> 3"),
        (["synth", "mesh:2x2", "--engine", "magic"], "an engine is"),
        (["verify", "/nowhere/schedule.json"], "cannot read"),
        (["synth", "/nowhere/links.csv"], "cannot read"),
        (["synth", "hypercube:3x3"], "one number"),
    ],
)
def test_a_mistake_is_one_clear_line(arguments: list[str], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        gradctl(*arguments)


@pytest.mark.parametrize("verb", ["synth", "compare"])
def test_links_that_would_take_for_ever_are_refused(verb: str, tmp_path: Path) -> None:
    file = tmp_path / "links.csv"
    file.write_text("0,1,1e-320,0\n1,0,1,0\n")
    with pytest.raises(UsageError, match="would take a link"):
        gradctl(verb, file)


def test_a_picture_that_cannot_be_written_is_said_with_its_file(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    gradctl("synth", "mesh:2x2", "--engine", "matching", "-o", file)
    for picture, complaint in ((tmp_path / "p.bmp", "ends in .png or .svg"), (tmp_path / "no/p.svg", "cannot write")):
        with pytest.raises(UsageError, match=complaint) as refused:
            gradctl("show", file, "--picture", picture)
        assert str(picture) in str(refused.value)


@pytest.mark.parametrize("verb", ["synth", "compare"])
def test_a_network_in_two_parts_names_a_pair(verb: str, tmp_path: Path) -> None:
    parts = tmp_path / "parts.csv"
    parts.write_text("0,1,50,500\n1,0,50,500\n2,3,50,500\n3,2,50,500\n")
    with pytest.raises(UsageError, match="parts: no path from NPU 0 to NPU 2"):
        gradctl(verb, parts)


def test_an_npu_alone_takes_no_time() -> None:
    assert json.loads(gradctl("synth", "mesh:1", "--json"), parse_constant=pytest.fail)["GB_per_s"] is None
    rows = json.loads(gradctl("compare", "mesh:1", "--json"), parse_constant=pytest.fail)
    assert {row["time_us"] for row in rows} == {0.0}


def test_compare_puts_the_fixed_algorithms_beside_it() -> None:
    rows = {row["algorithm"]: row for row in json.loads(gradctl("compare", "torus:3x3", "--size", "9e6", "--json"))}
    assert {"ring", "direct", "double binary tree", "Hamiltonian ring", "multi-dimensional ring"} < set(rows)
    assert rows["Hamiltonian ring"]["verified"] and not rows["direct"]["verified"]
    assert min(rows.values(), key=lambda row: row["time_us"])["algorithm"].startswith(("symmetric", "trees"))


@pytest.mark.parametrize(
    ("text", "npus", "links", "rates"),
    [
        ("mesh:4x4", 16, 48, {50.0}),
        ("torus:3x3@25", 9, 36, {25.0}),
        ("hypercube:3", 8, 24, {50.0}),
        ("ring:2@200+full:4@33.3+switch:4@50/2", 32, 32 * 6, {200.0, 33.3, 25.0}),
        ("line:3@10", 3, 4, {10.0}),
    ],
)
def test_networks_by_name(text: str, npus: int, links: int, rates: set[float]) -> None:
    network = network_of(text)
    assert (network.npus, network.links) == (npus, links)
    assert {round(float(rate), 6) for rate in network.bandwidth / GIB} == rates


def small(path: bool = False) -> Schedule:
    network = mesh(2, 2)
    found = synthesise(network, demand(network, Collective.ALL_REDUCE, 1e6), restarts=1)
    if not path:
        return found
    return Schedule(**{**vars(found), "path": np.arange(len(found.chunk), dtype=np.uint32) % 3})


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_file_gives_back_what_was_saved(suffix: str, tmp_path: Path) -> None:
    for schedule in (small(), small(path=True)):
        file = tmp_path / f"s{suffix}"
        save(schedule, file)
        again = load(file)
        assert again.demand == schedule.demand and again.engine == schedule.engine
        for name in ("chunk", "link", "start", "end", "reduces"):
            assert np.array_equal(getattr(again, name), getattr(schedule, name))
        assert (again.path is None) == (schedule.path is None)
        verify(again)


@pytest.mark.parametrize("content", ["", "{}", '{"format": "gradlane-schedule", "version": 9, "sends": []}', "[1, 2]"])
def test_what_is_no_schedule_is_said_with_its_file(content: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.json"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"bad\.json.*is no schedule"):
        load(file)


def test_utilisation_is_busy_time_over_all_time(tmp_path: Path) -> None:
    schedule = small()
    share = utilisation(schedule, 50)
    busy = float((schedule.end - schedule.start).sum()) / (float(schedule.end.max()) * schedule.network.links)
    assert share.mean() == pytest.approx(busy, rel=1e-6)
    assert share.min() >= 0 and share.max() <= 1 + 1e-9
    draw(schedule, tmp_path / "picture.svg")
    assert "<svg" in (tmp_path / "picture.svg").read_text()[:2000]
