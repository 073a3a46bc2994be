// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// A plain IPv4 router: hosts by exact match, else the longest prefix; next hop, TTL and header checksum.
#include "headers.p4"

control RouterVerify(inout headers_t h, inout metadata_t m) {
    apply {
        verify_checksum(h.ipv4.isValid(),
            { h.ipv4.version, h.ipv4.ihl, h.ipv4.diffserv, h.ipv4.length, h.ipv4.identification, h.ipv4.flags,
              h.ipv4.fragment, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.source, h.ipv4.destination },
            h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
    action set_next_hop(bit<16> next_hop) { m.next_hop = next_hop; }
    action forward(bit<9> port, bit<48> source, bit<48> destination) {
        s.egress_spec = port;
        h.ethernet.source = source;
        h.ethernet.destination = destination;
        h.ipv4.ttl = h.ipv4.ttl - 1;
    }
    table host {
        key = { h.ipv4.destination : exact; }
        actions = { set_next_hop; NoAction; }
        default_action = NoAction();
        size = 131072;
    }
    table route {
        key = { h.ipv4.destination : lpm; }
        actions = { set_next_hop; drop; }
        default_action = drop();
        size = 131072;
    }
    table next_hop {
        key = { m.next_hop : exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 1024;
    }
    apply {
        if (h.ipv4.isValid() && h.ipv4.ttl > 1 && s.checksum_error == 0) {
            if (host.apply().miss) {
                route.apply();
            }
            next_hop.apply();
        } else {
            drop();
        }
    }
}

control RouterUpdate(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(h.ipv4.isValid(),
            { h.ipv4.version, h.ipv4.ihl, h.ipv4.diffserv, h.ipv4.length, h.ipv4.identification, h.ipv4.flags,
              h.ipv4.fragment, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.source, h.ipv4.destination },
            h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

V1Switch(BenchmarkParser(), RouterVerify(), RouterIngress(), NoEgress(), RouterUpdate(), BenchmarkDeparser()) main;
