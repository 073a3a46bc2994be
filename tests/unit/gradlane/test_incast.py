# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`make run` finds an incast in any fabric, and tells a user's mistake in one line before anything starts."""

from dataclasses import replace
from pathlib import Path

import pytest

import topologies
from gradlane import prepare, run
from topologies.errors import UsageError
from traffic import trace


@pytest.mark.parametrize("name", topologies.names())
def test_every_topology_has_an_incast_that_overloads_one_link(name: str) -> None:
    fabric = topologies.load(name)
    incast = run.Incast.of(fabric)
    assert 2 <= len(incast.workers) <= 4
    assert incast.server not in incast.workers
    switch = fabric.host(incast.server).switch
    assert fabric.link(switch, incast.server).rate_from(switch) == incast.rate_bps


def test_the_default_incast_crosses_the_spines() -> None:
    incast = run.Incast.of(topologies.load("leaf_spine"))
    assert (incast.workers, incast.server) == (("h1", "h2", "h3", "h4"), "h5")


def test_a_fabric_too_small_or_without_rate_is_refused() -> None:
    fabric = topologies.load("single")
    with pytest.raises(UsageError, match="at least 3"):
        run.Incast.of(replace(fabric, hosts=fabric.hosts[:2], links=fabric.links[:2]))
    with pytest.raises(UsageError, match="no rate"):
        run.Incast.of(replace(fabric, links=tuple(replace(link, rate_bps=None) for link in fabric.links)))


def test_an_unknown_job_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--job", "nosuch"]) == 2
    assert capsys.readouterr().err == "error: there is no job 'nosuch'; there are live, abs_sgd\n"


def test_a_slowed_fabric_has_the_same_links_at_lower_rates() -> None:
    fabric = topologies.load("leaf_spine")
    slow = run.slowed(fabric, 5)
    assert [link.ends for link in slow.links] == [link.ends for link in fabric.links]
    assert run.Incast.of(slow).rate_bps * 5 == run.Incast.of(fabric).rate_bps
    unlimited = replace(fabric, links=tuple(replace(link, rate_bps=None) for link in fabric.links))
    assert all(link.rate_bps is None for link in run.slowed(unlimited, 5).links)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--topology", "moebius"], "moebius"),
        (["--policy", "anarchy"], "anarchy"),
        (["--target", "abacus"], "abacus"),
    ],
)
def test_a_wrong_name_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "prepare", lambda: trace.record("digits", workers=4, rounds=1)[0])
    assert run.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert error.count("\n") == 1


def test_a_damaged_trace_is_recorded_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepare, "WORKLOAD", "digits")
    path = tmp_path / "trace.npz"
    path.write_bytes(b"damaged")
    prepare.prepare(path)
    first = path.stat().st_mtime_ns
    assert trace.load(path).workers == prepare.WORKERS
    prepare.prepare(path)
    assert path.stat().st_mtime_ns == first


def test_a_folder_that_cannot_be_written_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "build/run")

    monkeypatch.setitem(run.JOBS, "live", fail)
    assert run.main([]) == 1
    assert capsys.readouterr().err == "error: build/run: Permission denied\n"
