// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Reads no header before it knows that the frame holds it, so the parser never stops with an error: what it could not
// read is a fault, and the bytes stay in the payload.

#ifndef GRADLANE_PARSER_P4
#define GRADLANE_PARSER_P4

#include "metadata.p4"
#include "target.p4"

// The sign of a 32-bit difference.
const bit<32> NEGATIVE = 0x80000000;

parser GradlaneParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                      inout standard_metadata_t standard_metadata) {
    bit<32> left;           // bytes of the frame, from the header at hand on
    bit<32> l4_bytes;       // bytes that the IP header says follow it
    bit<32> slack;          // bytes of the frame behind the IP packet; NEGATIVE: the packet is cut
    bit<32> disagreement;   // between the UDP length and the IP length
    bit<32> excess;         // bytes behind the gradient header that `count` does not explain

    state start {
        meta.gradient = false;
        meta.fault = fault_t.NONE;
        meta.ether_type = 0;
        meta.protocol = 0;
        meta.dscp = 0;
        meta.source_port = 0;
        meta.destination_port = 0;
        meta.class = 0;
        meta.port_index = OTHER_PORTS;
        meta.arrived_at = 0;
        meta.packet_in_reason = packet_in_reason_t.SENT;
        left = standard_metadata.packet_length;
        transition select(standard_metadata.ingress_port, left) {
            (CPU_PORT, 0 .. PACKET_OUT_BYTES + ETHERNET_BYTES - 1): truncated_other;
            (CPU_PORT, _): from_controller;
            (_, 0 .. ETHERNET_BYTES - 1): truncated_other;
            default: ethernet;
        }
    }

    state from_controller {
        packet.extract(hdr.packet_out);
        left = left - PACKET_OUT_BYTES;
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        meta.ether_type = hdr.ethernet.ether_type;
        left = left - ETHERNET_BYTES;
        transition select(hdr.ethernet.ether_type, left) {
            (ether_type_t.VLAN, 0 .. VLAN_BYTES - 1): truncated_other;
            (ether_type_t.VLAN, _): vlan;
            default: ether_type;
        }
    }

    state vlan {
        packet.extract(hdr.vlan);
        meta.ether_type = hdr.vlan.ether_type;
        left = left - VLAN_BYTES;
        transition ether_type;
    }

    state ether_type {
        transition select(meta.ether_type, left) {
            (ether_type_t.IPV4, 0 .. IPV4_BYTES - 1): truncated_ipv4;
            (ether_type_t.IPV4, _): check_ipv4;
            (ether_type_t.IPV6, 0 .. IPV6_BYTES - 1): truncated_ipv6;
            (ether_type_t.IPV6, _): check_ipv6;
            (ether_type_t.ARP, 0 .. ARP_BYTES - 1): truncated_other;
            (ether_type_t.ARP, _): check_arp;
            default: accept;
        }
    }

    state check_arp {
        transition select(packet.lookahead<bit<64>>()) {
            ARP_REQUEST_FOR_IPV4: arp;
            default: accept;
        }
    }

    state arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    state check_ipv4 {
        bit<32> word = packet.lookahead<bit<32>>();     // version, ihl, type of service, total length
        l4_bytes = (word & 0xffff) - (word >> 22 & 0x3c);
        slack = left - (word & 0xffff);
        transition select(packet.lookahead<bit<8>>(), l4_bytes, slack) {
            (0x45, 0 &&& NEGATIVE, 0 &&& NEGATIVE): ipv4;
            (0x46 .. 0x4f, 0 &&& NEGATIVE, 0 &&& NEGATIVE): ipv4_with_options;
            (0x45 .. 0x4f, _, _): truncated_ipv4;
            default: bad_ipv4;
        }
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition ipv4_payload;
    }

    state ipv4_with_options {
        packet.extract(hdr.ipv4);
        packet.extract(hdr.ipv4_options, ((bit<32>)hdr.ipv4.ihl << 5) - 8 * IPV4_BYTES);
        transition ipv4_payload;
    }

    state ipv4_payload {
        meta.protocol = hdr.ipv4.protocol;
        meta.dscp = hdr.ipv4.dscp;
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.flags) {
            (0, 0 &&& MORE_FRAGMENTS): l4;
            default: accept;
        }
    }

    state check_ipv6 {
        bit<48> word = packet.lookahead<bit<48>>();     // version, traffic class, flow label, payload length
        l4_bytes = (bit<32>)(word & 0xffff);
        slack = left - IPV6_BYTES - l4_bytes;
        transition select(packet.lookahead<bit<8>>(), slack) {
            (0x60 &&& 0xf0, 0 &&& NEGATIVE): ipv6;
            (0x60 &&& 0xf0, _): truncated_ipv6;
            default: bad_ipv6;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        meta.protocol = hdr.ipv6.next_header;
        meta.dscp = hdr.ipv6.dscp;
        transition l4;
    }

    state l4 {
        transition select(meta.protocol, l4_bytes) {
            (protocol_t.UDP, 0 .. UDP_BYTES - 1): truncated_l4;
            (protocol_t.UDP, _): udp;
            (protocol_t.TCP, 0 .. TCP_BYTES - 1): truncated_l4;
            (protocol_t.TCP, _): tcp;
            default: accept;
        }
    }

    state tcp {
        packet.extract(hdr.tcp);
        meta.source_port = hdr.tcp.source_port;
        meta.destination_port = hdr.tcp.destination_port;
        transition accept;
    }

    state udp {
        packet.extract(hdr.udp);
        meta.source_port = hdr.udp.source_port;
        meta.destination_port = hdr.udp.destination_port;
        transition select(hdr.udp.destination_port, l4_bytes) {
            (GRADIENT_PORT, 0 .. UDP_BYTES + GRADIENT_BYTES - 1): truncated_gradient;
            (GRADIENT_PORT, _): check_gradient;
            default: accept;
        }
    }

    state check_gradient {
        transition select(packet.lookahead<bit<8>>()) {     // version and type
            0x11 .. 0x18: gradient;
            0x10 &&& 0xf0: unknown_type;
            default: unknown_version;
        }
    }

    state gradient {
        packet.extract(hdr.gradient);
        disagreement = (bit<32>)hdr.udp.length - l4_bytes;
        excess = l4_bytes - (UDP_BYTES + GRADIENT_BYTES);
        transition select(hdr.gradient.type, hdr.gradient.data_type) {
            (gradient_type_t.DATA, data_type_t.FLOAT32): values_of_4_bytes;
            (gradient_type_t.DATA, data_type_t.FLOAT16): values_of_2_bytes;
            (gradient_type_t.DATA, data_type_t.BFLOAT16): values_of_2_bytes;
            (gradient_type_t.DATA, _): bad_length;
            (gradient_type_t.TRIMMED, _): check_length;
            default: control_message;
        }
    }

    state values_of_4_bytes {
        excess = excess - ((bit<32>)hdr.gradient.count << 2);
        transition check_length;
    }

    state values_of_2_bytes {
        excess = excess - ((bit<32>)hdr.gradient.count << 1);
        transition check_length;
    }

    state control_message {
        excess = 0;
        transition check_length;
    }

    state check_length {
        transition select(disagreement, excess) {
            (0, 0): sound;
            default: bad_length;
        }
    }

    state sound {
        meta.gradient = true;
        transition accept;
    }

    state truncated_other { meta.fault = fault_t.TRUNCATED_OTHER; transition accept; }
    state truncated_ipv4 { meta.fault = fault_t.TRUNCATED_IPV4; transition accept; }
    state truncated_ipv6 { meta.fault = fault_t.TRUNCATED_IPV6; transition accept; }
    state truncated_l4 { meta.fault = fault_t.TRUNCATED_L4; transition accept; }
    state truncated_gradient { meta.fault = fault_t.TRUNCATED_GRADIENT; transition accept; }
    state unknown_version { meta.fault = fault_t.UNKNOWN_VERSION; transition accept; }
    state unknown_type { meta.fault = fault_t.UNKNOWN_TYPE; transition accept; }
    state bad_length { meta.fault = fault_t.BAD_LENGTH; transition accept; }
    state bad_ipv4 { meta.fault = fault_t.BAD_IPV4; transition accept; }
    state bad_ipv6 { meta.fault = fault_t.BAD_IPV6; transition accept; }
}

#endif
