// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0

#ifndef GRADLANE_V1MODEL_ROUTE_P4
#define GRADLANE_V1MODEL_ROUTE_P4

#include "../shared/next_hop.p4"
#include "../shared/route.p4"
#include "metadata.p4"
#include "spray.p4"

// From an IP packet to the port and the addresses of its next hop.
control Route(inout headers_t hdr, inout metadata_t meta, inout port_t egress_port, inout drop_reason_t reason) {
    RouteIpv4() route_ipv4;
    RouteIpv6() route_ipv6;
    Spray() spray;
    NextHop() next_hop_of;
    CountDown() count_down_ttl;
    CountDown() count_down_hop_limit;

    apply {
        next_hop_t next_hop = 0;
        group_t group = 0;

        if (hdr.ipv4.isValid()) {
            route_ipv4.apply(hdr.ipv4.destination, next_hop, group, reason);
        } else if (hdr.ipv6.isValid()) {
            route_ipv6.apply(hdr.ipv6.destination, next_hop, group, reason);
        } else {
            reason = drop_reason_t.NO_ROUTE;
        }

        if (group != 0) {
            spray.apply(hdr, meta, group, next_hop, reason);
        }

        if (reason == drop_reason_t.NONE) {
            next_hop_of.apply(next_hop, hdr.ethernet, egress_port, meta.port_index, reason);
            if (reason == drop_reason_t.NONE) {
                if (hdr.ipv4.isValid()) {
                    count_down_ttl.apply(hdr.ipv4.ttl, reason);
                } else {
                    count_down_hop_limit.apply(hdr.ipv6.hop_limit, reason);
                }
            }
        }
    }
}

#endif
