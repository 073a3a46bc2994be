# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A recorded trace holds a real job's gradients, survives its file, and a damaged file is told in one line."""

import json
from pathlib import Path

import numpy as np
import pytest

from topologies.errors import FailureError, UsageError
from traffic import trace
from traffic.packer import place
from traffic.wire import GradientFlag


@pytest.fixture(scope="module")
def digits() -> trace.Trace:
    recorded, _ = trace.record("digits", workers=3, rounds=4, every=2, samples=16)
    return recorded


def test_training_that_is_recorded_learns() -> None:
    _, accuracy = trace.record("digits", workers=4, rounds=10, every=20)
    assert accuracy > 0.85


def test_a_trace_has_every_worker_layer_and_round(digits: trace.Trace) -> None:
    assert (digits.workers, digits.layers, digits.rounds) == (3, 2, (1, 3, 5, 7))
    assert digits.values.shape == (4, 3, 64 * 32 + 32 + 32 * 10 + 10)
    assert [p.name for p in digits.parameters] == ["bias1", "weights1", "bias0", "weights0"]
    flat = digits.values.reshape(12, -1)
    assert len(np.unique(flat, axis=0)) == 12


def test_recording_is_repeatable(digits: trace.Trace) -> None:
    again, _ = trace.record("digits", workers=3, rounds=4, every=2, samples=16)
    assert np.array_equal(again.values, digits.values)


def test_packets_carry_the_values_back_layer_first(digits: trace.Trace) -> None:
    packets = digits.packets(worker=1, job=7, per_packet=100)
    header = packets.headers
    assert np.array_equal(header["sequence"], np.arange(len(packets)))
    assert set(header["rank"].tolist()) == {1}
    assert set(header["job"].tolist()) == {7}
    assert header["layer"][0] == 1
    assert header["layer"][-1] == 0
    for index in range(4):
        for parameter, expected in digits.tensors(index, 1):
            chosen = (header["round"] == index) & (header["tensor"] == parameter.tensor)
            found = np.full(parameter.size, np.nan, np.float32)
            place(type(packets)(packets.frames[chosen], packets.lengths[chosen]), found)
            assert np.array_equal(found, expected)


def test_small_tensors_are_protected_in_packets(digits: trace.Trace) -> None:
    header = digits.packets(worker=0, per_packet=100).headers
    sizes = {parameter.tensor: -(-parameter.size // 100) for parameter in digits.parameters}
    protected = (header["flags"] & GradientFlag.PROTECTED) != 0
    assert protected.tolist() == [sizes[tensor] < 8 for tensor in header["tensor"].tolist()]


def test_a_saved_trace_loads_equal(digits: trace.Trace, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "digits.npz"
    trace.save(digits, path)
    loaded = trace.load(path)
    assert np.array_equal(loaded.values, digits.values)
    assert (loaded.workload, loaded.samples, loaded.rounds, loaded.parameters) == (
        digits.workload,
        digits.samples,
        digits.rounds,
        digits.parameters,
    )
    assert [file.name for file in path.parent.iterdir()] == ["digits.npz"]


def test_a_trace_that_cannot_be_written_is_told_in_one_line(digits: trace.Trace, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "t.npz", tmp_path / "folder"):
        with pytest.raises(FailureError, match=f"cannot write the trace {path}: ") as caught:
            trace.save(digits, path)
        assert "\n" not in str(caught.value)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


def test_neither_a_link_nor_a_device_is_replaced_by_a_trace(digits: trace.Trace, tmp_path: Path) -> None:
    (link := tmp_path / "link").symlink_to("/dev/null")
    trace.save(digits, link)
    assert link.is_symlink() and link.is_char_device() and list(tmp_path.iterdir()) == [link]


def archive(path: Path, about: object, values: np.ndarray) -> Path:
    with path.open("wb") as file:
        np.savez(file, about=np.array(json.dumps(about)), values=values)
    return path


def good_about(digits: trace.Trace, **changes: object) -> dict[str, object]:
    parameters = [vars_of(p) for p in digits.parameters]
    about = {"format": trace.FORMAT, "version": trace.FORMAT_VERSION, "workload": "digits", "samples": 16}
    return {**about, "rounds": [1, 3, 5, 7], "parameters": parameters, **changes}


def vars_of(parameter: trace.Parameter) -> dict[str, object]:
    return {name: getattr(parameter, name) for name in ("tensor", "layer", "name", "shape")}


def one_line(path: Path) -> str:
    with pytest.raises(UsageError) as raised:
        trace.load(path)
    text = str(raised.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text


def test_a_missing_or_foreign_file_is_told_in_one_line(tmp_path: Path) -> None:
    assert "no such trace" in one_line(tmp_path / "none.npz")
    for content, message in ((b"hello", "not a"), (b"", "not a"), (b"PK\x03\x04 and no more", "damaged")):
        path = tmp_path / "file"
        path.write_bytes(content)
        assert message in one_line(path)
    assert "cannot read" in one_line(tmp_path)


def test_a_damaged_file_is_told_in_one_line_or_harmless(digits: trace.Trace, tmp_path: Path) -> None:
    path = tmp_path / "trace.npz"
    trace.save(digits, path)
    whole = path.read_bytes()
    random = np.random.default_rng(0)
    edges = [*range(120), *range(len(whole) - 250, len(whole))]  # the archive's own structures
    for position in [*edges, *random.integers(0, len(whole), 50).tolist()]:
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1 << random.integers(8)]) + whole[position + 1 :])
        try:
            loaded = trace.load(path)
        except UsageError as error:
            assert "\n" not in str(error)
        else:  # a date, an attribute: nothing that is read
            assert np.array_equal(loaded.values, digits.values)
    for length in random.integers(0, len(whole), 20).tolist():
        path.write_bytes(whole[:length])
        one_line(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "not a Gradlane trace"),
        ({"version": 99}, "version 99"),
        ({"rounds": [1]}, "disagree"),
        ({"parameters": []}, "disagree"),
        ({"parameters": [{"tensor": 0}]}, "damaged"),
        ({"samples": "many"}, "damaged"),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(
    digits: trace.Trace, tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    assert message in one_line(archive(tmp_path / "trace.npz", good_about(digits, **changes), digits.values))


def test_values_of_another_type_are_refused(digits: trace.Trace, tmp_path: Path) -> None:
    assert "damaged" in one_line(archive(tmp_path / "t.npz", good_about(digits), digits.values.astype(np.float64)))


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(UsageError, match="no workload"):
        trace.record("imagenet", workers=1, rounds=1)
