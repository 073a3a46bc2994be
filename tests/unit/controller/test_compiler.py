# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""What a policy and a fabric make of every switch."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import replace

import pytest

import topologies
from controller import policy
from controller.compiler import DesiredState, compile_policy
from controller.p4rt.entities import (
    Between,
    Call,
    Exact,
    FieldMatch,
    Group,
    GroupMember,
    GroupRef,
    Masked,
    Member,
    TableEntry,
)
from topologies.errors import UsageError
from topologies.loading import loads
from topologies.model import Fabric

LEAF_SPINE = topologies.load("leaf_spine")
FABRICS = topologies.names()


def compiled(text: str, fabric: Fabric = LEAF_SPINE, **options: object) -> dict[str, DesiredState]:
    return compile_policy(policy.loads(text, "p.yaml"), fabric, **options)  # type: ignore[arg-type]


def table(state: DesiredState, name: str) -> list[TableEntry]:
    return [entity for entity in state.entities if isinstance(entity, TableEntry) and entity.table == name]


def groups(state: DesiredState) -> dict[int, Group]:
    return {entity.id: entity for entity in state.entities if isinstance(entity, Group)}


def matches(match: Iterable[tuple[str, FieldMatch]], **values: int) -> bool:
    for name, wanted in match:
        value = values[name]
        match wanted:
            case Exact(one):
                hit = value == one
            case Masked(bits, mask):
                hit = value & mask == bits
            case Between(low, high):
                hit = low <= value <= high
            case _:
                raise AssertionError(wanted)
        if not hit:
            return False
    return True


def looked_up(state: DesiredState, name: str, **values: int) -> Call | None:
    found = [entry for entry in table(state, name) if matches(entry.match, **values)]
    best = [entry for entry in found if entry.priority == max(entry.priority for entry in found)]
    assert len({entry.action for entry in best}) <= 1, "two rows of one priority disagree"
    action = best[0].action if best else None
    assert action is None or isinstance(action, Call)
    return action


def verdict(state: DesiredState, class_: int, importance: int, depth: int) -> Call | None:
    return looked_up(state, "judge", **{"class": class_}, importance=importance, depth=depth)


def class_of(state: DesiredState, job: int = 1, layer: int = 0, type_: int = 1) -> int | None:
    found = looked_up(state, "gradient_class", job=job, layer=layer, type=type_)
    return None if found is None else dict(found.arguments)["class"]


# Forwarding


@pytest.mark.parametrize("name", FABRICS)
def test_compiling_twice_gives_the_same(name: str) -> None:
    dlcp = policy.load("dlcp")
    assert compile_policy(dlcp, topologies.load(name)) == compile_policy(dlcp, topologies.load(name))


@pytest.mark.parametrize("name", FABRICS)
def test_every_route_reaches_its_host_in_as_few_hops_as_the_fabric_allows(name: str) -> None:
    fabric = topologies.load(name)
    states = compile_policy(policy.load("dlcp"), fabric)
    for host in fabric.hosts:
        address = int(ipaddress.IPv4Address(host.ipv4))
        for switch in fabric.switches:
            reached = {switch.name}
            for _ in range(len(fabric.switches) + 1):
                if reached == {host.name}:
                    break
                reached = {node for at in reached for node in next_nodes(fabric, states, at, address, host.name)}
            assert reached == {host.name}


def next_nodes(fabric: Fabric, states: dict[str, DesiredState], at: str, address: int, host: str) -> set[str]:
    if at == host:
        return {at}
    state = states[at]
    [route] = [e for e in table(state, "ipv4_route") if e.match[0][1][0] == address]
    assert isinstance(route.action, Call)
    [(kind, number)] = route.action.arguments
    hops = [number] if kind == "next_hop" else [member.member for member in groups(state)[number].members]
    forwards = {entry.match[0][1][0]: entry.action for entry in table(state, "next_hop")}
    ports = [dict(forwards[hop].arguments)["port"] for hop in hops]  # type: ignore[union-attr]
    return {fabric.port(at, port).peer.node for port in ports}


def test_every_reference_stands_before_it_is_used() -> None:
    for state in compile_policy(policy.load("dlcp"), topologies.load("fat_tree_4")).values():
        members: set[int] = set()
        seen: set[int] = set()
        for entity in state.entities:
            match entity:
                case Member():
                    members.add(entity.id)
                case Group():
                    assert {member.member for member in entity.members} <= members
                    seen.add(entity.id)
                case TableEntry(action=GroupRef(group)):
                    assert group in seen


def test_no_two_entities_share_a_key() -> None:
    for name in FABRICS:
        for state in compile_policy(policy.load("dlcp"), topologies.load(name)).values():
            keys = [entity.key for entity in state.entities]
            assert len(keys) == len(set(keys))


def test_members_watch_the_port_that_they_leave_by() -> None:
    state = compile_policy(policy.load("dlcp"), LEAF_SPINE)["leaf1"]
    for group in groups(state).values():
        assert [member.watch_port for member in group.members] == [member.member for member in group.members]


def test_both_tables_of_the_selector_know_every_group() -> None:
    state = compile_policy(policy.load("dlcp"), LEAF_SPINE)["leaf1"]
    for name in ("path_group", "path_group_alternative"):
        assert {entry.action for entry in table(state, name)} == {GroupRef(group) for group in groups(state)}


def test_path_k_of_the_header_is_member_k_minus_1() -> None:
    state = compile_policy(policy.load("dlcp"), LEAF_SPINE)["leaf1"]
    [(number, group)] = groups(state).items()
    pinned = {entry.match[1][1][0]: entry.action for entry in table(state, "pinned_path")}
    assert pinned == {
        k: Call("set_next_hop", (("next_hop", member.member),)) for k, member in enumerate(group.members, start=1)
    }
    assert number == LEAF_SPINE.switch("leaf2").device_id


def test_without_pinning_no_header_chooses_a_path() -> None:
    assert not table(compiled("name: x\npaths: {pinned: false}")["leaf1"], "pinned_path")


def test_a_failed_link_changes_members_and_no_route_of_a_leaf_with_paths_left() -> None:
    dlcp, fabric = policy.load("dlcp"), loads("kind: leaf_spine\nspines: 3", "f.yaml")
    whole = compile_policy(dlcp, fabric)["leaf1"]
    broken = compile_policy(dlcp, fabric, failed=[("leaf1", "spine2")])["leaf1"]
    assert table(whole, "ipv4_route") == table(broken, "ipv4_route")
    [before], [after] = groups(whole).values(), groups(broken).values()
    assert {m.member for m in before.members} - {m.member for m in after.members} == {fabric.port_of("leaf1", "spine2")}


def test_a_spine_that_lost_a_leaf_is_avoided_by_the_other_leaf() -> None:
    states = compile_policy(policy.load("dlcp"), LEAF_SPINE, failed=[("spine1", "leaf1")])
    [route] = {entry.action for entry in table(states["leaf2"], "ipv4_route")} - {
        Call("set_next_hop", (("next_hop", LEAF_SPINE.port_of("leaf2", host.name)),))
        for host in LEAF_SPINE.hosts_of("leaf2")
    }
    assert route == Call("set_next_hop", (("next_hop", LEAF_SPINE.port_of("leaf2", "spine2")),))


def test_a_host_that_is_cut_off_has_no_route() -> None:
    states = compile_policy(policy.load("dlcp"), LEAF_SPINE, failed=[("leaf1", "h1")])
    address = int(ipaddress.IPv4Address(LEAF_SPINE.host("h1").ipv4))
    for state in states.values():
        assert address not in {entry.match[0][1][0] for entry in table(state, "ipv4_route")}


def test_out_of_service_takes_a_link_or_a_whole_switch_out() -> None:
    for name in ("leaf1-spine2", "spine2-leaf1", "spine2"):
        states = compiled(f"name: x\npaths: {{out_of_service: [{name}]}}")
        assert not groups(states["leaf1"])
    with pytest.raises(UsageError, match=r"p.yaml:2: paths.out_of_service\[0\]: .* called 'spine9'"):
        compiled("name: x\npaths: {out_of_service: [spine9]}")


def test_weights_become_the_members_weights_in_their_smallest_terms() -> None:
    up = [LEAF_SPINE.port_of("leaf1", spine) for spine in ("spine1", "spine2")]
    [group] = groups(compiled("name: x\npaths: {weights: {spine1: 2, leaf1-spine2: 6}}")["leaf1"]).values()
    assert group.members == (GroupMember(up[0], 1, up[0]), GroupMember(up[1], 3, up[1]))
    assert not groups(compiled("name: x\npaths: {weights: {spine1: 0}}")["leaf1"])
    [group] = groups(compiled("name: x\npaths: {weights: rate}")["leaf1"]).values()
    assert {member.weight for member in group.members} == {1}
    with pytest.raises(UsageError, match=r"p.yaml:2: paths.weights.h1: .* called 'h1'"):
        compiled("name: x\npaths: {weights: {h1: 2}}")


def test_a_leaf_answers_for_the_gateway_with_its_own_mac() -> None:
    states = compile_policy(policy.load("dlcp"), LEAF_SPINE)
    [reply] = table(states["leaf2"], "arp_reply")
    assert reply.match == (("target", Exact(int(ipaddress.IPv4Address("169.254.1.1")))),)
    assert reply.action == Call("reply", (("mac", int(LEAF_SPINE.switch("leaf2").mac.replace(":", ""), 16)),))
    assert not table(states["spine1"], "arp_reply")


# Classes


def test_classes_follow_type_then_job_then_layer() -> None:
    state = compiled(
        "name: x\njobs:\n  any: {front_first: {layers: 12}}\n  mnist: {id: 7, class: 2}\nclasses: {trimmed: 5}\n"
    )["leaf1"]
    assert [class_of(state, layer=layer) for layer in (0, 1, 2, 11, 99)] == [6, 6, 5, 1, 1]
    assert class_of(state, job=7, layer=0) == 2
    assert {class_of(state, job=7, type_=type_) for type_ in range(3, 9)} == {7}
    assert class_of(state, type_=2) == 5


def test_a_job_that_no_rule_names_shares_the_class_of_ordinary_traffic() -> None:
    state = compiled("name: x\njobs: {7: {class: 2}}\nclasses: {ordinary: 1, dscp: {EF: 6, 0: 0}}")["leaf1"]
    assert (class_of(state, job=7), class_of(state, job=8)) == (2, 1)
    dscp = {entry.match[0][1][0]: dict(entry.action.arguments)["class"] for entry in table(state, "dscp_class")}  # type: ignore[union-attr]
    assert (dscp[46], dscp.get(0, 0), dscp[1]) == (6, 0, 1)


def test_path_modes_faults_and_punts_are_entries() -> None:
    state = compiled(
        "name: x\npaths: {default: shallower_of_two, per_class: [{classes: 0, mode: random_member}]}\n"
        "parser_faults: {default: drop, by_fault: {bad_ipv4: forward}}\n"
        "punt: [{ether_type: 0x88cc, action: send}, {protocol: 1, action: copy}]\n"
    )["spine1"]
    assert [str(entry.action) for entry in table(state, "path_mode")] == ["random_member()"] + [
        "shallower_of_two()"
    ] * 7
    assert {entry.match[0][1][0] for entry in table(state, "parser_fault")} == {1, 2, 3, 4, 5, 6, 7, 9, 10}
    assert looked_up(state, "punt", ether_type=0x88CC, protocol=1) == Call("send_to_cpu")
    assert looked_up(state, "punt", ether_type=0x0800, protocol=1) == Call("copy_to_cpu")


# Judgement

JUDGE = """
name: x
classes: {trimmed: 4}
judgement:
  - classes: 1-6
    rows:
      - {bands: 0-1, above: 64KB, action: drop}
      - {bands: 0-5, above: 128KB, action: trim}
      - {above: 16KB, action: mark}
      - {importance: 64-79, above: 32KB, action: mark_or_drop}
      - {importance: 17, action: keep}
queues:
  default: {bytes: 1MB}
  per_class: [{classes: 2, bytes: 500KB, full: 50%}]
"""
DROP, FULL = Call("drop_judged", (("reason", 1),)), Call("drop_judged", (("reason", 3),))
MARK, TRIM = Call("mark_or_keep"), Call("trim", (("trim_class", 4),))


@pytest.mark.parametrize(
    ("class_", "importance", "octets", "expected"),
    [
        (5, 0, 15_000, None),
        (5, 0, 16_000, MARK),
        (5, 0, 64_000, DROP),
        (5, 63, 200_000, DROP),
        (5, 64, 127_900, Call("mark_or_drop")),
        (5, 64, 128_000, TRIM),
        (5, 191, 128_000, TRIM),
        (5, 192, 900_000, MARK),
        (5, 255, 970_048, FULL),
        (5, 17, 500_000, Call("keep")),
        (5, 17, 970_048, FULL),
        (2, 255, 250_048, FULL),
        (2, 255, 249_900, MARK),
        (7, 0, 900_000, None),
        (7, 0, 970_048, FULL),
    ],
)
def test_judgement_by_class_importance_and_depth(
    class_: int, importance: int, octets: int, expected: Call | None
) -> None:
    assert verdict(compiled(JUDGE)["leaf1"], class_, importance, octets // 64) == expected


def test_bmv2_counts_packets() -> None:
    state = compiled(JUDGE, targets="bmv2")["leaf1"]
    assert verdict(state, 5, 0, 10) is None
    assert verdict(state, 5, 0, 11) == MARK
    assert verdict(state, 5, 0, 43) == DROP
    assert {limit.packets for limit in state.queues} == {333, 666}
    assert {limit.bytes for limit in state.queues} == {0}


def test_a_drain_time_is_that_of_the_slowest_port() -> None:
    state = compiled(
        "name: x\njudgement: [{classes: 1, rows: [{above: 2ms, action: drop}]}]\nqueues: {default: {bytes: 40ms}}"
    )
    assert {limit.bytes for limit in state["leaf1"].queues} == {500_000}
    assert {limit.bytes for limit in state["spine1"].queues} == {1_000_000}
    assert verdict(state["leaf1"], 1, 255, 25_000 // 64) is None
    assert verdict(state["leaf1"], 1, 255, 25_000 // 64 + 1) == DROP
    assert verdict(state["spine1"], 1, 255, 25_000 // 64 + 1) is None


def test_without_queue_settings_the_fabrics_own_hold() -> None:
    state = compiled("name: x")["leaf1"]
    assert {(limit.packets, limit.bytes) for limit in state.queues} == {(256, 0)}
    assert verdict(state, 3, 255, 256 * 1500 // 64) == FULL


def test_full_stands_at_least_a_packet_below_the_limit_and_may_be_off() -> None:
    state = compiled("name: x\nqueues: {default: {bytes: 10KB, full: 100%}}")["leaf1"]
    assert verdict(state, 3, 255, 8_500 // 64) is None
    assert verdict(state, 3, 255, 8_500 // 64 + 1) == FULL
    assert not table(compiled("name: x\nqueues: {default: {bytes: 10KB, full: off}}")["leaf1"], "judge")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (
            "name: x\njudgement:\n- classes: 1\n  rows:\n  - {above: 600KB, action: drop}\n"
            "queues: {default: {bytes: 500KB}}",
            r"p.yaml:5: judgement\[0\].rows\[0\].above: 600KB is 600000 bytes, which the queue never holds",
        ),
        (
            "name: x\njudgement:\n- classes: 1\n  rows: [{above: 5MB, action: drop}]\nqueues: {default: {bytes: 9MB}}",
            "p.yaml:.*deeper than softswitch can express",
        ),
    ],
)
def test_a_depth_that_cannot_be_is_told_by_line(text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        compiled(text)


def test_a_drain_time_behind_unlimited_ports_counts_on_the_policys_own_rate() -> None:
    links = tuple(replace(link, rate_bps=None, reverse_rate_bps=None) for link in LEAF_SPINE.links)
    fabric = replace(LEAF_SPINE, links=links)
    state = compiled("name: x\nunlimited_rate: 200M\nqueues: {default: {bytes: 40ms}}", fabric)["leaf1"]
    assert {limit.bytes for limit in state.queues} == {1_000_000}
    assert {rate.bits_per_second for rate in state.rates} == {0}


def test_rows_for_all_classes_but_one_are_few() -> None:
    state = compiled(
        "name: x\njudgement: [{classes: 1-7, rows: [{above: 2ms, action: mark}]}]\n"
        "queues: {default: {bytes: 40ms, full: off}}"
    )["leaf1"]
    assert len(table(state, "judge")) == 3
    assert verdict(state, 0, 255, 9999) is None
    assert all(verdict(state, class_, 255, 9999) == MARK for class_ in range(1, 8))


@pytest.mark.parametrize("name", [file.stem for file in policy.POLICY_FOLDER.glob("*.yaml")])
@pytest.mark.parametrize("target", ["softswitch", "bmv2"])
@pytest.mark.parametrize("fabric", FABRICS)
def test_every_shipped_policy_compiles_for_every_fabric(name: str, target: str, fabric: str) -> None:
    states = compile_policy(policy.load(name), topologies.load(fabric), target)  # type: ignore[arg-type]
    assert all(table(state, "judge") for state in states.values())
