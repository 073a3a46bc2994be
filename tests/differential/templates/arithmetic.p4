// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic on narrow, wide, signed and saturating numbers.
#include <core.p4>
#include <v1model.p4>

header operands_t {
    bit<8>    serial;
    bit<8>    a8;
    bit<8>    b8;
    bit<32>   a32;
    bit<32>   b32;
    bit<64>   a64;
    bit<64>   b64;
    bit<128>  a128;
    bit<128>  b128;
    bit<256>  a256;
    bit<256>  b256;
    bit<8>    distance;
    bit<2048> huge;
}
header results_t {
    bit<8>   sum8;
    bit<8>   difference8;
    bit<8>   sat_sum8;
    bit<8>   sat_difference8;
    int<8>   signed_sat_sum8;
    int<8>   signed_sat_difference8;
    bit<32>  product32;
    bit<32>  left32;
    bit<32>  right32;
    int<32>  signed_right32;
    bit<64>  mixed64;
    bit<64>  negated64;
    bit<64>  sat_sum64;
    bit<128> sum128;
    bit<128> product128;
    bit<128> left128;
    bit<256> sum256;
    bit<256> difference256;
    bit<256> product256;
    bit<256> right256;
    bit<16>  slice;
    bit<16>  concatenated;
    int<16>  extended;
    bit<8>   comparisons;
    int<8>   signed_more;
    bit<8>   filler;
}

struct headers_t { operands_t x; results_t r; }
struct metadata_t { }

parser ArithmeticParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.x);
        transition accept;
    }
}

control NoVerify(inout headers_t h, inout metadata_t m) { apply { } }
control NoUpdate(inout headers_t h, inout metadata_t m) { apply { } }

control ArithmeticIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 2;
        h.r.setValid();
        h.r.sum8 = h.x.a8 + h.x.b8;
        h.r.difference8 = h.x.a8 - h.x.b8;
        h.r.sat_sum8 = h.x.a8 |+| h.x.b8;
        h.r.sat_difference8 = h.x.a8 |-| h.x.b8;
        h.r.signed_sat_sum8 = (int<8>)h.x.a8 |+| (int<8>)h.x.b8;
        h.r.signed_sat_difference8 = (int<8>)h.x.a8 |-| (int<8>)h.x.b8;
        h.r.product32 = h.x.a32 * h.x.b32;
        h.r.left32 = h.x.a32 << h.x.distance;
        h.r.right32 = h.x.a32 >> h.x.distance;
        h.r.signed_right32 = (int<32>)h.x.a32 >> h.x.distance;
        h.r.mixed64 = (h.x.a64 & ~h.x.b64) ^ (h.x.a64 | 0xff00ff) - (h.x.b64 >> 3);
        h.r.negated64 = -h.x.a64;
        h.r.sat_sum64 = h.x.a64 |+| h.x.b64;
        h.r.sum128 = h.x.a128 + h.x.b128;
        h.r.product128 = h.x.a128 * h.x.b128;
        h.r.left128 = h.x.a128 << h.x.distance;
        h.r.sum256 = h.x.a256 + h.x.b256;
        h.r.difference256 = h.x.a256 - h.x.b256;
        h.r.product256 = h.x.a256 * h.x.b256;
        h.r.right256 = h.x.a256 >> h.x.distance;
        bit<2048> sum = h.x.huge + (h.x.huge << 7) - (bit<2048>)h.x.a256;
        bit<2048> product = h.x.huge * ((bit<2048>)h.x.b256 << 200);
        bit<2048> right = ~h.x.huge >> h.x.distance;
        // In place: BMv2 has room for 512 bytes of new headers.
        h.x.huge = sum ^ product ^ right;
        h.r.slice = h.x.a64[40:25];
        h.r.concatenated = h.x.a8[3:0] ++ h.x.b8 ++ h.x.a32[31:28];
        h.r.extended = (int<16>)(int<8>)h.x.a8;
        bit<8> found = 0;
        if (h.x.a8 < h.x.b8) { found = found | 1; }
        if ((int<8>)h.x.a8 < (int<8>)h.x.b8) { found = found | 2; }
        if (h.x.a256 >= h.x.b256) { found = found | 4; }
        if (h.x.a64 == h.x.b64) { found = found | 8; }
        if ((int<64>)h.x.a64 > 0) { found = found | 16; }
        if (h.x.a128[127:64] != h.x.b128[63:0] && !(h.x.a8 == 0) || h.x.b8 == 0) { found = found | 32; }
        if (h.x.huge > (bit<2048>)h.x.a256 && h.x.huge[2047:1024] != h.x.huge[1023:0]) { found = found | 64; }
        h.r.comparisons = found;
        h.r.signed_more = (int<8>)h.x.a8 > -3 ? (int<8>)h.x.b8 : -(int<8>)h.x.b8;
        h.r.filler = 0x5a;
    }
}

control ArithmeticEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control ArithmeticDeparser(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.x);
        packet.emit(h.r);
    }
}

V1Switch(ArithmeticParser(), NoVerify(), ArithmeticIngress(), ArithmeticEgress(), NoUpdate(),
         ArithmeticDeparser()) main;
