# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What every runner does: start switch processes, wait until each answers P4Runtime, notice a death, end them."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from topologies import processes
from topologies.errors import FailureError
from topologies.model import Fabric
from topologies.processes import ProcessId

ROOT = Path(__file__).resolve().parents[2]
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
    identity: ProcessId | None = field(init=False)

    def __post_init__(self) -> None:
        self.identity = ProcessId.of(self.popen.pid)

    def last_words(self) -> str:
        """Return the last line that it printed, or nothing."""
        try:
            lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError:
            return ""
        return lines[-1].strip() if lines else ""

    def obituary(self) -> str:
        """Say in one line that it ended, how, and what it said last."""
        code = self.popen.poll()
        how = f"exited with {code}" if code is None or code >= 0 else f"was killed by signal {-code}"
        names = " ".join(self.switches) if len(self.switches) <= 4 else f"all {len(self.switches)} switches"
        words = self.last_words()
        return f"the process of {names} {how}" + (f": {words}" if words else "") + f" (log {self.log})"


class Runner(ABC):
    """Starts and ends the switches of one run. `start` may raise; `stop` then still ends what began."""

    target: str

    def __init__(self, run: Run) -> None:
        self.run = run
        self.fabric = run.fabric
        self.processes: list[SwitchProcess] = []
        self._ending = threading.Event()
        self._watcher: threading.Thread | None = None

    @abstractmethod
    def check(self) -> None:
        """Raise if this machine cannot run the target: a program is missing."""

    @abstractmethod
    def start(self) -> None:
        """Start the switch processes; the ports exist and are up."""

    def configure(self) -> None:
        """Set, once every switch is ready, what could not be set at its start."""
        return

    def thrift_port(self, switch: str) -> int | None:
        """Return the Thrift port of a switch; None if the target has none."""
        return None

    def process_of(self, switch: str) -> SwitchProcess | None:
        """Return the process that runs a switch."""
        return next((process for process in self.processes if switch in process.switches), None)

    def log_of(self, switch: str) -> Path:
        """Return the file that holds what the switch's process prints."""
        return self.run.logs / f"{switch if self.run.isolated else self.target}.log"

    def check_ports_free(self) -> None:
        """Raise FailureError if another program listens where a switch would."""
        for switch in self.fabric.switches:
            for port in (switch.grpc_port, self.thrift_port(switch.name)):
                if port is not None and not _is_free(port):
                    raise FailureError(
                        f"port {port} of switch {switch.name} is in use by another program; "
                        "if that is a fabric, stop it with `make stop`"
                    )

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
        process = SwitchProcess(tuple(switches), popen, log)
        self.processes.append(process)
        return process

    def wait_until_ready(self, seconds: float) -> None:
        """Wait until every switch answers P4Runtime Capabilities; FailureError if one dies or time runs out."""
        import grpc  # here, so that reading a topology needs no gRPC

        deadline = time.monotonic() + seconds
        for switch in self.fabric.switches:
            with grpc.insecure_channel(switch.grpc_address, options=[("grpc.enable_http_proxy", 0)]) as channel:
                ask = channel.unary_unary(_CAPABILITIES)
                while True:
                    for process in self.processes:
                        if process.popen.poll() is not None:
                            raise FailureError(process.obituary())
                    try:
                        ask(b"", timeout=0.25, wait_for_ready=True)
                        break
                    except grpc.RpcError as error:
                        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
                            break
                    if time.monotonic() > deadline:
                        late = self.process_of(switch.name)
                        words = late.last_words() if late else ""
                        raise FailureError(
                            f"switch {switch.name} does not answer at {switch.grpc_address} after {seconds:g} s"
                            + (f"; it last said: {words}" if words else "")
                        )

    def watch(self, died: Callable[[SwitchProcess], None]) -> None:
        """Call `died` from another thread when a switch process ends before `stop`."""
        self._watcher = threading.Thread(target=self._watch, args=(died,), name="switch deaths", daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """End the switch processes, politely at first. May be called again."""
        self._ending.set()
        processes.end([process.identity for process in self.processes if process.identity is not None])
        for process in self.processes:
            process.popen.wait()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None

    def _watch(self, died: Callable[[SwitchProcess], None]) -> None:
        poller = select.poll()
        descriptors: dict[int, SwitchProcess] = {}
        for process in self.processes:
            with suppress(ProcessLookupError):
                descriptors[os.pidfd_open(process.popen.pid)] = process
        try:
            for descriptor in descriptors:
                poller.register(descriptor, select.POLLIN)
            left = len(descriptors)
            while left:
                for descriptor, _ in poller.poll():
                    poller.unregister(descriptor)
                    left -= 1
                    if not self._ending.is_set():
                        descriptors[descriptor].popen.wait()
                        died(descriptors[descriptor])
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


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
