# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Mininet's node and link classes for our fabric: interfaces that exist already, hosts that run programs.

Mininet sets interfaces up with a shell command for each step. Ours come ready from `topologies.kernel`; Mininet
learns their names and addresses, and its prompt works as ever.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Host, Switch

from topologies.errors import FailureError
from topologies.model import Fabric
from topologies.processes import environment, inside


class FabricInterface(Intf):  # type: ignore[misc]
    """An interface that exists and is configured."""

    def config(self, **_: object) -> dict[str, object]:
        """Leave the interface as it is."""
        return {}

    def updateIP(self) -> str | None:
        """Return the address, which never changes."""
        return self.ip  # type: ignore[no-any-return]

    def updateMAC(self) -> str | None:
        """Return the MAC address, which never changes."""
        return self.mac  # type: ignore[no-any-return]

    def updateAddr(self) -> tuple[str | None, str | None]:
        """Return both addresses."""
        return self.ip, self.mac

    def isUp(self, setUp: bool = False) -> bool:
        """Tell whether the interface is up."""
        output, _, _ = self.node.pexec(["ip", "-o", "link", "show", "dev", self.name])
        return "UP" in output.partition("<")[2].partition(">")[0].split(",")

    def status(self) -> str:
        """Tell the interface's state for the prompt's `links`."""
        return "UP" if self.isUp() else "DOWN"


class FabricLink(Link):  # type: ignore[misc]
    """A veth pair that exists already."""

    def __init__(self, first: Any, second: Any, ports: tuple[int, int], names: tuple[str, str]) -> None:
        self.intf1 = FabricInterface(name=names[0], node=first, port=ports[0], link=self, moveIntfFn=_in_place)
        self.intf2 = FabricInterface(name=names[1], node=second, port=ports[1], link=self, moveIntfFn=_in_place)


class FabricSwitch(Switch):  # type: ignore[misc]
    """A switch whose ports stand in the root namespace and whose process belongs to a runner.

    Its shell starts with the first command that someone types for it; twenty idle shells cost startup for nothing.
    """

    controlIntf = None

    def __init__(self, name: str, run: int, set_running: Callable[[str, bool], None], **parameters: Any) -> None:
        self._run = run
        self._set_running = set_running
        # "In a namespace" while it is built, or Mininet would want a shell at once, to set `lo` up.
        super().__init__(name, **{**parameters, "inNamespace": True})
        self.inNamespace = False

    def startShell(self, mnopts: str | None = None) -> None:
        """Put the shell off."""

    def sendCmd(self, *command: Any, **options: Any) -> None:
        """Send a command to the switch's shell, starting it first if need be."""
        if self.shell is None:
            super().startShell()
        super().sendCmd(*command, **options)

    def popen(self, *command: Any, **options: Any) -> subprocess.Popen[Any]:
        """Start a program in the root namespace, as `FabricHost.popen` does in a host."""
        return _start([], self._run, command, options)

    def start(self, controllers: object) -> None:
        """Start the switch again: the prompt's `switch NAME start`."""
        self._set_running(self.name, True)

    def stop(self, deleteIntfs: bool = False) -> None:
        """End the switch and leave its ports: the prompt's `switch NAME stop`."""
        self._set_running(self.name, False)

    def _popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen(command, env=environment(self._run), **options)


class FabricHost(Host):  # type: ignore[misc]
    """A host: a shell in a network namespace of its own, beside which programs run."""

    def __init__(self, name: str, run: int, **parameters: Any) -> None:
        self._run = run
        super().__init__(name, **parameters)

    def config(self, **_: object) -> dict[str, object]:
        """Leave the host as it is: `topologies.kernel` configures it."""
        return {}

    def popen(self, *command: Any, **options: Any) -> subprocess.Popen[Any]:
        """Start a program in this host; takes a list of arguments, or one text for the shell, and Popen's options.

        The program is not stopped by Ctrl-C at the terminal, but it ends with the fabric at the latest.
        """
        return _start(inside(self.pid), self._run, command, options)

    def run(
        self, arguments: Sequence[str], timeout: float | None = 60.0, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        """Run a program in this host to its end and return its output as text.

        Raises FailureError if it exits with another code than 0 (unless `check` is off) or runs over `timeout`.
        """
        with self.popen(
            list(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as program:
            try:
                output, errors = program.communicate(timeout=timeout)
            except subprocess.TimeoutExpired:
                raise FailureError(f"{arguments[0]} in {self.name} ran over {timeout:g} s") from None
            finally:
                program.kill()
        if check and program.returncode != 0:
            reason = (errors.strip() or output.strip() or "no output").splitlines()[-1]
            raise FailureError(f"{arguments[0]} in {self.name} exited with {program.returncode}: {reason}")
        return subprocess.CompletedProcess(list(arguments), program.returncode, output, errors)

    def _popen(self, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        return subprocess.Popen(command, env=environment(self._run), **options)


class FabricNet(Mininet):  # type: ignore[misc]
    """Mininet as its prompt needs it: our nodes and links, link and switch state through the fabric."""

    def __init__(
        self, run: int, set_link: Callable[[str, str, bool], None], set_switch: Callable[[str, bool], None]
    ) -> None:
        self._run = run
        self._set_link = set_link
        self._set_switch = set_switch
        super().__init__(switch=FabricSwitch, host=FabricHost, controller=None, build=False)
        self.built = True

    @classmethod
    def init(cls) -> None:
        """Leave the machine's limits alone; Mininet would raise sysctls and never restore them."""

    def add_hosts(self, fabric: Fabric) -> dict[str, FabricHost]:
        """Start all hosts of a fabric."""
        return {host.name: self.addHost(host.name, run=self._run, ip=None) for host in fabric.hosts}

    def add_switches(self, fabric: Fabric) -> None:
        """Add all switches and links of a fabric; the hosts are there."""
        for switch in fabric.switches:
            self.addSwitch(switch.name, run=self._run, set_running=self._set_switch, dpid=f"{switch.device_id:x}")
        for link in fabric.links:
            cable = FabricLink(
                self[link.a.node],
                self[link.b.node],
                (link.a.port, link.b.port),
                (fabric.interface(link.a.node, link.a.port), fabric.interface(link.b.node, link.b.port)),
            )
            self.links.append(cable)
        for host in fabric.hosts:
            interface = self[host.name].defaultIntf()
            interface.ip, interface.prefixLen, interface.mac = host.ipv4, 32, host.mac

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:
        """Set the link between two nodes up or down: the prompt's `link`."""
        self._set_link(src, dst, status == "up")

    def end_shells(self) -> None:
        """End the shells of all nodes."""
        for node in (*self.hosts, *self.switches):
            node.terminate()


def _in_place(interface: FabricInterface, node: object) -> None:
    """Move no interface: it was created where it belongs."""


def _start(prefix: list[str], run: int, command: tuple[Any, ...], options: dict[str, Any]) -> subprocess.Popen[Any]:
    arguments = command[0] if len(command) == 1 else command
    if isinstance(arguments, str):
        arguments = ["sh", "-c", arguments]
    options = {"env": environment(run), "start_new_session": True, **options}
    return subprocess.Popen([*prefix, *map(str, arguments)], **options)
