# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Networks and schedules that make no sense are refused in one line that says what is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from topologies.errors import UsageError
from traffic.collectives.tacos.files import load, save, whole
from traffic.collectives.tacos.naming import network_of
from traffic.collectives.tacos.network import mesh
from traffic.collectives.tacos.schedule import Collective, demand
from traffic.collectives.tacos.synthesis import synthesise
from traffic.collectives.tacos.verify import RejectedError, verify

Edit = Callable[[dict[str, Any]], Any]


def edited(folder: Path, edit: Edit) -> Path:
    """Return a schedule's file in which something was changed."""
    network = mesh(2, 3)
    file = folder / "schedule.json"
    save(synthesise(network, demand(network, Collective.ALL_GATHER, 1e6)), file)
    about = json.loads(file.read_text())
    edit(about)
    file.write_text(json.dumps(about))
    return file


SENSELESS: dict[str, tuple[Edit, str]] = {
    "a chunk that is no number": (lambda a: a["sends"][1].__setitem__(0, "x"), "invalid literal"),
    "a send over no link": (lambda a: a["sends"][1].__setitem__(1, 9999), "link 9999 of 14"),
    "a chunk below zero": (lambda a: a["sends"][1].__setitem__(0, -1), "below 0"),
    "a link that would wrap": (lambda a: a["sends"][0].__setitem__(1, 1 << 40), "beyond 32 bits"),
    "a send that is short": (lambda a: a["sends"][0].pop(), "is no schedule"),
    "no such collective": (lambda a: a.update(collective="dance"), "dance"),
    "a member that the network lacks": (lambda a: a.update(group=[0, 1, 99]), "has NPUs 0..5, not 99"),
    "nobody": (lambda a: a.update(group=[]), "at least one NPU"),
    "no chunks": (lambda a: a.update(chunks=0), "at least one chunk"),
    "chunks that are not dealt out": (lambda a: a.update(chunks=7), "7 chunks are no multiple of 6"),
    "chunks beyond counting": (lambda a: a.update(chunks=6 * 10**9), "too many"),
    "less than a byte": (lambda a: a.update(size=-5), "one byte"),
    "endless": (lambda a: a.update(size=1e300), "would take a link"),
    "a root from elsewhere": (lambda a: a.update(root=77), "root 77"),
    "a network without links": (lambda a: a["network"].update(links=[]), "no links"),
    "a link to nowhere": (lambda a: a["network"].update(npus=2), "is not one"),
    "a link that carries nothing": (lambda a: a["network"]["links"][0].__setitem__(3, 0), "is not one"),
    "links in another order": (lambda a: a["network"]["links"].reverse(), "not in order"),
    "more NPUs than memory": (lambda a: a["network"].update(npus=10**12), "too many"),
    "ports that do not exist": (
        lambda a: a["network"].update(ports={"first": [0], "port": [5], "slots": [1]}),
        "ports that do not exist",
    ),
    "ports that are no table": (lambda a: a["network"].update(ports=5), "has no attribute 'items'"),
    "a shape of other NPUs": (lambda a: a["network"].update(shape=[3, 5]), "not one of 6 NPUs"),
    "ways of other links": (lambda a: a["network"].update(ways=["h1 s1 h2"]), "not those of its links"),
    "a later version": (lambda a: a.update(version=2), "version 1"),
}


@pytest.mark.parametrize("name", SENSELESS)
def test_a_file_that_makes_no_sense_is_refused_with_its_name(tmp_path: Path, name: str) -> None:
    edit, complaint = SENSELESS[name]
    file = edited(tmp_path, edit)
    with pytest.raises(UsageError, match=complaint) as refused:
        load(file)
    assert "schedule.json" in str(refused.value) and "\n" not in str(refused.value)


def test_an_archive_whose_columns_differ_in_length_is_refused(tmp_path: Path) -> None:
    network, file = mesh(2, 2), tmp_path / "schedule.npz"
    save(synthesise(network, demand(network, Collective.ALL_GATHER, 1e6)), file)
    with np.load(file) as archive:
        columns = {name: archive[name] for name in archive.files}
    np.savez(file, **{**columns, "reduces": columns["reduces"][:-1]})
    with pytest.raises(UsageError, match=r"schedule\.npz: .*unequal length"):
        load(file)


@pytest.mark.parametrize(
    "edit",
    [
        lambda a: a["sends"][1].__setitem__(0, 99),
        lambda a: a["sends"][1].__setitem__(3, 5),
        lambda a: a["sends"].pop(),
        lambda a: a["sends"].clear(),
    ],
    ids=["chunk", "end", "one less", "none"],
)
def test_a_file_of_a_wrong_schedule_is_read_and_rejected(tmp_path: Path, edit: Edit) -> None:
    schedule = load(edited(tmp_path, edit))
    with pytest.raises(RejectedError):
        verify(schedule)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("mesh:0x3", "at least 1"),
        ("mesh:4x4@0", "is not one"),
        ("mesh:4x4@..", "unknown topology"),
        ("mesh:99999x99999", "too many"),
        (f"torus:{'9' * 5000}", "unknown topology"),
        (f"ring:{'9' * 5000}", "unknown topology"),
        ("hypercube:60", "too many"),
        ("full:100000", "too many"),
    ],
)
def test_a_network_that_cannot_be_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        network_of(text)


def test_an_edge_list_names_every_npu(tmp_path: Path) -> None:
    file = tmp_path / "gap.csv"
    file.write_text("0,99999999999,50,5\n99999999999,0,50,5\n")
    with pytest.raises(UsageError, match="no link of NPU 1"):
        network_of(str(file))


def test_an_edge_list_with_a_field_beyond_reading_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "long.csv"
    file.write_text(f"0,{'1' * 200_000},1,1\n")
    with pytest.raises(UsageError, match=r"long\.csv: cannot read: field larger"):
        network_of(str(file))


def test_a_schedule_that_memory_would_not_hold_is_refused() -> None:
    network = mesh(4, 4)
    with pytest.raises(UsageError, match="too many to hold"):
        synthesise(network, demand(network, Collective.ALL_GATHER, 1e9, chunks=10**8))
    with pytest.raises(UsageError, match="would take a link"):
        synthesise(network, demand(network, Collective.ALL_GATHER, float("inf")))


def test_who_is_ended_in_the_middle_of_writing_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    file.write_text("before")
    with pytest.raises(KeyboardInterrupt), whole(file) as draft:
        draft.write_text("ha")
        raise KeyboardInterrupt
    assert file.read_text() == "before" and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_schedule_is_written_beside_its_place_and_then_put_there(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, file = mesh(2, 2), tmp_path / f"schedule{suffix}"
    schedule = synthesise(network, demand(network, Collective.ALL_GATHER, 1e6))
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        save(schedule, file)
    assert not list(tmp_path.iterdir())
    monkeypatch.undo()
    link = tmp_path / f"link{suffix}"
    link.symlink_to(file)
    save(schedule, link)
    assert link.is_symlink() and verify(load(file)).sends == len(schedule.chunk)


def test_what_is_no_file_is_written_itself() -> None:
    null = Path("/dev/null")
    with whole(null) as draft:
        assert draft == null
    assert null.is_char_device()
    for place in ("/dev/null/schedule.json", "/", "/proc/schedule.json"):
        with pytest.raises(UsageError, match="cannot write"), whole(Path(place)) as draft:
            draft.write_text("x")
