# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""The controller with real embedded switches: what it installs, reads, counts and mends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

import topologies
from controller import policy, telemetry, views
from controller.changes import Changes
from controller.compiler import DesiredState, PortRate
from controller.device import Applied, Device
from controller.p4rt.entities import Call, Default, Exact, Prefix, TableEntry
from controller.p4rt.wire import UpdateKind
from controller.reroute import Rerouted, Rerouter
from controller.watch import LinksFailed, SwitchAnswers
from tests.unit.controller.softswitches import SoftswitchFabric
from topologies.addresses import GATEWAY_IPV4
from topologies.model import Fabric
from traffic.header import Gradient

LEAF_SPINE = topologies.load("leaf_spine")
DEADLINE_S = 60.0


@pytest.fixture
def fabric(tmp_path: Path) -> Iterator[SoftswitchFabric]:
    with SoftswitchFabric(LEAF_SPINE, tmp_path) as running:
        yield running


def gradient(
    source: str, destination: str, importance: int = 255, layer: int = 0, sequence: int = 0, fabric: Fabric = LEAF_SPINE
) -> bytes:
    return bytes(
        Ether(src=fabric.host(source).mac, dst=fabric.switch(fabric.host(source).switch).mac)
        / IP(src=fabric.host(source).ipv4, dst=fabric.host(destination).ipv4, tos=2)
        / UDP(sport=20000, dport=18258)
        / Gradient(type=1, importance=importance, layer=layer, job=1, count=300, sequence=sequence)
        / bytes(1200)
    )


def test_apply_is_read_back_and_a_second_one_changes_nothing(fabric: SoftswitchFabric) -> None:
    controller = fabric.controller()
    first = controller.apply(policy.load("dlcp"))
    first.check()
    assert all(applied.changed for applied in first.switches.values())
    assert controller.apply(policy.load("dlcp")).changed == 0
    assert not any(controller.plan(policy.load("dlcp")).values())


@pytest.mark.parametrize("name", [file.stem for file in policy.POLICY_FOLDER.glob("*.yaml")])
def test_every_shipped_policy_installs_and_rolls_back(fabric: SoftswitchFabric, name: str) -> None:
    controller = fabric.controller()
    controller.apply(policy.load("fifo" if name != "fifo" else "dlcp")).check()
    controller.apply(policy.load(name)).check()
    controller.rollback().check()
    assert controller.history.current() is not None


def test_queue_limits_and_rates_are_set_and_seen(fabric: SoftswitchFabric) -> None:
    controller = fabric.controller()
    desired = controller.compile(policy.load("dlcp"))["leaf1"]
    controller.apply(policy.load("dlcp")).check()
    with controller.device("leaf1") as device:
        assert device.settings is not None
        device.settings.write([], [PortRate(1, 50_000_000)])
        changes = device.plan(desired)
        assert [str(line) for line in changes.lines()] == ["~ rate of port 1: 100000000 bit/s (was 50000000 bit/s)"]
        assert device.apply(desired).error is None
        settings = device.settings.read()
    assert {settings.queues[limit.port, limit.class_] for limit in desired.queues} == set(desired.queues)
    assert settings.rates[1] == PortRate(1, 100_000_000)


def test_default_actions_that_somebody_changed_are_put_right(fabric: SoftswitchFabric) -> None:
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    desired = controller.compile(policy.load("dlcp"))["leaf1"]
    with controller.device("leaf1") as device:
        changed: list[tuple[UpdateKind, Default]] = [
            ("insert", Default("punt", Call("drop_by_policy"))),
            ("insert", Default("gradient_class", Call("set_class", (("class", 7),)))),
        ]
        device.connection.write(changed, device.program.encoder)
        assert sorted(device.plan(desired).lines()) == [
            "- gradient_class default -> set_class(class=7)",
            "- punt default -> drop_by_policy()",
        ]
        assert device.apply(desired).changed == 2
        assert not device.plan(desired)


def test_a_snapshot_brings_back_all_that_a_switch_held(fabric: SoftswitchFabric) -> None:
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    with controller.device("leaf1") as device:
        device.connection.write([("insert", Default("punt", Call("drop_by_policy")))], device.program.encoder)
        before = device.read()
        snapshot = device.connection.snapshot()
        assert snapshot is not None
        device.connection.load(device.program.pipeline)
        assert device.read() != before
        device.connection.restore(snapshot)
        assert device.read() == before


def test_a_policy_is_undone_where_a_switch_has_no_room_for_it(fabric: SoftswitchFabric) -> None:
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    with controller.device("leaf1") as device:
        before = device.read()
        desired = controller.compile(policy.load("fifo"))["leaf1"]
        table = controller.program.pipeline.table("arp_reply")
        rows = [
            TableEntry("arp_reply", (("target", Exact(value)),), Call("reply", (("mac", 1),)))
            for value in range(table.size + 1)
        ]
        applied = device.apply(replace(desired, entities=(*desired.entities, *rows)))
        assert applied.restored
        assert "RESOURCE_EXHAUSTED" in str(applied.error)
        after = device.read()
    assert after == before


def test_ten_thousand_routes_install_and_read_back(fabric: SoftswitchFabric) -> None:
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    desired = controller.compile(policy.load("dlcp"))["spine1"]
    routes = tuple(
        TableEntry(
            "ipv4_route", (("destination", Prefix(0x0B00_0000 + number, 32)),), Call("set_next_hop", (("next_hop", 1),))
        )
        for number in range(10_000)
    )
    with controller.device("spine1") as device:
        applied = device.apply(replace(desired, entities=desired.entities + routes))
        assert (applied.error, applied.changed) == (None, 10_000)
        assert not device.plan(replace(desired, entities=desired.entities + routes))


def test_packets_take_the_installed_paths_and_are_counted(fabric: SoftswitchFabric) -> None:
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    leaf = fabric.switch("leaf1")
    out = [port for number in range(100) for port, _ in leaf.inject(1, gradient("h1", "h5", sequence=number))]
    uplinks = [LEAF_SPINE.port_of("leaf1", spine) for spine in ("spine1", "spine2")]
    assert sorted({port: out.count(port) for port in out}.items()) == [(port, 50) for port in uplinks]

    shares = views.paths(controller, "leaf1")
    assert [(share.neighbour, share.packets, share.share) for share in shares] == [
        ("spine1", 50, 0.5),
        ("spine2", 50, 0.5),
    ]
    assert {share.class_ for share in views.paths(controller, "leaf1", by_class=True)} == {6}
    assert views.paths(controller, "spine1") == []
    assert not any(share.mixed for share in shares)


def test_shares_of_ports_that_also_carry_what_had_no_choice_say_so(tmp_path: Path) -> None:
    ring = topologies.load("ring")
    with SoftswitchFabric(ring, tmp_path) as running:
        controller = running.controller()
        controller.apply(policy.load("dlcp")).check()
        running.switch("s1").inject(ring.port_of("s1", "h1"), gradient("h1", "h2", fabric=ring))
        shares = views.paths(controller, "s1")
    assert [(share.neighbour, share.packets, share.mixed) for share in shares] == [("s2", 1, True), ("s4", 0, True)]


def test_drops_are_told_by_reason_class_and_band(fabric: SoftswitchFabric) -> None:
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    leaf = fabric.switch("leaf1")
    leaf.set_clock(1_000_000)
    for number in range(200):
        leaf.inject(1, gradient("h1", "h2", importance=number % 2 * 255, sequence=number))
    [drop] = [drop for drop in views.drops(controller, "leaf1") if drop.reason == "importance"]
    assert (drop.neighbour, drop.class_) == ("h2", 6)
    assert drop.by_band is not None
    assert drop.by_band[0] == drop.packets > 50

    [queue] = [queue for queue in views.queues(controller, "leaf1") if queue.depth]
    assert (queue.neighbour, queue.class_, queue.limit) == ("h2", 6, 1_000_000)

    with controller.device("leaf1") as device:
        sample = telemetry.sample(LEAF_SPINE, "leaf1", device.settings)  # type: ignore[arg-type]
    [port] = [port for port in sample.ports if port.neighbour == "h2"]
    assert port.dropped == drop.packets


def test_the_gateway_answers_arp(fabric: SoftswitchFabric) -> None:
    from scapy.layers.l2 import ARP

    controller = fabric.controller()
    controller.apply(policy.load("fifo")).check()
    ask = Ether(dst="ff:ff:ff:ff:ff:ff", src=LEAF_SPINE.host("h1").mac) / ARP(
        op=1, hwsrc=LEAF_SPINE.host("h1").mac, psrc=LEAF_SPINE.host("h1").ipv4, pdst=GATEWAY_IPV4
    )
    [(port, frame)] = fabric.switch("leaf1").inject(1, bytes(ask))
    assert (port, Ether(frame)[ARP].hwsrc) == (1, LEAF_SPINE.switch("leaf1").mac)


def test_a_failed_link_is_routed_around_and_taken_back(fabric: SoftswitchFabric) -> None:
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    reactions: list[Rerouted] = []
    broken = frozenset(("leaf1", "spine1"))
    with Rerouter(controller, reactions.append):
        fabric.set_link("leaf1", "spine1", up=False)
        wait_until(lambda: bool(reactions) and reactions[-1].failed == {broken})
        around = controller.compile(policy.load("dlcp"), [broken])
        for name in ("leaf1", "leaf2", "spine1"):
            with controller.device(name) as device:
                assert not device.plan(around[name])
        fabric.set_link("leaf1", "spine1", up=True)
        # Each end tells of its own fall and rise, in streams of their own: only in the end are both known.
        wait_until(lambda: not reactions[-1].failed and controller.apply(policy.load("dlcp")).changed == 0)
    assert not any(reaction.errors for reaction in reactions)


def test_a_switch_leaves_out_a_failed_port_before_any_controller_acts(fabric: SoftswitchFabric) -> None:
    fabric.controller().apply(policy.load("dlcp")).check()
    fabric.set_link("leaf1", "spine1", up=False)
    leaf = fabric.switch("leaf1")
    out = {port for number in range(10) for port, _ in leaf.inject(1, gradient("h1", "h5", sequence=number))}
    assert out == {LEAF_SPINE.port_of("leaf1", "spine2")}


def test_what_was_applied_while_a_link_flapped_is_put_right(fabric: SoftswitchFabric) -> None:
    """Who applied saw the link down; the rerouter, which was busy, learns of its fall and its rise at once."""
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    rerouter = Rerouter(controller)  # not started: the test takes its steps
    for name in controller.names():
        rerouter._events.put(SwitchAnswers(name, answers=True))
    assert rerouter._news(None) == (True, False)
    rerouter._react()
    broken = frozenset(("leaf1", "spine1"))
    controller.apply(policy.load("dlcp"), [broken]).check()
    for links in (frozenset({broken}), frozenset()):
        rerouter._events.put(LinksFailed(links))
    assert rerouter._news(None) == (True, False)
    rerouter._react()
    assert not any(controller.plan(policy.load("dlcp")).values())


def test_a_restarted_switch_is_given_its_state_by_the_rerouter(fabric: SoftswitchFabric) -> None:
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    reactions: list[Rerouted] = []
    with Rerouter(controller, reactions.append):
        fabric.stop("spine1")
        wait_until(lambda: any("spine1" in reaction.dead for reaction in reactions))
        down = controller.compile(policy.load("dlcp"), [link.ends for link in LEAF_SPINE.links_of("spine1")])
        with controller.device("leaf1") as device:
            assert not device.plan(down["leaf1"])
        fabric.start("spine1")
        wait_until(lambda: reactions[-1].dead == frozenset() and "spine1" in reactions[-1].changed)
    assert not any(reaction.errors for reaction in reactions)
    assert controller.apply(policy.load("dlcp")).changed == 0


def test_a_rerouter_begins_with_what_the_switches_really_hold(fabric: SoftswitchFabric) -> None:
    """The one before it may have ended while a switch was empty and the others' routes went around it."""
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    fabric.stop("spine2")
    around = controller.compile(policy.load("dlcp"), [link.ends for link in LEAF_SPINE.links_of("spine2")])
    for name in ("leaf1", "leaf2", "spine1"):
        with controller.device(name) as device:
            assert device.apply(around[name]).error is None
    fabric.start("spine2")
    reactions: list[Rerouted] = []
    with Rerouter(controller, reactions.append):
        wait_until(lambda: {"leaf1", "leaf2", "spine2"} <= {name for each in reactions for name in each.changed})
    assert not any(reaction.errors for reaction in reactions)
    assert controller.apply(policy.load("dlcp")).changed == 0


def test_no_route_leads_over_a_started_switch_until_it_has_its_state(
    fabric: SoftswitchFabric, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried again until it takes it; nothing else has to happen for that."""
    controller = fabric.controller()
    controller.apply(policy.load("dlcp")).check()
    down = controller.compile(policy.load("dlcp"), [link.ends for link in LEAF_SPINE.links_of("spine1")])
    reactions: list[Rerouted] = []
    refusing = Event()
    apply = Device.apply

    def refuse(device: Device, desired: DesiredState) -> Applied:
        if refusing.is_set() and device.name == "spine1":
            return Applied("spine1", Changes("spine1", program=False, stages=()), "spine1: no answer within 1 s")
        return apply(device, desired)

    monkeypatch.setattr(Device, "apply", refuse)
    with Rerouter(controller, reactions.append):
        fabric.stop("spine1")
        wait_until(lambda: any("spine1" in reaction.dead for reaction in reactions))
        refusing.set()
        fabric.start("spine1")
        wait_until(lambda: all("spine1" in reaction.errors for reaction in reactions[-2:]))
        for name in ("leaf1", "leaf2"):
            with controller.device(name) as device:
                assert not device.plan(down[name])
        refusing.clear()
        wait_until(lambda: not reactions[-1].errors and "spine1" in reactions[-1].changed)
    assert controller.apply(policy.load("dlcp")).changed == 0


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
