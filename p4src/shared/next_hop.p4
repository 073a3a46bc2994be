// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// From a next hop, switch or host, to the port and the addresses that reach it.

#ifndef GRADLANE_NEXT_HOP_P4
#define GRADLANE_NEXT_HOP_P4

#include "headers.p4"
#include "sizes.p4"

control NextHop(in next_hop_t hop, inout ethernet_t ethernet,
                inout port_t egress_port, inout port_index_t index, inout drop_reason_t reason) {
    action forward(@name("port") port_t port, @name("port_index") port_index_t port_index,
                   @name("source_mac") mac_t source_mac, @name("destination_mac") mac_t destination_mac) {
        egress_port = port;
        index = port_index;
        ethernet.source = source_mac;
        ethernet.destination = destination_mac;
    }

    action unknown_next_hop() {
        reason = drop_reason_t.NO_ROUTE;
    }

    table next_hop {
        key = { hop : exact @name("next_hop"); }
        actions = { forward; @defaultonly unknown_next_hop; }
        const default_action = unknown_next_hop;
        size = NEXT_HOP_ROWS;
    }

    apply {
        next_hop.apply();
    }
}

// `hops` is IPv4's time to live or IPv6's hop limit.
control CountDown(inout bit<8> hops, inout drop_reason_t reason) {
    apply {
        if (hops > 1) {
            hops = hops - 1;
        } else {
            reason = drop_reason_t.TTL;
        }
    }
}

#endif
