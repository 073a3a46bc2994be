# SPDX-FileCopyrightText: 2026 The Gradlane developers
# SPDX-License-Identifier: Apache-2.0
"""Rows in few words, and a small policy that routes everything the tests send."""

from __future__ import annotations

from tests.pipeline.packets import RECEIVER, RECEIVER6, SENDER
from tests.pipeline.reference import Exact, Lpm, Match, Member, Policy, Range, Row, Ternary

ANY = Ternary(0, 0)
ANY_LAYER, ANY_IMPORTANCE, ANY_DEPTH = Range(0, 0xFFFF), Range(0, 255), Range(0, 0xFFFF)
RECEIVER_MAC, PORT_MAC = 0x020000000002, 0x02000000FE02


def port_index(port: int, index: int) -> Row:
    return Row("ingress_port", {"ingress_port": Exact(port)}, "set_port_index", {"index": index})


def next_hop(number: int, port: int, index: int | None = None) -> Row:
    parameters = {
        "port": port,
        "port_index": port if index is None else index,
        "source_mac": PORT_MAC + port,
        "destination_mac": RECEIVER_MAC + (number << 8),
    }
    return Row("next_hop", {"next_hop": Exact(number)}, "forward", parameters)


def route4(address: int, length: int, **result: int) -> Row:
    return _route("ipv4_route", Lpm(address & ~((1 << 32 - length) - 1), length, 32), result)


def route6(address: int, length: int, **result: int) -> Row:
    return _route("ipv6_route", Lpm(address & ~((1 << 128 - length) - 1), length, 128), result)


def _route(table: str, match: Lpm, result: dict[str, int]) -> Row:
    action = "set_group" if "group" in result else "set_next_hop" if result else "drop_by_policy"
    return Row(table, {"destination": match}, action, result)


def gradient_class(traffic_class: int, priority: int = 1, job: Ternary = ANY, layer: Range = ANY_LAYER,
                   type: Ternary = ANY) -> Row:  # fmt: skip
    match: dict[str, Match] = {"job": job, "layer": layer, "type": type}
    return Row("gradient_class", match, "set_class", {"class": traffic_class}, priority)


def dscp_class(dscp: int, traffic_class: int) -> Row:
    return Row("dscp_class", {"dscp": Exact(dscp)}, "set_class", {"class": traffic_class})


def judge(action: str, priority: int = 1, traffic_class: Ternary = ANY, importance: Range = ANY_IMPORTANCE,
          depth: Range = ANY_DEPTH, **parameters: int) -> Row:  # fmt: skip
    return Row(
        "judge", {"class": traffic_class, "importance": importance, "depth": depth}, action, parameters, priority
    )


def punt(action: str, priority: int = 1, ether_type: Ternary = ANY, protocol: Ternary = ANY) -> Row:
    return Row("punt", {"ether_type": ether_type, "protocol": protocol}, action, {}, priority)


def path_mode(traffic_class: int, mode: str) -> Row:
    return Row("path_mode", {"class": Exact(traffic_class)}, mode)


def pinned_path(group: int, path: int, hop: int) -> Row:
    return Row("pinned_path", {"group": Exact(group), "path": Exact(path)}, "set_next_hop", {"next_hop": hop})


def arp_reply(target: int, mac: int) -> Row:
    return Row("arp_reply", {"target": Exact(target)}, "reply", {"mac": mac})


# Ports 1 to 3 have indices; the sender is behind port 1, the receiver behind port 2 by next hop 2.
ROUTED = Policy(
    rows=(
        port_index(1, 1),
        port_index(2, 2),
        port_index(3, 3),
        next_hop(1, 1),
        next_hop(2, 2),
        next_hop(3, 3),
        route4(SENDER, 32, next_hop=1),
        route4(RECEIVER, 24, next_hop=2),
        route6(RECEIVER6, 64, next_hop=2),
    )
)

# The same, with the receiver behind a group of three members.
GROUP = 5
SPRAYED = Policy(
    rows=(
        *(port_index(port, port) for port in (1, 2, 3, 4)),
        *(next_hop(port, port) for port in (1, 2, 3, 4)),
        route4(RECEIVER, 24, group=GROUP),
        route6(RECEIVER6, 64, group=GROUP),
    ),
    groups={GROUP: (Member(2, 2), Member(3, 3), Member(4, 4))},
)
