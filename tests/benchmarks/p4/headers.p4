// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Ethernet, IPv4 and UDP: what both programs of the benchmark parse.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> destination; bit<48> source; bit<16> ether_type; }
header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  diffserv;
    bit<16> length;
    bit<16> identification;
    bit<3>  flags;
    bit<13> fragment;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}
header udp_t { bit<16> source; bit<16> destination; bit<16> length; bit<16> checksum; }

struct headers_t { ethernet_t ethernet; ipv4_t ipv4; udp_t udp; }
struct metadata_t { bit<16> next_hop; }

parser BenchmarkParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.ether_type) {
            0x0800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(h.ipv4);
        transition select(h.ipv4.protocol) {
            17: udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(h.udp);
        transition accept;
    }
}

control BenchmarkDeparser(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.ipv4);
        packet.emit(h.udp);
    }
}

control NoVerify(inout headers_t h, inout metadata_t m) { apply { } }
control NoUpdate(inout headers_t h, inout metadata_t m) { apply { } }
control NoEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
