# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What every runner does: start switch processes, wait until each answers P4Runtime, notice a death, end them."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from topologies import processes
from topologies.errors import FailureError, UsageError
from topologies.model import Fabric, Switch
from topologies.processes import ProcessId

ROOT = Path(__file__).resolve().parents[2]
_POLL_SECONDS = 0.02
_STOP_SECONDS = 10.0  # a process of many switches detaches from many ports
_CAPABILITIES = "/p4.v1.P4Runtime/Capabilities"


@dataclass(frozen=True)
class Run:
    """What a runner needs to know of one run of a fabric.

    `files` is where it may put files of its own, `logs` where it puts what switches print.
    """

    mark: int
    fabric: Fabric
    files: Path
    logs: Path
    isolated: bool = False
    pcaps: Path | None = None


@dataclass
class SwitchProcess:
    """One process that runs one switch or several."""

    switches: tuple[str, ...]
    popen: subprocess.Popen[bytes]
    log: Path
    ending: bool = False  # it was asked to end, so that its end is no news
    identity: ProcessId | None = field(init=False)

    def __post_init__(self) -> None:
        self.identity = ProcessId.of(self.popen.pid)

    def last_words(self) -> str:
        """Return the last line that it printed, or nothing; that it was ready once does not count."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return ""
        return next((line.strip() for line in reversed(lines) if line.strip() not in ("", "ready")), "")

    def obituary(self) -> str:
        """Say in one line that it ended, how, and what it said last."""
        code = self.popen.poll()
        how = "runs" if code is None else processes.ending(code)
        names = " ".join(self.switches) if len(self.switches) <= 4 else f"all {len(self.switches)} switches"
        words = self.last_words()
        return f"the process of {names} {how}" + (f": {words}" if words else "") + f" (log {self.log})"


class Runner(ABC):
    """Starts and ends the switches of one run. `start` may raise; `stop` then still ends what began."""

    target: str
    has_kernel_queues: bool  # it sends through the kernel's queues, which then hold the links' rates and delays

    def __init__(self, run: Run) -> None:
        self.run = run
        self.fabric = run.fabric
        self.processes: list[SwitchProcess] = []
        self.dead: list[SwitchProcess] = []  # ended unasked
        self._died: Callable[[SwitchProcess], None] | None = None
        self._watchers: list[threading.Thread] = []

    @abstractmethod
    def check(self) -> None:
        """Raise if this machine cannot run the target: a program is missing."""

    @abstractmethod
    def start(self) -> None:
        """Start the switch processes; the ports exist and are up."""

    @abstractmethod
    def start_one(self, switch: Switch) -> SwitchProcess:
        """Start one switch in a process of its own."""

    def stop_one(self, switch: Switch) -> None:
        """End one switch; UsageError if it shares its process with others that go on."""
        process = self.process_of(switch.name)
        if process is None:
            raise UsageError(f"switch {switch.name} does not run")
        if len(process.switches) > 1:
            raise UsageError(f"switch {switch.name} shares its process with others; start the fabric isolated")
        self.end_process(process)

    def end_process(self, process: SwitchProcess) -> None:
        """End one switch process and forget it."""
        process.ending = True
        processes.end([process.identity] if process.identity else [], grace=_STOP_SECONDS)
        process.popen.wait()
        self.processes.remove(process)

    def configure(self, switches: Sequence[Switch]) -> None:
        """Set, once these switches are ready, what could not be set at their start."""
        return

    def thrift_port(self, switch: str) -> int | None:
        """Return the Thrift port of a switch; None if the target has none."""
        return None

    def process_of(self, switch: str) -> SwitchProcess | None:
        """Return the process that runs a switch."""
        return next((process for process in self.processes if switch in process.switches), None)

    def log_of(self, switch: str) -> Path:
        """Return the file that holds what the switch's process prints, or will print."""
        process = self.process_of(switch)
        return process.log if process else self.run.logs / f"{switch if self.run.isolated else self.target}.log"

    def check_ports_free(self) -> None:
        """Raise FailureError if another program listens where a switch would."""
        for switch in self.fabric.switches:
            for port in (switch.grpc_port, self.thrift_port(switch.name)):
                if port is not None and not _is_free(port):
                    raise FailureError(
                        f"port {port} of switch {switch.name} is in use by another program; "
                        "if that is a fabric, stop it with `make stop`"
                    )

    def bury(self, switch: Switch) -> None:
        """Forget that a switch died: it is about to start again."""
        for process in self.dead:
            process.switches = tuple(name for name in process.switches if name != switch.name)
        self.dead = [process for process in self.dead if process.switches]

    def launch(self, switches: Sequence[str], arguments: Sequence[str], log: Path) -> SwitchProcess:
        """Start one switch process, marked, out of reach of the terminal's Ctrl-C, printing into its log."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            try:
                popen = subprocess.Popen(
                    list(arguments),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=processes.environment(self.run.mark),
                    cwd=ROOT,
                    start_new_session=True,
                )
            except OSError as error:
                raise FailureError(f"cannot start {arguments[0]}: {error.strerror}") from None
        processes.go_first(popen.pid)  # what a switch delays for want of a CPU looks like congestion
        process = SwitchProcess(tuple(switches), popen, log)
        self.processes.append(process)
        if self._died is not None:
            self._watch(process)
        return process

    def wait_until_ready(self, seconds: float, switches: Sequence[Switch] | None = None) -> None:
        """Wait until switches (default: all) answer P4Runtime Capabilities.

        Raises FailureError if a process dies or time runs out.
        """
        import grpc  # here, so that reading a topology needs no gRPC

        deadline = time.monotonic() + seconds
        wanted = self.fabric.switches if switches is None else switches
        names = {switch.name for switch in wanted}
        for switch in wanted:
            with grpc.insecure_channel(switch.grpc_address, options=[("grpc.enable_http_proxy", 0)]) as channel:
                ask = channel.unary_unary(_CAPABILITIES)
                while True:
                    for process in (*self.processes, *self.dead):
                        if not names.isdisjoint(process.switches) and process.popen.poll() is not None:
                            raise FailureError(process.obituary())
                    try:
                        ask(b"", timeout=0.25, wait_for_ready=True)
                        break
                    except grpc.RpcError as error:
                        if error.code() == grpc.StatusCode.UNIMPLEMENTED:  # an older P4Runtime
                            break
                        if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                            reason = str(error.details()).partition("\n")[0]
                            raise FailureError(
                                f"switch {switch.name} at {switch.grpc_address} answers {error.code().name}: {reason}"
                            ) from None
                    if time.monotonic() > deadline:
                        late = self.process_of(switch.name)
                        words = late.last_words() if late else ""
                        raise FailureError(
                            f"switch {switch.name} does not answer at {switch.grpc_address} after {seconds:g} s"
                            + (f"; it last said: {words}" if words else "")
                        )

    def wait_until_closed(self, switch: Switch, seconds: float) -> None:
        """Wait until nothing listens at a switch's gRPC port; FailureError if time runs out."""
        deadline = time.monotonic() + seconds
        while not _is_free(switch.grpc_port):
            if time.monotonic() > deadline:
                raise FailureError(f"switch {switch.name} still listens at {switch.grpc_address} after {seconds:g} s")
            time.sleep(_POLL_SECONDS)

    def watch(self, died: Callable[[SwitchProcess], None]) -> None:
        """Call `died` from another thread when a switch process ends unasked."""
        self._died = died
        for process in self.processes:
            self._watch(process)

    def stop(self) -> None:
        """End the switch processes, politely at first. May be called again."""
        for process in self.processes:
            process.ending = True
        identities = [process.identity for process in self.processes if process.identity is not None]
        processes.end(identities, grace=_STOP_SECONDS)
        for process in self.processes:
            process.popen.wait()
        for watcher in self._watchers:
            watcher.join()

    def _watch(self, process: SwitchProcess) -> None:
        def wait() -> None:
            process.popen.wait()
            if self._died is not None and not process.ending:
                self.processes.remove(process)
                self.dead.append(process)
                self._died(process)

        watcher = threading.Thread(target=wait, name=f"death of {process.switches[0]}", daemon=True)
        watcher.start()
        self._watchers.append(watcher)


def python() -> str:
    """Return the interpreter that runs this fabric, for switches written in Python."""
    return sys.executable


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
