// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Clone, resubmit, recirculate, multicast, truncate and drop in every order: the frame says what each pass does.
#include <core.p4>
#include <v1model.p4>

const bit<32> INGRESS_CLONE = 1;
const bit<32> EGRESS_CLONE = 2;

// Bits of what a pass does.
// 0 clone at ingress, 1 resubmit, 2 multicast, 3 drop at ingress,
// 4 clone at egress, 5 recirculate, 6 truncate, 7 drop at egress
header order_t {
    bit<8>  serial;
    bit<8>  first;
    bit<8>  second;
    bit<8>  third;
    bit<8>  port;
    bit<8>  group;
    bit<8>  session;
    bit<8>  cut;
}

header trace_t {
    bit<64> stages;
    bit<16> rid;
    bit<16> length;
    bit<16> ingress_port;
    bit<16> egress_port;
    bit<16> kept;
    bit<16> lost;
    bit<8>  pass;
}

struct headers_t { order_t order; trace_t trace; }

struct metadata_t {
    @field_list(1, 2, 3) bit<8>  pass;
    @field_list(1, 2)    bit<16> kept;
    @field_list(1, 3)    bit<16> lost;
    bit<8> now;
}

parser PassesParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.order);
        packet.extract(h.trace);
        transition accept;
    }
}

control NoVerify(inout headers_t h, inout metadata_t m) { apply { } }
control NoUpdate(inout headers_t h, inout metadata_t m) { apply { } }

control WhatNow(in order_t order, inout metadata_t m) {
    apply {
        m.now = 0;
        if (m.pass == 1) {
            m.now = order.first;
        } else if (m.pass == 2) {
            m.now = order.second;
        } else if (m.pass == 3) {
            m.now = order.third;
        }
    }
}

control PassesIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    WhatNow() what_now;
    apply {
        m.pass = m.pass + 1;
        what_now.apply(h.order, m);
        h.trace.stages = h.trace.stages << 4 | (bit<64>)s.instance_type[3:0];
        m.kept = m.kept + 0x101;
        m.lost = m.lost + 0x11;
        h.trace.length = (bit<16>)s.packet_length;
        s.egress_spec = (bit<9>)h.order.port;
        if (m.now[2:2] == 1) {
            s.mcast_grp = (bit<16>)h.order.group;
        }
        if (m.now[0:0] == 1) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>)h.order.session, 1);
        }
        if (m.now[1:1] == 1) {
            resubmit_preserving_field_list(2);
        }
        if (m.now[3:3] == 1) {
            mark_to_drop(s);
        }
        m.kept = m.kept + 1;
    }
}

control PassesEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    WhatNow() what_now;
    apply {
        h.trace.stages = h.trace.stages << 4 | 8 | (bit<64>)s.instance_type[2:0];
        if (s.instance_type == INGRESS_CLONE || s.instance_type == EGRESS_CLONE) {
            m.pass = m.pass + 1;
            what_now.apply(h.order, m);
        }
        h.trace.rid = s.egress_rid;
        h.trace.length = h.trace.length ^ (bit<16>)s.packet_length << 4;
        h.trace.ingress_port = (bit<16>)s.ingress_port;
        h.trace.egress_port = (bit<16>)s.egress_port;
        h.trace.kept = m.kept;
        h.trace.lost = m.lost;
        h.trace.pass = m.pass;
        if (m.now[4:4] == 1) {
            clone_preserving_field_list(CloneType.E2E, (bit<32>)h.order.session, 3);
        }
        if (m.now[5:5] == 1) {
            recirculate_preserving_field_list(1);
        }
        if (m.now[6:6] == 1) {
            truncate((bit<32>)h.order.cut);
        }
        if (m.now[7:7] == 1) {
            mark_to_drop(s);
        }
        m.kept = m.kept + 7;
    }
}

control PassesDeparser(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.order);
        packet.emit(h.trace);
    }
}

V1Switch(PassesParser(), NoVerify(), PassesIngress(), PassesEgress(), NoUpdate(), PassesDeparser()) main;
