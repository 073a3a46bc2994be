# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`python -m traffic.frameworks.launch --workers h1,h2 --servers h5` in the hosts of a running fabric."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import topologies
from controller.reconcile import install
from topologies.mininet_fabric import MininetFabric
from topologies.state import PATH_VARIABLE
from traffic.hosts import ROOT

pytestmark = [pytest.mark.fabric, pytest.mark.timeout(120)]

SCRIPT = """
import sys
from pathlib import Path
import numpy as np
from traffic.frameworks.joining import join

with join() as communicator:
    values = np.full(50_000, communicator.rank + 1, np.float32)
    total = communicator.all_reduce(values, tensor=0, round=0).result(30).values
    links = sorted(line.split(":")[0].strip() for line in Path("/proc/net/dev").read_text().splitlines()[2:])
    text = f"{communicator.rank} {communicator.job.line_rate:g} {total[0]} {total[-1]} {','.join(links)}"
    Path(sys.argv[1], f"rank{communicator.rank}").write_text(text)
    if "fail" in sys.argv and communicator.rank == 1:
        sys.exit("rank 1 has had enough")
    communicator.barrier()
"""


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MininetFabric]:
    folder = tmp_path_factory.mktemp("launch")
    path = folder / "fabric.json"
    with MininetFabric(topologies.load("leaf_spine"), instance=None, state_path=path, logs=folder) as net:
        install(path, "dlcp").check()
        yield net


def launch(net: MininetFabric, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    script = folder / "train.py"
    script.write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, "-m", "traffic.frameworks.launch", *arguments[:4], str(script), str(folder), *arguments[4:]],
        env={**os.environ, PATH_VARIABLE: str(net.state_path)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def test_workers_and_servers_run_in_the_hosts_that_were_named(net: MininetFabric, tmp_path: Path) -> None:
    done = launch(net, tmp_path, "--workers", "h1,h2", "--servers", "h5")
    assert (done.returncode, done.stderr) == (0, "")
    fabric = net.running.fabric
    rate = fabric.link("h1", fabric.host("h1").switch).rate_from("h1")
    for rank, host in enumerate(("h1", "h2")):
        links = ",".join(sorted(["lo", fabric.interface(host, 0)]))
        assert (tmp_path / f"rank{rank}").read_text() == f"{rank} {rate:g} 1.5 1.5 {links}"


def test_a_worker_that_fails_ends_the_launch_with_its_line(net: MininetFabric, tmp_path: Path) -> None:
    done = launch(net, tmp_path, "--workers", "h1,h6", "--servers", "h5", "fail")
    assert done.returncode == 1
    assert "rank 1 has had enough" in done.stderr


def test_a_host_that_the_fabric_lacks_is_one_line(net: MininetFabric, tmp_path: Path) -> None:
    done = launch(net, tmp_path, "--workers", "h1,h99", "--servers", "h5")
    assert done.returncode == 2
    assert done.stderr == f"error: fabric {net.running.fabric.name} has no host 'h99'\n"
