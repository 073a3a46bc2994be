# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Ranks and servers over UDP sockets on the loopback interface, in threads and as processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.collectives.world import expected, gradients
from topologies.errors import FailureError, UsageError
from traffic.collectives.communicator import Communicator
from traffic.collectives.errors import CollectiveError
from traffic.collectives.job import Budget, Job, Op
from traffic.collectives.server import Server
from traffic.collectives.tacos.files import save
from traffic.collectives.tacos.network import torus
from traffic.collectives.tacos.schedule import Collective, demand
from traffic.collectives.tacos.synthesis import synthesise
from traffic.transport.loss import Fill
from traffic.transport.tolerance import Tolerance
from traffic.wire import DataType

LONG = 60


def job(workers: int, servers: int = 0, **rules: Any) -> Job:
    """Addresses of this process's own, so that tests at the same time do not meet."""
    net = f"127.{100 + os.getpid() // 256 % 100}.{os.getpid() % 256}"
    return Job(
        number=1,
        workers=tuple(f"{net}.{1 + rank}" for rank in range(workers)),
        servers=tuple(f"{net}.{100 + index}" for index in range(servers)),
        collective=rules.pop("collective", "ps" if servers else "ring"),
        **rules,
    )


def everywhere(job: Job, work: Callable[[Communicator], Any]) -> list[Any]:
    """Run a function at every rank, each in a thread, and return what they return, or raise."""

    def rank(number: int) -> Any:
        with Communicator(job, number) as communicator:
            return work(communicator)

    with ExitStack() as stack:
        servers = [stack.enter_context(Server(job, index)) for index in range(len(job.servers))]
        with ThreadPoolExecutor(len(job.workers)) as pool:
            results = [future.result(LONG) for future in [pool.submit(rank, n) for n in range(len(job.workers))]]
        for server in servers:
            assert server.wait(LONG)
    return results


@pytest.mark.parametrize("rules", [{"servers": 2}, {"collective": "ring"}, {"collective": "halving_doubling"}], ids=str)
def test_ranks_sum_their_tensors_layer_by_layer(rules: dict[str, Any]) -> None:
    shapes = [(784, 60), (60,), (60, 10), (10,)]
    here = job(4, **rules, op=Op.WEIGHTED_MEAN)
    given = {
        (rank, round_): [gradients(4, int(np.prod(shape)), round_)[rank].reshape(shape) for shape in shapes]
        for rank in range(4)
        for round_ in range(3)
    }

    def work(communicator: Communicator) -> list[list[Any]]:
        found = []
        for round_ in range(3):
            tensors = given[communicator.rank, round_]
            futures = communicator.all_reduce_each(
                tensors, layers=[0, 0, 1, 1], round=round_, weight=1 + communicator.rank
            )
            found.append([future.result(LONG) for future in futures])
        communicator.barrier()
        assert communicator.statistics.lost_values == 0
        return found

    results = everywhere(here, work)
    for round_ in range(3):
        for tensor, shape in enumerate(shapes):
            of_rank = [results[rank][round_][tensor] for rank in range(4)]
            wanted = expected(here, [given[rank, round_][tensor] for rank in range(4)], [1, 2, 3, 4])
            np.testing.assert_allclose(of_rank[0].values, wanted, atol=1e-6)
            for found in of_rank:
                assert found.values.shape == shape and found.weight == 10
                np.testing.assert_array_equal(found.values, of_rank[0].values)


def test_a_schedule_of_another_collective_is_run_as_such_and_sums_nothing_else(tmp_path: Path) -> None:
    network = torus(3)
    save(synthesise(network, demand(network, Collective.ALL_GATHER, 1e6)), tmp_path / "gather.npz")

    def work(communicator: Communicator) -> list[float]:
        communicator.barrier()  # which no schedule but one of sums could make
        with pytest.raises(UsageError, match="the job's schedule is of all_gather, not of all_reduce"):
            communicator.all_reduce(np.ones(9), tensor=0, round=0)
        return communicator.run(np.full(3 * 360, communicator.rank), tensor=0).result(LONG).values[::360].tolist()

    assert everywhere(job(3, collective=str(tmp_path / "gather.npz")), work) == [[0, 1, 2]] * 3


def test_callbacks_may_submit_the_next_tensor() -> None:
    def work(communicator: Communicator) -> float:
        second = threading.Event()
        found: list[Any] = []

        def then(_: Any) -> None:
            found.append(communicator.all_reduce(np.full(1000, 2.0), tensor=1, round=0))
            second.set()

        communicator.all_reduce(np.ones(1000), tensor=0, round=0).add_done_callback(then)
        assert second.wait(LONG)
        return float(found[0].result(LONG).values.sum())

    assert everywhere(job(3, op=Op.SUM), work) == [6000.0] * 3


def test_a_rank_that_raises_ends_the_others_with_its_reason() -> None:
    here, errors = job(3, servers=1), []

    def work(communicator: Communicator) -> None:
        try:
            communicator.barrier()
            if communicator.rank == 1:
                raise ValueError("the loss is nan")
            communicator.all_reduce(np.ones(5000), tensor=0, round=0).result(LONG)
        except CollectiveError as error:
            errors.append(str(error))
            raise

    with pytest.raises((CollectiveError, ValueError), match="the loss is nan"):
        everywhere(here, work)
    assert errors == [f"rank 1 ({here.workers[1]}) gave up: the loss is nan"] * 2


def test_who_does_not_come_is_named() -> None:
    here = job(2, connect_timeout=0.5)
    with pytest.raises(CollectiveError, match=r"rank 1 \(127\..*\) did not come within 0\.5 s"):
        Communicator(here, 0)


def test_the_wait_for_the_others_can_be_abandoned() -> None:
    alone = job(2, connect_timeout=LONG)

    def leave(communicator: Communicator) -> None:
        communicator.abandon("they go on without us")

    with pytest.raises(CollectiveError, match="they go on without us"):
        Communicator(alone, 0, opening=leave)


def test_other_jobs_are_refused() -> None:
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(Communicator, job(2, op=op), rank) for rank, op in enumerate((Op.SUM, Op.MEAN))]
        for future in futures:
            with pytest.raises(CollectiveError, match="runs another job"):
                future.result(LONG)


def test_a_closed_communicator_says_so() -> None:
    communicator = Communicator(job(1), 0)
    communicator.close()
    with pytest.raises(FailureError, match="closed"):
        communicator.all_reduce(np.ones(3), tensor=0, round=0).result(LONG)
    assert communicator.statistics.packets == 0


WORKER = """
import sys
from pathlib import Path
import numpy as np
from traffic.collectives.communicator import Communicator
from traffic.collectives.job import Job

job, rank = Job.load(Path(sys.argv[1])), int(sys.argv[2])
with Communicator(job, rank) as communicator:
    print("met", flush=True)
    for round_ in range(10**9 if len(sys.argv) > 3 else 3):
        communicator.all_reduce(np.full(50_000, rank + 1.0), tensor=0, round=round_).result()
print("done", flush=True)
"""


class Processes:
    """Started processes, which are ended in any case."""

    def __init__(self) -> None:
        self.all: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.all.append(subprocess.Popen([sys.executable, *arguments], **pipes))  # type: ignore[call-overload]
        return self.all[-1]

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.all:
            process.kill()
            process.communicate()


def test_processes_train_and_the_servers_end_with_them(tmp_path: Path) -> None:
    here = job(2, servers=2, op=Op.SUM)
    here.save(tmp_path / "job.json")
    file = str(tmp_path / "job.json")
    with Processes() as processes:
        for index in range(2):
            processes.start("-m", "traffic.collectives.server", file, "--index", str(index))
        for rank in range(2):
            processes.start("-c", WORKER, file, str(rank))
        outputs = [process.communicate(timeout=LONG) for process in processes.all]
        assert [out for out, _ in outputs] == ["ready\n", "ready\n", "met\ndone\n", "met\ndone\n"], outputs
        assert [process.returncode for process in processes.all] == [0] * 4


@pytest.mark.parametrize("victim", ["rank", "server", "server stopped"])
def test_a_process_that_is_killed_in_mid_round_ends_all_others_in_one_line(tmp_path: Path, victim: str) -> None:
    here = job(3, servers=1, patience=3.0)
    here.save(tmp_path / "job.json")
    file = str(tmp_path / "job.json")
    with Processes() as processes:
        server = processes.start("-m", "traffic.collectives.server", file)
        ranks = [processes.start("-c", WORKER, file, str(rank), "forever") for rank in range(3)]
        for rank in ranks:
            assert rank.stdout is not None
            assert rank.stdout.readline() == "met\n"
        killed = ranks[1] if victim == "rank" else server
        killed.send_signal(signal.SIGTERM if victim == "server stopped" else signal.SIGKILL)
        name = f"rank 1 ({here.workers[1]})" if victim == "rank" else f"server 0 ({here.servers[0]})"
        wanted = f"{name} was stopped" if victim == "server stopped" else f"{name} is lost: nothing was heard of it"
        for process in processes.all:
            _, errors = process.communicate(timeout=LONG)
            if process is not killed or victim == "server stopped":
                assert process.returncode == 1
                assert wanted in errors.splitlines()[-1]
                assert process is not server or len(errors.splitlines()) == 1


def test_a_job_is_the_same_from_its_file(tmp_path: Path) -> None:
    here = job(
        3,
        servers=2,
        op=Op.WEIGHTED_MEAN,
        wire=DataType.BFLOAT16,
        tolerance=Tolerance(push=0.2, by_class={6: 0.0}, schedule=((0, 0.0), (5, 1.0))),
        budget=Budget(0.1, 100),
        fill=Fill.PREVIOUS,
        error_feedback=False,
        key="00" * 16,
    )
    here.save(tmp_path / "job.json")
    assert Job.load(tmp_path / "job.json") == here


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ('{"workers": ["10.0.0.1"]}', "is no job"),
        ('{"number": 1, "workers": ["10.0.0.1"], "collective": "ring", "speed": 1}', "a job has no 'speed'"),
        ('{"number": 1, "workers": ["10.0.0.1"], "servers": []}', "parameter servers if, and only if"),
        ('{"number": 1, "workers": ["10.0.0.1", "10.0.0.1"], "collective": "ring"}', "an address of its own"),
        ('{"number": 1, "workers": ["h1"], "collective": "ring"}', "'h1' is no IP address"),
        ('{"number": 1, "workers": ["10.0.0.1"], "collective": "ring", "op": "max"}', "is no job"),
        ('{"number": 1, "workers": ["10.0.0.1"], "collective": "ring", "tolerance": {"push": 2}}', "is no job"),
        ('{"number": 1, "workers": ["10.0.0.1"], "collective": "ring", "tolerance": {"push": NaN}}', "is no job"),
        ('{"number": 1.5, "workers": ["10.0.0.1"], "collective": "ring"}', "a job's number"),
        ('{"number": 1, "workers": ["10.0.0.1"], "collective": "ring", "patience": NaN}', "above zero, and finite"),
        ('{"number": 1, "workers": ["10.0.0.1"], "collective": "ring", "timeout": Infinity}', "above zero, and finite"),
        ('{"number": 1, "workers": ["10.0.0.1"], "collective": "ring", "port": 70000}', "port is from 1 to 65535"),
        ('{"number": 1, "workers": ["10.0.0.1"], "collective": "ring", "key": "secret"}', "the job's key"),
        ('{"number": 1, "workers": ["10.0.0.1"], "collective": "ring", "key": "0011"}', "key has 16 to 64 bytes"),
        (
            '{"number": 1, "workers": ["10.0.0.1"], "servers": ["10.0.0.2"], "budget": {"share": 2, "rounds": 9}}',
            "budget",
        ),
    ],
)
def test_a_file_that_is_no_job_is_one_clear_line(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "job.json").write_text(text)
    with pytest.raises(UsageError, match=message) as raised:
        Job.load(tmp_path / "job.json")
    assert str(tmp_path / "job.json") in str(raised.value) and "\n" not in str(raised.value)


def test_weights_that_the_header_cannot_hold_together_are_refused() -> None:
    with Communicator(job(1), 0) as alone, pytest.raises(ValueError, match="weights of all 1 ranks are below"):
        alone.all_reduce(np.ones(5), tensor=0, round=0, weight=1 << 32)
