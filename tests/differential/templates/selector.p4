// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Action selectors by every hash that v1model's selectors take and by turns, an action profile without one, and random
// numbers, which are told by their bounds.
#include <core.p4>
#include <v1model.p4>

header flow_t {
    bit<8>  serial;
    bit<8>  kind;
    bit<16> a;
    bit<32> b;
    bit<48> c;
    bit<16> crc16_member;
    bit<16> crc32_member;
    bit<16> csum16_member;
    bit<16> xor16_member;
    bit<16> identity_member;
    bit<16> profile_member;
    bit<16> turn_member;
    bit<16> between;
    bit<16> only;
}

struct headers_t { flow_t flow; }
struct metadata_t { }

parser SelectorParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.flow);
        transition accept;
    }
}

control NoVerify(inout headers_t h, inout metadata_t m) { apply { } }
control NoUpdate(inout headers_t h, inout metadata_t m) { apply { } }

control SelectorIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action crc16_choice(bit<16> member)    { h.flow.crc16_member = member; }
    action crc32_choice(bit<16> member)    { h.flow.crc32_member = member; }
    action csum16_choice(bit<16> member)   { h.flow.csum16_member = member; }
    action xor16_choice(bit<16> member)    { h.flow.xor16_member = member; }
    action identity_choice(bit<16> member) { h.flow.identity_member = member; }
    action profile_choice(bit<16> member)  { h.flow.profile_member = member; }
    action turn_choice(bit<16> member)     { h.flow.turn_member = member; }

    action_selector(HashAlgorithm.crc16, 64, 16) crc16_selector;
    action_selector(HashAlgorithm.crc32, 64, 32) crc32_selector;
    action_selector(HashAlgorithm.csum16, 64, 16) csum16_selector;
    action_selector(HashAlgorithm.xor16, 64, 16) xor16_selector;
    action_selector(HashAlgorithm.identity, 64, 16) identity_selector;
    action_selector(HashAlgorithm.random, 64, 16) turn_selector;  // round_robin in the JSON: v1model has no name for it
    action_profile(64) plain_profile;

    table crc16_table {
        key = { h.flow.kind : exact; h.flow.a : selector; h.flow.b : selector; h.flow.c : selector; }
        actions = { crc16_choice; NoAction; }
        implementation = crc16_selector;
        size = 16;
    }
    table crc32_table {
        key = { h.flow.kind : exact; h.flow.a : selector; h.flow.b : selector; }
        actions = { crc32_choice; NoAction; }
        implementation = crc32_selector;
        size = 16;
    }
    table csum16_table {
        key = { h.flow.kind : exact; h.flow.b : selector; h.flow.c : selector; }
        actions = { csum16_choice; NoAction; }
        implementation = csum16_selector;
        size = 16;
    }
    table xor16_table {
        key = { h.flow.kind : exact; h.flow.a : selector; h.flow.b : selector; }
        actions = { xor16_choice; NoAction; }
        implementation = xor16_selector;
        size = 16;
    }
    table identity_table {
        key = { h.flow.kind : exact; h.flow.a : selector; }
        actions = { identity_choice; NoAction; }
        implementation = identity_selector;
        size = 16;
    }
    table turn_table {
        key = { h.flow.kind : exact; h.flow.a : selector; }
        actions = { turn_choice; NoAction; }
        implementation = turn_selector;
        size = 16;
    }
    table profile_table {
        key = { h.flow.kind : exact; }
        actions = { profile_choice; NoAction; }
        implementation = plain_profile;
        size = 16;
    }

    apply {
        s.egress_spec = 2;
        crc16_table.apply();
        crc32_table.apply();
        csum16_table.apply();
        xor16_table.apply();
        identity_table.apply();
        turn_table.apply();
        profile_table.apply();
        random(h.flow.between, h.flow.a, 0xffff);
        h.flow.between = h.flow.between >= h.flow.a ? 16w1 : 0;
        random(h.flow.only, h.flow.a, h.flow.a);
    }
}

control SelectorEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control SelectorDeparser(packet_out packet, in headers_t h) { apply { packet.emit(h.flow); } }

V1Switch(SelectorParser(), NoVerify(), SelectorIngress(), SelectorEgress(), NoUpdate(), SelectorDeparser()) main;
