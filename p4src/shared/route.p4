// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// From a destination to one next hop, or to a group of equally good ones. Both results must be 0 on entry.

#ifndef GRADLANE_ROUTE_P4
#define GRADLANE_ROUTE_P4

#include "actions.p4"
#include "sizes.p4"
#include "types.p4"

action no_route(out drop_reason_t reason) {
    reason = drop_reason_t.NO_ROUTE;
}

control RouteIpv4(in ipv4_address_t destination,
                  inout next_hop_t next_hop, inout group_t group, inout drop_reason_t reason) {
    ROW_COUNTER(ipv4_route_rows)

    table ipv4_route {
        key = { destination : lpm @name("destination"); }
        actions = { set_next_hop(next_hop); set_group(group); drop_by_policy(reason); @defaultonly no_route(reason); }
        const default_action = no_route(reason);
        size = IPV4_ROUTE_ROWS;
        COUNTED_BY(ipv4_route_rows)
    }

    apply {
        ipv4_route.apply();
    }
}

control RouteIpv6(in ipv6_address_t destination,
                  inout next_hop_t next_hop, inout group_t group, inout drop_reason_t reason) {
    ROW_COUNTER(ipv6_route_rows)

    table ipv6_route {
        key = { destination : lpm @name("destination"); }
        actions = { set_next_hop(next_hop); set_group(group); drop_by_policy(reason); @defaultonly no_route(reason); }
        const default_action = no_route(reason);
        size = IPV6_ROUTE_ROWS;
        COUNTED_BY(ipv6_route_rows)
    }

    apply {
        ipv6_route.apply();
    }
}

#endif
