# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""A fabric in Mininet, without what switches do: namespaces, links, state, and that nothing is ever left."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from holding_runner import DyingRunner, HoldingRunner

import topologies
from topologies import Fabric, FailureError, UsageError, kernel, processes, schema, state, stop
from topologies.builders import build
from topologies.links import LinkChange, LinkWatcher
from topologies.mininet_fabric import MininetFabric

pytestmark = pytest.mark.fabric

DEADLINE = 60.0


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, or fail."""
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        threading.Event().wait(0.02)


def small() -> Fabric:
    return build(schema.LeafSpine(leaves=2, spines=1, hosts_per_leaf=1), name="small")


def left_of(run: int) -> tuple[list[processes.ProcessId], list[str]]:
    """Return the processes and the interfaces that a run has."""
    listed = subprocess.run(
        ["ip", "-brief", "link", "show", "group", str(run)], capture_output=True, text=True, check=True
    )
    return processes.marked(run), listed.stdout.splitlines()


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MininetFabric]:
    logs = tmp_path_factory.mktemp("logs")
    with MininetFabric(small(), HoldingRunner, instance=None, state_path=logs / "fabric.json", logs=logs) as net:
        yield net


def test_hosts_have_their_addresses_and_no_link_local_noise(net: MininetFabric) -> None:
    output = net.hosts["h2"].run(["ip", "-br", "address", "show", "dev", "h2-eth0"]).stdout
    assert output.split()[2:] == ["10.0.2.1/32", "fd00:0:0:2::1/128"]
    assert net.fabric.host("h2").mac in net.hosts["h2"].run(["ip", "link", "show", "h2-eth0"]).stdout


def test_hosts_route_everything_to_a_gateway_that_they_need_not_resolve(net: MininetFabric) -> None:
    host, gateway = net.hosts["h1"], net.fabric.switch("leaf1").mac
    for family, via in (("-4", "169.254.1.1"), ("-6", "fe80::1")):
        assert f"default via {via} dev h1-eth0" in host.run(["ip", family, "route"]).stdout
        assert f"{via} dev h1-eth0 lladdr {gateway} PERMANENT" in host.run(["ip", family, "neigh"]).stdout


def test_hosts_compute_checksums_and_cut_segments_themselves(net: MininetFabric) -> None:
    features = net.hosts["h1"].run(["ethtool", "-k", "h1-eth0"]).stdout
    assert "tx-checksumming: off" in features
    assert "tx-tcp-segmentation: off" in features
    assert "tx-udp-segmentation: off" in features


def test_a_host_sends_at_the_rate_of_its_link(net: MininetFabric) -> None:
    assert "rate 100Mbit" in net.hosts["h1"].run(["tc", "qdisc", "show", "dev", "h1-eth0"]).stdout


@pytest.mark.parametrize("rate", [schema.MIN_RATE, 34 * 10**9, 400 * 10**9])
def test_any_rate_of_a_topology_can_be_built(rate: int, tmp_path: Path) -> None:
    """Also beyond what the kernel's token bucket counts, 34.4 Gbit/s: such a host sends as fast as its veth."""
    link = schema.LinkSettings(rate=rate)
    fabric = build(schema.Single(hosts=1, host_link=link, mtu=9000), name="rated")
    with MininetFabric(fabric, HoldingRunner, instance=None, state_path=tmp_path / "f.json", logs=tmp_path) as net:
        shaped = "tbf" in net.hosts["h1"].run(["tc", "qdisc", "show", "dev", "h1-eth0"]).stdout
    assert shaped == (rate < 1 << 35)


def test_what_the_kernel_refuses_a_host_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel.addresses, "GATEWAY_IPV4", "0.0.0.0")
    fabric = MininetFabric(small(), HoldingRunner, instance=None, state_path=tmp_path / "f.json", logs=tmp_path)
    with pytest.raises(FailureError, match=r"^cannot configure host h1: [A-Z][^\n]+$"), fabric:
        pass
    assert left_of(fabric.running.run) == ([], [])


def test_switch_ports_are_up_and_silent(net: MininetFabric) -> None:
    for switch in net.fabric.switches:
        names = [port.interface for port in net.fabric.ports(switch.name)]
        assert kernel.interfaces_with_carrier(names) == set(names)
        for name in names:
            assert Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").read_text().strip() == "1"


def test_a_program_in_a_host_gives_back_its_output_and_its_failure(net: MininetFabric) -> None:
    assert net.hosts["h1"].run(["echo", "a b"]).stdout == "a b\n"
    with pytest.raises(FailureError, match="false in h1 exited with 1: no output"):
        net.hosts["h1"].run(["false"])
    with pytest.raises(FailureError, match="sleep in h1 ran over 0.05 s"):
        net.hosts["h1"].run(["sleep", "60"], timeout=0.05)


def test_the_state_file_says_how_to_reach_switches_and_hosts(net: MininetFabric) -> None:
    running = state.load(net.state_path)
    assert running.fabric == net.fabric
    assert running.addresses == net.switch_addresses
    assert running.owner.pid == os.getpid()
    assert all(switch.process is not None and switch.process.is_running() for switch in running.switches.values())
    pid = running.hosts["h2"].process.pid
    command = [*processes.inside(pid), "ip", "-br", "a"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "10.0.2.1" in shown.stdout


def test_a_cut_link_is_noticed_and_a_mended_one_too(net: MininetFabric) -> None:
    seen: list[tuple[str, bool]] = []

    def changed(changes: list[LinkChange], failed: frozenset[frozenset[str]]) -> None:
        seen.extend((change.link.name, change.up) for change in changes)

    with LinkWatcher(net.fabric, changed) as watcher:
        net.link_down("spine1", "leaf1")
        until(lambda: watcher.failed == {frozenset(("leaf1", "spine1"))})
        net.link_up("leaf1", "spine1")
        until(lambda: not watcher.failed)
        net.link_down("h1", "leaf1")
        until(lambda: watcher.failed == {frozenset(("h1", "leaf1"))})
        net.link_up("h1", "leaf1")
        until(lambda: not watcher.failed)
    assert seen == [("leaf1-spine1", False), ("leaf1-spine1", True), ("leaf1-h1", False), ("leaf1-h1", True)]


def test_a_link_that_is_down_already_is_reported_at_the_start(net: MininetFabric) -> None:
    seen: list[frozenset[frozenset[str]]] = []
    net.link_down("leaf2", "spine1")
    try:
        with LinkWatcher(net.fabric, lambda changes, failed: seen.append(failed)):
            assert seen == [{frozenset(("leaf2", "spine1"))}]
    finally:
        net.link_up("leaf2", "spine1")


def test_a_failing_rerouter_does_not_end_the_watch(net: MininetFabric, caplog: pytest.LogCaptureFixture) -> None:
    def changed(changes: list[LinkChange], failed: frozenset[frozenset[str]]) -> None:
        raise ValueError("no route")

    with LinkWatcher(net.fabric, changed) as watcher:
        net.link_down("leaf1", "spine1")
        until(lambda: bool(watcher.failed))
        net.link_up("leaf1", "spine1")
        until(lambda: not watcher.failed)
    assert "callback failed" in caplog.text


def test_a_host_keeps_its_configuration_when_its_cable_is_out_for_a_while(net: MininetFabric) -> None:
    host = net.hosts["h1"]
    before = [host.run(["ip", *what]).stdout for what in (["-4", "route"], ["-6", "route"], ["neigh"])]
    net.link_down("h1", "leaf1")
    net.link_up("h1", "leaf1")
    until(lambda: "NO-CARRIER" not in host.run(["ip", "link"]).stdout)
    assert [host.run(["ip", *what]).stdout for what in (["-4", "route"], ["-6", "route"], ["neigh"])] == before


def test_an_unknown_link_is_a_usage_error(net: MininetFabric) -> None:
    with pytest.raises(UsageError, match="no link between 'h1' and 'leaf2'"):
        net.link_down("h1", "leaf2")


def test_the_prompt_has_mininets_verbs_and_the_callers(
    net: MininetFabric, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    def drops(line: str) -> str:
        """Show drops."""
        if line == "nowhere":
            raise UsageError("there is no switch 'nowhere'")
        return f"drops of {line}"

    script = "nodes\nh1 echo here\nh1 echo h2\nlink leaf1 spine1 down\nlinks\nlink leaf1 spine1 up\n"
    script += "drops leaf1\ndrops nowhere\nleaf1 echo from $0\nhelp drops\nlink a b up\nswitch spine1 stop\nexit\n"
    file = tmp_path / "script"
    file.write_text(script)
    with file.open() as stdin:
        net.prompt({"drops": drops}, stdin=stdin)
    output = capsys.readouterr().out + caplog.text  # Mininet prints through its logger
    assert "h1 h2 leaf1 leaf2 spine1" in output
    assert "here" in output
    assert "10.0.2.1" in output
    assert "DOWN" in output
    assert "drops of leaf1" in output
    assert "error: there is no switch 'nowhere'" in output
    assert "from bash" in output
    assert "Show drops." in output
    assert "error: fabric small has no link between 'a' and 'b'" in output
    assert "error: switch spine1 shares its process with others" in output


def test_a_verb_may_not_hide_one_of_mininets(net: MininetFabric) -> None:
    with pytest.raises(UsageError, match="verb 'nodes' already"):
        net.prompt({"nodes": str})


def test_fabrics_run_beside_each_other(net: MininetFabric, tmp_path: Path) -> None:
    with MininetFabric(small(), HoldingRunner, instance=None, state_path=tmp_path / "b.json", logs=tmp_path) as other:
        assert not set(other.switch_addresses.values()) & set(net.switch_addresses.values())
        assert "10.0.1.1" in other.hosts["h1"].run(["ip", "-br", "a"]).stdout
    net.check()


def test_a_second_fabric_under_the_same_state_file_is_refused_by_name(net: MininetFabric, tmp_path: Path) -> None:
    again = MininetFabric(small(), HoldingRunner, instance=None, state_path=net.state_path, logs=tmp_path)
    with pytest.raises(FailureError, match=rf"fabric small is running \(process {os.getpid()}\).*make stop"), again:
        pass
    net.check()
    assert state.find(net.state_path) is not None


def test_nothing_is_left_after_the_block_or_an_exception_in_it(tmp_path: Path) -> None:
    fabric = MininetFabric(small(), HoldingRunner, instance=None, state_path=tmp_path / "f.json", logs=tmp_path)
    with pytest.raises(KeyboardInterrupt), fabric as net:
        sender = net.hosts["h1"].popen(["sleep", "600"])
        hidden = net.hosts["h1"].popen("setsid sleep 601 & wait")
        run = net.running.run
        until(lambda: len(left_of(run)[0]) >= 6)
        assert left_of(run)[1]
        raise KeyboardInterrupt
    assert left_of(run) == ([], [])
    assert not (tmp_path / "f.json").exists()
    sender.wait(DEADLINE)
    hidden.wait(DEADLINE)


@pytest.mark.parametrize("isolated", [False, True], ids=["one process", "one process each"])
def test_a_switch_that_dies_is_told_with_its_last_words(
    isolated: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = threading.Event()
    fabric = MininetFabric(
        small(), HoldingRunner, isolated=isolated, instance=None, state_path=tmp_path / "f.json", logs=tmp_path
    )
    with fabric as net:
        net.on_switch_death(lambda process: told.set())
        process = net.running.switches["spine1"].process
        assert process is not None
        processes.end([process], first=signal.SIGKILL)
        assert told.wait(DEADLINE)
        names = "spine1" if isolated else "leaf1 leaf2 spine1"
        with pytest.raises(FailureError, match=f"the process of {names} was killed by signal 9: holding"):
            net.check()
    assert "was killed by signal 9" in caplog.text


def test_a_host_that_dies_is_told(tmp_path: Path) -> None:
    with MininetFabric(small(), HoldingRunner, instance=None, state_path=tmp_path / "f.json", logs=tmp_path) as net:
        net.check()
        shell = processes.ProcessId.of(net.hosts["h2"].shell.pid)
        assert shell is not None
        processes.end([shell], first=signal.SIGKILL)
        with pytest.raises(FailureError, match="the shell of host h2 was killed by signal 9; its links are gone"):
            net.check()


def test_a_switch_that_dies_at_its_start_leaves_nothing(tmp_path: Path) -> None:
    fabric = MininetFabric(small(), DyingRunner, instance=None, state_path=tmp_path / "f.json", logs=tmp_path)
    with pytest.raises(FailureError, match="exited with 1: the wheels came off") as caught, fabric:
        pass
    assert "\n" not in str(caught.value)
    assert left_of(fabric.running.run) == ([], [])
    assert not (tmp_path / "f.json").exists()


@pytest.mark.empty_machine
def test_a_port_in_use_is_named_before_anything_is_made(tmp_path: Path) -> None:
    refused = MininetFabric(small(), HoldingRunner, state_path=tmp_path / "f.json", logs=tmp_path)
    in_use = pytest.raises(FailureError, match="port 50052 of switch leaf2 is in use")
    with socket.create_server(("127.0.0.1", 50052)), in_use, refused:
        pass
    assert kernel.interface_names() == {"lo"}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.empty_machine
def test_an_interface_of_somebody_else_is_named_and_left_alone(tmp_path: Path) -> None:
    subprocess.run(["ip", "link", "add", "leaf1-eth1", "type", "veth", "peer", "somebody"], check=True)
    clash = MininetFabric(small(), HoldingRunner, state_path=tmp_path / "f.json", logs=tmp_path)
    with pytest.raises(FailureError, match="interface leaf1-eth1 exists already, and is not of a fabric"), clash:
        pass
    assert kernel.interface_names() == {"lo", "leaf1-eth1", "somebody"}


@pytest.mark.empty_machine
def test_what_a_fabric_without_state_file_left_is_cleared_by_its_mark(tmp_path: Path) -> None:
    run = state.new_run()
    subprocess.run(
        ["ip", "link", "add", "leaf1-eth1", "group", str(run), "type", "veth", "peer", "name", "x"], check=True
    )
    clash = MininetFabric(small(), HoldingRunner, state_path=tmp_path / "f.json", logs=tmp_path)
    with pytest.raises(FailureError, match=rf"python -m topologies.stop --run {processes.mark(run)}"), clash:
        pass
    assert stop.main(["--run", processes.mark(run)]) == 0
    with clash as net:
        assert net.fabric.ports("leaf1")[0].interface in kernel.interface_names()


@pytest.mark.empty_machine
def test_two_fabrics_of_the_usual_names_cannot_be(tmp_path: Path) -> None:
    with MininetFabric(small(), HoldingRunner, state_path=tmp_path / "f.json", logs=tmp_path):
        second = MininetFabric(small(), HoldingRunner, state_path=tmp_path / "g.json", logs=tmp_path)
        with pytest.raises(FailureError, match="another fabric is running; stop it first"), second:
            pass
        third = MininetFabric(small(), HoldingRunner, state_path=tmp_path / "f.json", logs=tmp_path)
        with pytest.raises(FailureError, match="fabric small is running"), third:
            pass


def test_a_delay_that_the_kernel_cannot_make_is_refused(tmp_path: Path) -> None:
    fabric = build(schema.Single(hosts=1, host_link=schema.LinkSettings(delay="1ms")), name="slow")  # type: ignore[arg-type]
    probe = ["ip", "link", "add", "tpnetem0", "type", "veth", "peer", "tpnetem1"]
    subprocess.run(probe, check=True)
    try:
        asked = ["tc", "qdisc", "add", "dev", "tpnetem0", "root", "netem", "delay", "1ms"]
        has_netem = subprocess.run(asked, capture_output=True, check=False).returncode == 0
    finally:
        subprocess.run(["ip", "link", "del", "tpnetem0"], check=True)
    if has_netem:
        pytest.skip("this kernel has netem")
    refused = MininetFabric(fabric, HoldingRunner, instance=None, state_path=tmp_path / "f.json", logs=tmp_path)
    with pytest.raises(FailureError, match="link s1-h1 has a delay, and this kernel has no netem"), refused:
        pass
    assert left_of(refused.running.run) == ([], [])


OWNER = """
import signal, sys
from holding_runner import HoldingRunner
from topologies.loading import loads
from topologies.mininet_fabric import MininetFabric
folder = sys.argv[1]
fabric = loads("kind: single\\nhosts: 2\\n", "owned.yaml")
with MininetFabric(fabric, HoldingRunner, instance=None, state_path=folder + "/f.json", logs=folder) as net:
    sender = net.hosts["h1"].popen(["sleep", "600"])
    print("up", flush=True)
    signal.pause()
"""


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that runs a fabric."""
    paths = os.pathsep.join([str(Path(__file__).parent), str(Path(topologies.__file__).parents[1])])
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths},
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        try:
            yield process
        finally:
            process.kill()


def kill_with_warden(owner: subprocess.Popen[str]) -> None:
    """Kill an owner so that nobody clears up after it."""
    for pid in map(int, Path(f"/proc/{owner.pid}/task/{owner.pid}/children").read_text().split()):
        if b"warden" in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
            os.kill(pid, signal.SIGKILL)
    owner.kill()
    owner.wait()


def test_a_killed_owner_leaves_nothing_within_seconds(owner: subprocess.Popen[str], tmp_path: Path) -> None:
    run = state.load(tmp_path / "f.json").run
    assert left_of(run)[0] and left_of(run)[1]
    owner.kill()
    owner.wait()
    until(lambda: left_of(run) == ([], []) and not (tmp_path / "f.json").exists())


def test_what_a_killed_owner_and_its_killed_warden_left_is_cleared_by_stop(
    owner: subprocess.Popen[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = state.load(tmp_path / "f.json").run
    kill_with_warden(owner)
    assert left_of(run)[1]
    assert stop.main(["--state", str(tmp_path / "f.json")]) == 0
    assert left_of(run) == ([], [])
    assert stop.main(["--state", str(tmp_path / "f.json")]) == 0
    assert capsys.readouterr().out == "stopped fabric owned\nno fabric is running\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_owner_that_is_asked_to_end_puts_everything_away_itself(
    number: signal.Signals, owner: subprocess.Popen[str], tmp_path: Path
) -> None:
    run = state.load(tmp_path / "f.json").run
    owner.send_signal(number)
    owner.wait(timeout=DEADLINE)
    assert left_of(run) == ([], [])
    assert not (tmp_path / "f.json").exists()


def test_stop_ends_a_living_fabric_and_its_owner(owner: subprocess.Popen[str], tmp_path: Path) -> None:
    run = state.load(tmp_path / "f.json").run
    assert stop.stop(tmp_path / "f.json") == "owned"
    assert owner.wait(timeout=DEADLINE) == 128 + signal.SIGTERM
    assert left_of(run) == ([], [])


def test_a_new_fabric_clears_what_a_dead_one_left(
    owner: subprocess.Popen[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = state.load(tmp_path / "f.json").run
    kill_with_warden(owner)
    with MininetFabric(small(), HoldingRunner, instance=None, state_path=tmp_path / "f.json", logs=tmp_path) as net:
        assert left_of(run) == ([], [])
        net.hosts["h1"].run(["true"])
    assert "clearing what fabric owned left" in caplog.text


def test_a_fabric_without_hosts_starts(tmp_path: Path) -> None:
    fabric = build(schema.Single(hosts=0), name="empty")
    with MininetFabric(fabric, HoldingRunner, instance=None, state_path=tmp_path / "f.json", logs=tmp_path) as net:
        assert net.hosts == {}


def test_the_prompt_ends_with_its_input(net: MininetFabric, tmp_path: Path) -> None:
    file = tmp_path / "script"
    file.write_text("nodes\n")
    with file.open() as stdin:
        net.prompt(stdin=stdin)
