# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""`make run` shows what the fabric promises, and leaves nothing behind, however it ends."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from gradlane import run
from topologies import kernel, processes, state
from topologies.errors import FailureError

pytestmark = pytest.mark.fabric

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "gradlane> "

SCRIPT = """
import sys
from pathlib import Path
from rich.console import Console
from gradlane import run

folder = Path(sys.argv[1])
run.run("leaf_spine", "dlcp", "softswitch", Console(), interactive=sys.stdin.isatty(), seconds=float(sys.argv[2]),
        flow_hash_seconds=0.5, training_seconds=3, instance=None, state_path=folder / "fabric.json",
        output=folder / "run")
"""


def started(tmp_path: Path, seconds: float, **streams: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", SCRIPT, str(tmp_path), str(seconds)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.STDOUT, start_new_session=True, text=True, **streams)


class Terminal:
    """Our end of a terminal."""

    def __init__(self) -> None:
        self.fd, self.line = pty.openpty()
        self.shown = ""

    def read_until(self, text: str, seconds: float = 90.0) -> str:
        """Return what is shown up to `text`, or fail."""
        deadline = time.monotonic() + seconds
        while text not in self.shown:
            left = deadline - time.monotonic()
            assert left > 0, f"the terminal never showed {text!r}; it shows {self.shown[-2000:]}"
            if select.select([self.fd], [], [], left)[0]:
                self.shown += os.read(self.fd, 65536).decode(errors="replace")
        before, _, self.shown = self.shown.partition(text)
        return before

    def ask(self, command: str) -> str:
        """Type a command and return what is shown until the next prompt."""
        os.write(self.fd, f"{command}\n".encode())
        return self.read_until(PROMPT)


@dataclass(frozen=True)
class Prompt:
    """A run that waits at its prompt."""

    folder: Path
    terminal: Terminal
    process: "subprocess.Popen[str]"
    shown: str
    """Before the prompt."""


@pytest.fixture(scope="module")
def prompt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prompt]:
    """A run at a terminal that has shown everything and opened its prompt."""
    folder = tmp_path_factory.mktemp("run")
    terminal = Terminal()
    with started(folder, 4, stdin=terminal.line, stdout=terminal.line) as process:
        try:
            os.close(terminal.line)
            yield Prompt(folder, terminal, process, terminal.read_until(PROMPT))
            process.terminate()  # where no test has left
            process.wait(timeout=60)
        finally:
            process.kill()
            os.close(terminal.fd)


@pytest.mark.timeout(180)
def test_the_incast_keeps_what_matters(prompt: Prompt) -> None:
    summary = json.loads((prompt.folder / "run" / "summary.json").read_text())
    assert (prompt.folder / "run" / "summary.png").stat().st_size > 10_000

    packets, delivered = summary["packets"], summary["delivered"]
    assert packets["sent"] > 35_000
    assert packets["altered"] == packets["foreign"] == packets["duplicates"] == packets["host_drops"] == 0
    assert delivered["total"] < 0.85, "the last link is overloaded"
    assert delivered["most_important_quarter"] >= 0.999
    bands = delivered["importance"]
    assert bands[0] < bands[2] < bands[7]
    lost = [1 - band for band in bands]
    assert sum(lost[:3]) > 0.9 * sum(lost), "losses are concentrated in the least important bands"
    assert set(delivered["class"]) == {"6", "5", "4"}

    waited = summary["queue_delay_us"]
    assert waited["4"]["p99"] >= 5 * waited["6"]["p99"] > 0
    sprayed, hashed = (summary["paths"][mode]["leaf1"] for mode in ("round_robin", "flow_hash"))
    assert sorted(sprayed) == ["spine1", "spine2"]
    assert max(abs(2 * share - 1) for share in sprayed.values()) <= 0.05
    assert max(abs(2 * share - 1) for share in hashed.values()) > 0.2
    assert summary["drops"]["importance"] > 0
    assert sum(summary["drops"].values()) == packets["sent"] - packets["delivered"]
    assert summary["drops"]["unaccounted"] < 0.001 * packets["sent"]
    assert summary["startup_s"] > 0

    training = summary["training"]
    # How far it comes in its seconds is the machine's; that it learns is ours.
    assert training["rounds"] == len(training["curve"]) > 1
    assert training["curve"][0]["loss"] > 2
    assert training["loss"] < training["curve"][0]["loss"]
    assert training["accuracy"] > training["curve"][0]["accuracy"]
    assert 0 <= training["lost"] <= training["tolerance"]
    assert training["lost_by_importance"][7] <= training["lost_by_importance"][0]


@pytest.mark.timeout(180)
def test_the_prompt_opens_at_a_terminal_and_knows_our_verbs(prompt: Prompt) -> None:
    terminal = prompt.terminal
    assert "written:" in prompt.shown
    assert '"neighbour": "spine1"' in terminal.ask("paths --json")
    assert '"reason": "importance"' in terminal.ask("drops --json")
    assert "leaf2" in terminal.ask("queues leaf2")
    assert "no switch 'leaf9'" in terminal.ask("queues leaf9")
    assert terminal.ask("h1 ping -c 1 h5").count("1 received") == 1
    terminal.ask("link leaf1 spine1 down")
    deadline = time.monotonic() + 90
    while ", 0% packet loss" not in terminal.ask("h1 ping -i 0.2 -c 8 h5"):
        assert time.monotonic() < deadline, "the other spine takes over"
    os.write(terminal.fd, b"exit\n")
    assert prompt.process.wait(timeout=60) == 0
    assert not (prompt.folder / "fabric.json").exists()


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_while_traffic_runs_leaves_nothing(tmp_path: Path, number: signal.Signals) -> None:
    with started(tmp_path, 60, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            while "send gradients" not in (line := process.stdout.readline()):
                assert line, "the run ended early"
            running = state.load(tmp_path / "fabric.json")
            deadline = time.monotonic() + 30
            while not any("traffic.replay.sender" in command for command in commands(running.run)):
                assert time.monotonic() < deadline
                select_nothing(0.05)
            process.send_signal(number)
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert processes.marked(running.run) == []
    present = kernel.interface_names()
    fabric = running.fabric
    assert not any(port.interface in present for switch in fabric.switches for port in fabric.ports(switch.name))
    assert not (tmp_path / "fabric.json").exists()


def commands(run_number: int) -> list[str]:
    found = []
    for process in processes.marked(run_number):
        path = Path(f"/proc/{process.pid}/cmdline")
        found.append(path.read_bytes().replace(b"\0", b" ").decode() if path.exists() else "")
    return found


def select_nothing(seconds: float) -> None:
    """Wait a moment between two looks."""
    signal.sigtimedwait([], seconds)


@pytest.mark.timeout(120)
def test_a_switch_that_dies_ends_the_run_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = run.session.run

    def kill_then_run(sources, sink, timing, check):
        running = state.load(tmp_path / "fabric.json")
        victim = running.switches["leaf2"].process
        assert victim is not None
        os.kill(victim.pid, signal.SIGKILL)
        return real(sources, sink, timing, check)

    monkeypatch.setattr(run.session, "run", kill_then_run)
    with pytest.raises(FailureError, match="killed by signal 9") as raised:
        run.run(
            "leaf_spine", "dlcp", "softswitch", Console(quiet=True), instance=None, state_path=tmp_path / "fabric.json"
        )
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "fabric.json").exists()
