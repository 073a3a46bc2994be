// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Every kind of match, alone and mixed, with hits, misses, action_run, defaults and entries of the program.
#include <core.p4>
#include <v1model.p4>

header probe_t {
    bit<8>   serial;
    bit<8>   a;
    bit<16>  b;
    bit<32>  c;
    bit<48>  d;
    bit<128> e;
    bit<16>  by_exact;
    bit<16>  by_lpm;
    bit<16>  by_ternary;
    bit<16>  by_range;
    bit<16>  by_optional;
    bit<16>  by_mixed;
    bit<16>  by_const;
    bit<16>  outcome;
}

struct headers_t { probe_t probe; }
struct metadata_t { }

parser MatchParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.probe);
        transition accept;
    }
}

control NoVerify(inout headers_t h, inout metadata_t m) { apply { } }
control NoUpdate(inout headers_t h, inout metadata_t m) { apply { } }

control MatchIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action exact_result(bit<16> value)    { h.probe.by_exact = value; }
    action lpm_result(bit<16> value)      { h.probe.by_lpm = value; }
    action ternary_result(bit<16> value)  { h.probe.by_ternary = value; }
    action ternary_twin(bit<16> value)    { h.probe.by_ternary = value ^ 0xffff; }
    action range_result(bit<16> value)    { h.probe.by_range = value; }
    action optional_result(bit<16> value) { h.probe.by_optional = value; }
    action mixed_result(bit<16> value)    { h.probe.by_mixed = value; }
    action const_result(bit<16> value)    { h.probe.by_const = value; }

    table exact_table {
        key = { h.probe.b : exact; h.probe.a : exact; }
        actions = { exact_result; NoAction; }
        default_action = exact_result(0xdead);
        size = 64;
    }
    table lpm_table {
        key = { h.probe.c : lpm; }
        actions = { lpm_result; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    table long_lpm_table {
        key = { h.probe.a : exact; h.probe.e : lpm; }
        actions = { lpm_result; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    table ternary_table {
        key = { h.probe.a : ternary; h.probe.d : ternary; }
        actions = { ternary_result; ternary_twin; NoAction; }
        default_action = NoAction();
        size = 128;
    }
    table range_table {
        key = { h.probe.b : range; h.probe.a : range; }
        actions = { range_result; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    table optional_table {
        key = { h.probe.a : optional; h.probe.b : optional; }
        actions = { optional_result; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    table mixed_table {
        key = { h.probe.a : exact; h.probe.c : ternary; h.probe.b : range; h.probe.d : lpm; }
        actions = { mixed_result; NoAction; }
        default_action = NoAction();
        size = 64;
    }
    table const_table {
        key = { h.probe.a : ternary; h.probe.b : range; }
        actions = { const_result; NoAction; }
        const default_action = const_result(9);
        const entries = {
            (0x10 &&& 0xf0, 0 .. 0x7fff)      : const_result(1);
            (_, 0x4000 .. 0xbfff)             : const_result(2);
            (0x01 &&& 0x01, _)                : const_result(3);
            (0x82, 0xc000 .. 0xffff)          : const_result(4);
        }
    }

    apply {
        s.egress_spec = 2;
        if (exact_table.apply().hit) {
            h.probe.outcome[0:0] = 1;
        }
        if (h.probe.serial[0:0] == 0) {
            if (lpm_table.apply().miss) {
                h.probe.outcome[1:1] = 1;
            }
        } else {
            long_lpm_table.apply();
        }
        switch (ternary_table.apply().action_run) {
            ternary_result: { h.probe.outcome[7:4] = 1; }
            ternary_twin:   { h.probe.outcome[7:4] = 2; }
            default:        { h.probe.outcome[7:4] = 3; }
        }
        range_table.apply();
        optional_table.apply();
        mixed_table.apply();
        const_table.apply();
    }
}

control MatchEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control MatchDeparser(packet_out packet, in headers_t h) { apply { packet.emit(h.probe); } }

V1Switch(MatchParser(), NoVerify(), MatchIngress(), MatchEgress(), NoUpdate(), MatchDeparser()) main;
