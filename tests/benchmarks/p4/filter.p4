// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// One large ternary table over the five-tuple.
#include "headers.p4"

control FilterIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action drop() { mark_to_drop(s); }
    action forward(bit<9> port) { s.egress_spec = port; }
    table filter {
        key = {
            h.ipv4.source : ternary;
            h.ipv4.destination : ternary;
            h.ipv4.protocol : ternary;
            h.udp.source : ternary;
            h.udp.destination : ternary;
        }
        actions = { forward; drop; }
        default_action = drop();
        size = 131072;
    }
    apply {
        if (h.udp.isValid()) {
            filter.apply();
        } else {
            drop();
        }
    }
}

V1Switch(BenchmarkParser(), NoVerify(), FilterIngress(), NoEgress(), NoUpdate(), BenchmarkDeparser()) main;
