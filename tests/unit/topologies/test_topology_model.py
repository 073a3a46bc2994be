# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What the named topologies and the builders give: nodes, ports, addresses, rates, queues."""

from collections import Counter
from ipaddress import ip_address

import networkx
import pytest

import topologies
from topologies import Fabric, UsageError, schema
from topologies.builders import build
from topologies.model import QueueDepth


@pytest.fixture(params=topologies.names())
def fabric(request: pytest.FixtureRequest) -> Fabric:
    return topologies.load(request.param)


def test_every_named_topology_is_connected_and_has_hosts(fabric: Fabric) -> None:
    assert fabric.hosts
    assert networkx.is_connected(fabric.graph())


def test_ports_are_dense_from_one_and_hosts_come_first(fabric: Fabric) -> None:
    for switch in fabric.switches:
        ports = fabric.ports(switch.name)
        assert [port.number for port in ports] == list(range(1, len(ports) + 1))
        assert [port.index for port in ports] == list(range(len(ports)))
        faces_host = [port.faces_host for port in ports]
        assert faces_host == sorted(faces_host, reverse=True)


def test_device_ids_count_from_one_and_grpc_ports_follow_them(fabric: Fabric) -> None:
    assert [switch.device_id for switch in fabric.switches] == list(range(1, len(fabric.switches) + 1))
    assert [switch.grpc_port for switch in fabric.switches] == [50050 + s.device_id for s in fabric.switches]


def test_both_ends_of_a_link_name_each_other(fabric: Fabric) -> None:
    for switch in fabric.switches:
        for port in fabric.ports(switch.name):
            assert fabric.port_of(switch.name, port.peer.node) == port.number
            assert fabric.port_of(port.peer.node, switch.name) == port.peer.port


def test_addresses_tell_the_switch_and_never_repeat(fabric: Fabric) -> None:
    for host in fabric.hosts:
        device_id = fabric.switch(host.switch).device_id
        assert host.ipv4.startswith(f"10.0.{device_id}.")
        assert ip_address(host.ipv6) in [ip_address(f"fd00:0:0:{device_id:x}::{n:x}") for n in range(1, 63)]
    everything = Counter(a for host in fabric.hosts for a in (host.ipv4, host.ipv6, host.mac))
    everything.update(switch.mac for switch in fabric.switches)
    assert max(everything.values()) == 1


def test_interface_names_fit_the_kernel_and_never_repeat(fabric: Fabric) -> None:
    for one in (fabric, fabric.instance("g31-", 60000)):
        names = [port.interface for switch in one.switches for port in one.ports(switch.name)]
        assert len(set(names)) == len(names)
        assert max(map(len, names)) <= 15


def test_a_fabric_survives_the_way_through_json(fabric: Fabric) -> None:
    assert Fabric.from_dict(fabric.as_dict()) == fabric


def test_the_default_is_two_leaves_two_spines_and_eight_hosts_at_100_megabit() -> None:
    fabric = topologies.load("leaf_spine")
    assert [switch.name for switch in fabric.switches] == ["leaf1", "leaf2", "spine1", "spine2"]
    assert [host.name for host in fabric.hosts] == [f"h{n}" for n in range(1, 9)]
    assert fabric.neighbours("leaf1") == ("h1", "h2", "h3", "h4", "spine1", "spine2")
    assert {fabric.link(host.name, host.switch).rate_from(host.switch) for host in fabric.hosts} == {100_000_000}
    assert fabric.link("leaf2", "spine1").rate_from("spine1") == 200_000_000
    assert fabric.host("h1").ipv4 == "10.0.1.1"
    assert fabric.host("h5").ipv6 == "fd00:0:0:2::1"
    assert fabric.ports("leaf1")[0].interface == "leaf1-eth1"


def test_fat_tree_has_the_counts_of_its_k() -> None:
    for k in (2, 4, 6, 8):
        fabric = build(schema.FatTree(k=k))
        roles = Counter(switch.role for switch in fabric.switches)
        assert roles == {"edge": k * k // 2, "aggregation": k * k // 2, "core": k * k // 4}
        assert len(fabric.hosts) == k**3 // 4
        assert {len(fabric.ports(switch.name)) for switch in fabric.switches} == {k}


def test_a_core_reaches_every_pod_once_in_pod_order() -> None:
    fabric = build(schema.FatTree(k=4))
    assert fabric.neighbours("core1") == ("agg1", "agg3", "agg5", "agg7")
    assert fabric.neighbours("core4") == ("agg2", "agg4", "agg6", "agg8")


def test_torus_wraps_and_mesh_does_not() -> None:
    torus, mesh = build(schema.Torus(dimensions=[3, 4])), build(schema.Mesh(dimensions=[3, 4]))
    assert {len(torus.ports(switch.name)) for switch in torus.switches} == {5}  # four neighbours and a host
    assert mesh.neighbours("s1") == ("h1", "s5", "s2")
    assert "s4" in torus.neighbours("s1")


def test_a_torus_of_width_two_has_one_link_between_its_two_switches() -> None:
    fabric = build(schema.Torus(dimensions=[2]))
    assert fabric.neighbours("s1") == ("h1", "s2")


def test_rates_are_kept_per_direction() -> None:
    link = schema.LinkSettings(rate=10_000_000, reverse_rate=20_000_000)
    fabric = build(schema.Dumbbell(fabric_link=link))
    assert fabric.link("s2", "s1").rate_from("s1") == 10_000_000
    assert fabric.link("s2", "s1").rate_from("s2") == 20_000_000


def test_queues_are_set_by_class_and_by_direction() -> None:
    queue = schema.Queue(packets=100, classes={7: schema.Depth(packets=10, bytes=15000)})
    link = schema.LinkSettings(queue=queue, reverse_queue=schema.Queue(packets=5))
    fabric = build(schema.Dumbbell(fabric_link=link))
    there, back = fabric.port("s1", 5).queues, fabric.port("s2", 5).queues
    assert there == (QueueDepth(100),) * 7 + (QueueDepth(10, 15000),)
    assert back == (QueueDepth(5),) * 8


def test_an_instance_has_its_own_names_and_ports_and_the_same_addresses() -> None:
    fabric = topologies.load("leaf_spine")
    other = fabric.instance("g1-", 51000)
    assert other.ports("spine1")[0].interface == "g1-3-eth1"
    assert other.switch("spine1").grpc_address == "127.0.0.1:51002"
    assert other.hosts == fabric.hosts


@pytest.mark.parametrize("ask", ["host", "switch"])
def test_an_unknown_node_is_a_usage_error_that_names_the_known_ones(ask: str) -> None:
    with pytest.raises(UsageError, match="fabric leaf_spine has no .* 'x9'; it has .*1"):
        getattr(topologies.load("leaf_spine"), ask)("x9")
