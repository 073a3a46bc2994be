// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Parser selects with masks, several keys and value sets; checksums verified and updated, with and without payload.
#include <core.p4>
#include <v1model.p4>

header base_t {
    bit<8>  serial;
    bit<8>  a;
    bit<16> b;
    bit<32> c;
    bit<9>  v;          // simple_switch_CLI pads values of other widths than 8n + 1 bits with a byte
    bit<7>  w;
    bit<8>  by_mask;
    bit<8>  by_pair;
    bit<8>  by_set;
    bit<8>  by_set_pair;
    bit<8>  checksum_error;
}
header words_t {
    bit<4>      kind;
    bit<4>      count;      // 32-bit words of the header
    bit<8>      flags;
    bit<16>     checksum;
    varbit<96>  more;
}
header total_t {
    bit<16> length;
    bit<16> checksum;
}

struct headers_t { base_t base; words_t words; total_t total; }
struct metadata_t { bit<8> by_mask; bit<8> by_pair; bit<8> by_set; bit<8> by_set_pair; }
struct pair_t { bit<9> v; bit<16> b; }

parser SelectParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    value_set<bit<9>>(8) chosen;
    value_set<pair_t>(8) pairs;
    state start {
        packet.extract(h.base);
        transition select(h.base.a) {
            0x00 &&& 0xc0: one;
            0x41 &&& 0xe1: two;
            0x80 &&& 0x80: three;
            default: pair;
        }
    }
    state one   { m.by_mask = 1; transition pair; }
    state two   { m.by_mask = 2; transition pair; }
    state three { m.by_mask = 3; transition pair; }
    state pair {
        transition select(h.base.a, h.base.b, h.base.c) {
            (0x10 .. 0x5f, 0x8000 &&& 0x8000, _): pair_one;
            (_, 0x0000 &&& 0x0003, 0x80000000 &&& 0x80000001): pair_two;
            (0x7f, _, _): pair_three;
            default: sets;
        }
    }
    state pair_one   { m.by_pair = 1; transition sets; }
    state pair_two   { m.by_pair = 2; transition sets; }
    state pair_three { m.by_pair = 3; transition sets; }
    state sets {
        transition select(h.base.v) {
            chosen: in_set;
            default: set_pairs;
        }
    }
    state in_set { m.by_set = 1; transition set_pairs; }
    state set_pairs {
        transition select(h.base.v, h.base.b) {
            pairs: in_pairs;
            default: words;
        }
    }
    state in_pairs { m.by_set_pair = 1; transition words; }
    state words {
        transition select(packet.lookahead<bit<8>>()) {
            0x41 .. 0x44: take_words;
            default: accept;
        }
    }
    state take_words {
        packet.extract(h.words, (bit<32>)((packet.lookahead<bit<8>>() & 0xf) - 1) << 5);
        packet.extract(h.total);
        transition accept;
    }
}

control SelectVerify(inout headers_t h, inout metadata_t m) {
    apply {
        verify_checksum(h.words.isValid(), { h.words.kind, h.words.count, h.words.flags, h.words.more },
                        h.words.checksum, HashAlgorithm.csum16);
    }
}

control SelectIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 2;
        h.base.by_mask = m.by_mask;
        h.base.by_pair = m.by_pair;
        h.base.by_set = m.by_set;
        h.base.by_set_pair = m.by_set_pair;
        h.base.checksum_error = (bit<8>)s.checksum_error;
        if (h.words.isValid()) {
            h.words.flags = h.words.flags + 1;
            h.total.length = (bit<16>)s.packet_length;
        }
    }
}

control SelectEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }

control SelectUpdate(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(h.words.isValid(), { h.words.kind, h.words.count, h.words.flags, h.words.more },
                        h.words.checksum, HashAlgorithm.csum16);
        update_checksum_with_payload(h.total.isValid(), { h.base.c, h.total.length }, h.total.checksum,
                                     HashAlgorithm.csum16);
    }
}

control SelectDeparser(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.base);
        packet.emit(h.words);
        packet.emit(h.total);
    }
}

V1Switch(SelectParser(), SelectVerify(), SelectIngress(), SelectEgress(), SelectUpdate(), SelectDeparser()) main;
