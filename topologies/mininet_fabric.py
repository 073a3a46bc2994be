# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Run a fabric in Mininet: namespaces for hosts, veth pairs for links, a runner for the switches.

    with MininetFabric(topologies.load("leaf_spine")) as net:
        net.hosts["h1"].run(["ping", "-c", "1", net.fabric.host("h5").ipv4])

When the with-block ends, however it ends, nothing is left. If this process is killed, its warden, a shell that waits
for that, stops the fabric by its state file, as `make stop` does.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from topologies import kernel, processes, state
from topologies.errors import FailureError, GradlaneError, UsageError
from topologies.model import Fabric
from topologies.processes import ProcessId
from topologies.runners import Runner, SwitchProcess, runner_for
from topologies.runners.base import ROOT, Run
from topologies.stop import clear_run

if TYPE_CHECKING:
    from topologies.mininet_nodes import FabricHost, FabricNet
    from topologies.prompt import Verbs

GRPC_PORTS_PER_INSTANCE = 256
MAX_INSTANCES = 32

_log = logging.getLogger(__name__)


class MininetFabric:
    """A running fabric, as a context manager.

    - `target`: the name of a runner (softswitch, bmv2), or a Runner class.
    - `isolated`: a process of its own for each switch; BMv2 knows no other way.
    - `instance`: 0 has the names and ports that people expect (`leaf1-eth1`, 50051); a further one runs beside it
      under other names (`g3-1-eth1`) and ports. None takes the first that is free: what tests want.
    - `state_path`: default build/fabric.json, or build/fabric-N.json for instance N.
    - `pcaps`: a folder for the switches' captures.

    Raises UsageError or FailureError, with nothing left behind.
    """

    def __init__(
        self,
        fabric: Fabric,
        target: str | type[Runner] = "softswitch",
        *,
        isolated: bool = False,
        instance: int | None = 0,
        state_path: str | Path | None = None,
        logs: str | Path = "logs",
        pcaps: str | Path | None = None,
        ready_seconds: float = 120.0,
    ) -> None:
        self._asked = fabric
        self._runner_class = runner_for(target) if isinstance(target, str) else target
        self._isolated = isolated
        self._instance = instance
        self._state_path = None if state_path is None else Path(state_path)
        self._logs = Path(logs)
        self._pcaps = None if pcaps is None else Path(pcaps)
        self._ready_seconds = ready_seconds
        self._stack = ExitStack()
        self._death_callbacks: list[Callable[[SwitchProcess], None]] = []
        self._running: state.RunningFabric
        self._runner: Runner
        self._saving = threading.Lock()
        self._net: FabricNet
        self._hosts: dict[str, FabricHost] = {}
        self.fabric = fabric
        self.startup_seconds: dict[str, float] = {}

    def __enter__(self) -> MininetFabric:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def hosts(self) -> Mapping[str, FabricHost]:
        """The hosts by name; `run` and `popen` start programs in them."""
        return self._hosts

    @property
    def switch_addresses(self) -> dict[str, str]:
        """The gRPC address of every switch."""
        return {switch.name: switch.grpc_address for switch in self.fabric.switches}

    @property
    def running(self) -> state.RunningFabric:
        """What the state file says."""
        return self._running

    @property
    def state_path(self) -> Path:
        """Where the state file is."""
        assert self._state_path is not None
        return self._state_path

    @property
    def mininet(self) -> FabricNet:
        """The Mininet object behind the fabric."""
        return self._net

    def link_down(self, a: str, b: str) -> None:
        """Cut the link between two nodes, at its switch's end (at both, between switches)."""
        self._set_link(a, b, False)

    def link_up(self, a: str, b: str) -> None:
        """Mend the link between two nodes."""
        self._set_link(a, b, True)

    def stop_switch(self, name: str) -> None:
        """End one switch; the others go on."""
        self._runner.stop_one(self.fabric.switch(name))
        self._save_switches()

    def start_switch(self, name: str) -> None:
        """Start a switch that has ended, in a process of its own, without a program; the controller brings that."""
        switch = self.fabric.switch(name)
        if self._runner.process_of(name) is not None:
            raise UsageError(f"switch {name} runs already")
        self._runner.bury(switch)
        self._runner.start_one(switch)
        self._save_switches()
        self._runner.wait_until_ready(self._ready_seconds, [switch])
        self._runner.configure([switch])

    def on_switch_death(self, callback: Callable[[SwitchProcess], None]) -> None:
        """Have `callback` called, from another thread, when a switch's process ends by itself."""
        self._death_callbacks.append(callback)

    def check(self) -> None:
        """Raise FailureError if a switch or a host has died."""
        for name, host in self._hosts.items():
            if (ended := host.shell.poll()) is not None:  # with it goes the namespace, and the links in it
                raise FailureError(f"the shell of host {name} {processes.ending(ended)}; its links are gone with it")
        if self._runner.dead:
            raise FailureError(self._runner.dead[0].obituary())

    def prompt(self, verbs: Verbs | None = None, stdin: TextIO | None = None) -> None:
        """Run Mininet's prompt with further verbs, each a function from the rest of the line to what to print."""
        from topologies.prompt import prompt

        prompt(self._net, verbs or {}, stdin)

    def _start(self, stack: ExitStack) -> None:
        began = time.monotonic()
        self._require_machine()
        self._take_instance(stack)
        stack.enter_context(_terminated_as_exit())
        run = Run(
            mark=state.new_run(),
            fabric=self.fabric,
            files=self.state_path.with_suffix(""),
            logs=self._logs if self.state_path.stem == "fabric" else self._logs / self.state_path.stem,
            isolated=self._isolated,
            pcaps=self._pcaps,
        )
        runner = self._runner = self._runner_class(run)
        runner.check()
        self._check_delays(runner)
        runner.check_ports_free()
        self._check_interfaces_free()

        owner = ProcessId.of(os.getpid())
        assert owner is not None
        self._running = state.RunningFabric(run.mark, self.fabric, runner.target, self._isolated, owner)
        self._save_switches()
        stack.enter_context(_warden(self.state_path))
        stack.callback(self._clear)
        self._lay_out(stack, run)
        self._note("links", began)

        stack.callback(runner.stop)
        runner.start()
        self._save_switches()
        runner.wait_until_ready(self._ready_seconds)
        runner.configure(self.fabric.switches)
        runner.watch(self._switch_died)
        self._note("switches", began)

    def _require_machine(self) -> None:
        if os.geteuid() != 0:
            raise UsageError("a Mininet fabric needs root; run it with sudo")
        if shutil.which("mnexec") is None:
            raise FailureError("mnexec is missing; install the package `mininet`")
        try:
            import mininet.net  # noqa: F401
        except ImportError:
            raise FailureError("Python cannot import mininet; install the package `mininet`") from None

    def _take_instance(self, stack: ExitStack) -> None:
        """Settle which instance this is, its names, its ports and its state file; clear what a dead one left."""
        if self._instance is not None:
            if not stack.enter_context(_instance_lock(self._instance)):
                raise FailureError(_running_message(self._state_file(self._instance)))
            chosen = self._instance
        else:
            chosen = next((n for n in range(1, MAX_INSTANCES) if _try_instance(stack, n)), 0)
            if chosen == 0:
                raise FailureError(f"all {MAX_INSTANCES} instances of a fabric are taken; stop some")
        self._state_path = self._state_file(chosen).absolute()
        former = state.find(self._state_path)
        if former is not None:
            if former.owner.is_running():
                raise FailureError(_running_message(self._state_path))
            _log.warning("clearing what fabric %s left, whose process was killed", former.fabric.name)
            clear_run(former.run)
            self._state_path.unlink(missing_ok=True)
        if chosen:
            first = self._asked.switches[0].grpc_port + chosen * GRPC_PORTS_PER_INSTANCE
            self.fabric = self._asked.instance(f"g{chosen}-", first)

    def _state_file(self, instance: int) -> Path:
        if self._state_path is not None:
            return self._state_path
        if instance == 0:
            return state.path_in_use()
        return state.DEFAULT_PATH.with_name(f"fabric-{instance}.json")

    def _check_delays(self, runner: Runner) -> None:
        delayed = next((link for link in self.fabric.links if link.delay_ns), None)
        if delayed is not None and not runner.has_kernel_queues:
            raise FailureError(
                f"link {delayed.name} has a delay, and the {runner.target} cannot make one: "
                "it sends past the kernel's queues; leave `delay` out to run without it"
            )

    def _check_interfaces_free(self) -> None:
        present = kernel.interface_names()
        for switch in self.fabric.switches:
            for port in self.fabric.ports(switch.name):
                if port.interface in present:
                    raise FailureError(_clash_message(port.interface))

    def _lay_out(self, stack: ExitStack, run: Run) -> None:
        from topologies.mininet_nodes import FabricNet

        self._net = FabricNet(run.mark, self._set_link, self._set_switch)
        stack.callback(self._net.end_shells)
        self._hosts = self._net.add_hosts(self.fabric)
        placement = kernel.Placement(run.mark, {name: host.pid for name, host in self._hosts.items()})
        self._save(hosts={name: _host_state(host) for name, host in self._hosts.items()})
        kernel.create_links(self.fabric, placement)
        kernel.raise_switch_ports(self.fabric)
        for host in self.fabric.hosts:
            kernel.configure_host(self.fabric, host, placement.host_pids[host.name])
        if self._runner.has_kernel_queues:
            kernel.shape_switch_ports(self.fabric)
            kernel.delay_links(self.fabric, placement)
        self._net.add_switches(self.fabric)

    def _set_link(self, a: str, b: str, up: bool) -> None:
        link = self.fabric.link(a, b)
        ends = [end for end in (link.a, link.b) if not self.fabric.is_host(end.node)]
        kernel.set_links_up([self.fabric.interface(end.node, end.port) for end in ends], up)

    def _set_switch(self, name: str, runs: bool) -> None:
        (self.start_switch if runs else self.stop_switch)(name)

    def _switch_died(self, process: SwitchProcess) -> None:
        _log.error("%s", process.obituary())
        self._save_switches()
        for callback in self._death_callbacks:
            callback(process)

    def _clear(self) -> None:
        with _uninterrupted():
            clear_run(self._running.run)
            self.state_path.unlink(missing_ok=True)

    def _save_switches(self) -> None:
        self._save(switches={switch.name: _switch_state(self._runner, switch.name) for switch in self.fabric.switches})

    def _save(self, **changes: Any) -> None:
        with self._saving:
            self._running = replace(self._running, **changes)
            state.save(self._running, self.state_path)

    def _note(self, stage: str, began: float) -> None:
        self.startup_seconds[stage] = time.monotonic() - began


def _switch_state(runner: Runner, name: str) -> state.SwitchState:
    switch = runner.fabric.switch(name)
    process = runner.process_of(name)
    return state.SwitchState(
        name=name,
        device_id=switch.device_id,
        grpc_address=switch.grpc_address,
        thrift_port=runner.thrift_port(name),
        process=None if process is None else process.identity,
        log=str(runner.log_of(name).absolute()),
    )


def _host_state(host: FabricHost) -> state.HostState:
    identity = ProcessId.of(host.pid)
    if identity is None:
        raise FailureError(f"the shell of host {host.name} ended at once")
    return state.HostState(host.name, identity)


def _running_message(path: Path) -> str:
    try:
        running = state.find(path)
    except GradlaneError:
        running = None
    if running is None:
        return "another fabric is running; stop it first (`make stop` where it was started)"
    return f"fabric {running.fabric.name} is running (process {running.owner.pid}); stop it with `make stop`"


def _clash_message(interface: str) -> str:
    group = kernel.group_of(interface)
    if state.is_run(group):
        mark = processes.mark(group)
        return (
            f"interface {interface} exists already, left by a fabric whose state file is gone; "
            f"clear it with `python -m topologies.stop --run {mark}`"
        )
    return f"interface {interface} exists already, and is not of a fabric; rename it, or the switch"


@contextmanager
def _instance_lock(instance: int) -> Iterator[bool]:
    """Hold an instance of this network namespace while the block runs; yields False if another process holds it.

    An abstract socket lives in the namespace whose interface names it guards, and dies with its process.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(f"\0gradlane-fabric-{instance}")
        except OSError:
            yield False
        else:
            yield True


def _try_instance(stack: ExitStack, instance: int) -> bool:
    """Take an instance if no process holds it and no interface of it is left."""
    if any(name.startswith(f"g{instance}-") for name in kernel.interface_names()):
        return False
    return stack.enter_context(_instance_lock(instance))


@contextmanager
def _terminated_as_exit() -> Iterator[None]:
    """Turn SIGTERM into SystemExit while the block runs, so that `make stop` unwinds the owner, unless it minds it."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Ignore SIGINT and SIGTERM while the block runs: what is cut short in it, nobody would do again.

    Who will not wait can still kill this process: its warden then stops the fabric.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


@contextmanager
def _warden(path: Path) -> Iterator[None]:
    """Have the fabric stopped if this process is killed while the block runs.

    A shell reads a pipe that only this process holds open: a line tells it to leave, and the end of the file, which
    comes when this process is gone, to stop the fabric.
    """
    command = [sys.executable, "-m", "topologies.stop", "--state", str(path)]
    warden = subprocess.Popen(
        ["sh", "-c", 'read leave || exec "$@" >/dev/null 2>&1', "warden", *command],
        stdin=subprocess.PIPE,
        cwd=ROOT,
        start_new_session=True,
    )
    assert warden.stdin is not None
    try:
        yield
    finally:
        with suppress(BrokenPipeError):
            warden.stdin.write(b"leave\n")
            warden.stdin.close()
        warden.wait()
