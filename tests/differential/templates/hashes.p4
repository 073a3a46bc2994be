// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Every hash that v1model names and BMv2 has, over inputs of whole and of broken bytes.
#include <core.p4>
#include <v1model.p4>

header input_t {
    bit<8>   serial;
    bit<8>   a;
    bit<16>  b;
    bit<32>  c;
    bit<7>   d;
    bit<1>   e;
    bit<48>  f;
    bit<128> g;
    bit<16>  most;
}

header result_t {
    bit<32> crc16_whole;
    bit<32> crc16_broken;
    bit<32> crc16_custom_whole;
    bit<32> crc32_whole;
    bit<32> crc32_broken;
    bit<32> crc32_custom_whole;
    bit<32> csum16_whole;
    bit<32> csum16_broken;
    bit<32> xor16_whole;
    bit<32> xor16_broken;
    bit<32> identity_whole;
    bit<32> identity_broken;
    bit<16> within;
    bit<64> wide;
}

struct headers_t { input_t input; result_t result; }
struct metadata_t { }

parser HashesParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.input);
        packet.extract(h.result);
        transition accept;
    }
}

control NoVerify(inout headers_t h, inout metadata_t m) { apply { } }
control NoUpdate(inout headers_t h, inout metadata_t m) { apply { } }

control HashesIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 2;
        hash(h.result.crc16_whole, HashAlgorithm.crc16, 32w0, { h.input.a, h.input.b, h.input.c }, 64w0x100000000);
        hash(h.result.crc16_broken, HashAlgorithm.crc16, 32w7, { h.input.d, h.input.b }, 64w1000);
        hash(h.result.crc16_custom_whole, HashAlgorithm.crc16_custom, 32w0, { h.input.f, h.input.c },
             64w0x100000000);
        hash(h.result.crc32_whole, HashAlgorithm.crc32, 32w0, { h.input.f, h.input.g }, 64w0x100000000);
        hash(h.result.crc32_broken, HashAlgorithm.crc32, 32w1, { h.input.e, h.input.d, h.input.e, h.input.c },
             64w65521);
        hash(h.result.crc32_custom_whole, HashAlgorithm.crc32_custom, 32w0, { h.input.a, h.input.c },
             64w0x100000000);
        hash(h.result.csum16_whole, HashAlgorithm.csum16, 32w0, { h.input.b, h.input.c, h.input.f },
             64w0x100000000);
        hash(h.result.csum16_broken, HashAlgorithm.csum16, 32w3, { h.input.a, h.input.d, h.input.c }, 64w5003);
        hash(h.result.xor16_whole, HashAlgorithm.xor16, 32w0, { h.input.b, h.input.c, h.input.g },
             64w0x100000000);
        hash(h.result.xor16_broken, HashAlgorithm.xor16, 32w0, { h.input.a, h.input.c }, 64w0x100000000);
        hash(h.result.identity_whole, HashAlgorithm.identity, 32w0, { h.input.b, h.input.a }, 64w0x100000000);
        hash(h.result.identity_broken, HashAlgorithm.identity, 32w0, { h.input.d, h.input.c }, 64w0x100000000);
        hash(h.result.within, HashAlgorithm.crc16, h.input.b, { h.input.c }, h.input.most);
        hash(h.result.wide, HashAlgorithm.identity, 64w0, { h.input.f, h.input.b }, 64w0xffffffffffffffff);
    }
}

control HashesEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control HashesDeparser(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.input);
        packet.emit(h.result);
    }
}

V1Switch(HashesParser(), NoVerify(), HashesIngress(), HashesEgress(), NoUpdate(), HashesDeparser()) main;
