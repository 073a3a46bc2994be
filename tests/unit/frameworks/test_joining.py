# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""How a script finds its job and rank, and what it is told where it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from gradlane.extras import require
from topologies.errors import UsageError
from traffic.collectives.job import Job
from traffic.frameworks import joining, launch
from traffic.frameworks.joining import as_floats, check_size, from_floats, job_of, layers_of, rank_of

ROOT = Path(__file__).resolve().parents[3]
JOB = Job(number=1, workers=("127.0.0.1", "127.0.0.2"), collective="ring")


def test_the_core_imports_no_framework() -> None:
    modules = "gradlane, gradlane.run, traffic.frameworks.gate, traffic.frameworks.launch"
    frameworks = "{'torch', 'tensorflow', 'keras', 'mxnet'}"
    code = f"import sys, {modules}; print(sorted({frameworks} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


def test_a_missing_framework_is_named_with_what_installs_it() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"nowhere is not installed: pip install 'gradlane\[pytorch\]'"):
        require("nowhere", "pytorch")


def test_a_job_comes_from_the_caller_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "job.json"
    JOB.save(file)
    assert job_of(JOB) is JOB
    assert job_of(file) == job_of(str(file)) == JOB
    monkeypatch.setenv(joining.JOB_VARIABLE, str(file))
    assert job_of(None) == JOB
    monkeypatch.delenv(joining.JOB_VARIABLE)
    with pytest.raises(UsageError, match="there is no job: give job=, or the path of a job file in GRADLANE_JOB"):
        job_of(None)


def test_a_file_that_is_no_job_is_named(tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    for content in ("{", "[]", json.dumps({"number": 1, "workers": []}), json.dumps({**JOB.as_dict(), "tolerence": 1})):
        file.write_text(content)
        with pytest.raises(UsageError) as raised:
            job_of(file)
        assert str(raised.value).startswith(f"{file}: ") and "\n" not in str(raised.value)
    with pytest.raises(UsageError, match="cannot read"):
        job_of(tmp_path / "none.json")


def test_a_rank_comes_from_the_caller_or_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert rank_of(1) == 1
    assert rank_of(None) == 3
    monkeypatch.setenv("RANK", "first")
    with pytest.raises(UsageError, match="RANK is 'first', which is no rank"):
        rank_of(None)
    monkeypatch.delenv("RANK")
    with pytest.raises(UsageError, match="there is no rank: give rank=, or set RANK"):
        rank_of(None)


def test_sizes_that_differ_are_told() -> None:
    check_size(JOB, 2)
    with pytest.raises(UsageError, match="the job has 2 workers, but the process group has 3"):
        check_size(JOB, 3)


def test_parameters_of_one_owner_are_one_layer_in_the_order_of_definition() -> None:
    assert layers_of(["conv.weight", "conv.bias", "block.0.weight", "block.1.weight", "conv.scale"], ".") == [
        0,
        0,
        1,
        2,
        0,
    ]
    assert layers_of(["dense/kernel", "dense/bias", "dense_1/kernel"], "/") == [0, 0, 1]
    assert layers_of(["scale", "conv.weight"], ".") == [0, 1]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("shape", [(), (1,), (3, 5)])
def test_any_array_travels_as_floats_without_a_change(dtype: type, shape: tuple[int, ...]) -> None:
    array = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    back = from_floats(as_floats(array), np.empty_like(array))
    assert back.dtype == array.dtype and back.shape == array.shape
    np.testing.assert_array_equal(back, array)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--tolerance", "1.5", "x.py"], "error: a tolerance is a share from 0 to 1, not 1.5"),
        (["--servers", "0", "x.py"], "error: a job has parameter servers if, and only if, its collective is ps"),
        (["--workers", "0", "x.py"], "error: a job has at least one worker"),
        (["--workers", "101", "x.py"], "error: at most 100 processes run on loopback, not 101"),
        (["--network", "10", "x.py"], "error: '10.1' is no IP address"),
        (["none.py"], "error: there is no script none.py"),
    ],
)
def test_what_cannot_be_launched_is_said_in_one_line(
    options: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert launch.main(options) == 2
    assert capsys.readouterr().err.splitlines() == [complaint]


SCRIPT = """
import os, sys, time
print(os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["GRADLANE_JOB"], flush=True)
if os.environ["RANK"] == sys.argv[1]:
    sys.exit(7)
time.sleep(600)
"""


def test_when_a_worker_fails_the_others_are_ended(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    job = Job(number=1, workers=("127.0.0.1", "127.0.0.2"), collective="ring", patience=0.1)
    places = [launch.Place(address) for address in job.workers]
    with launch.Launch(job, [str(script), "1"], places, []) as launched:
        assert launched.wait(100)[1] == 7
        assert launched.workers[0].returncode < 0
        folder = launched.folder
        assert folder is not None
    assert not folder.exists()


def test_processes_are_ended_when_the_launch_is_left(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    job = Job(number=1, workers=("127.0.0.1",), servers=("127.77.77.101",))
    launched = launch.Launch(job, [str(script), "none"], [launch.Place("127.0.0.1")], [launch.Place("127.77.77.101")])
    with pytest.raises(ZeroDivisionError), launched:
        raise ZeroDivisionError
    assert [len(launched.workers), len(launched.servers)] == [1, 1]
    assert all(process.returncode is not None for process in launched.workers + launched.servers)
