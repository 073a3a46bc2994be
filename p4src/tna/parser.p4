// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Tofino's parser cannot reckon with lengths: it stops where a frame ends before a header does, and ingress tells the
// fault from what was read (fault.p4). Neither does it follow IPv4 options: a packet that has some is ordinary traffic
// without ports, and its checksum is not verified.

#ifndef GRADLANE_PARSER_P4
#define GRADLANE_PARSER_P4

#include "metadata.p4"

parser GradlaneIngressParser(packet_in packet, out headers_t hdr, out ingress_metadata_t meta,
                             out ingress_intrinsic_metadata_t ig_intr_md) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(ig_intr_md);
        packet.advance(PORT_METADATA_SIZE);
        hdr.bridge.setValid();
        hdr.bridge.carried = carried_t.FROM_INGRESS;
        hdr.bridge.importance = MOST_IMPORTANT;
        hdr.bridge.judged = 1;
        hdr.bridge.gradient = 0;
        hdr.bridge.class = 0;
        hdr.bridge.port_index = OTHER_PORTS;
        hdr.bridge.copied = 0;
        hdr.bridge.arrived_at = ig_intr_md.ingress_port;
        meta.checksum_error = false;
        meta.countable = true;
        meta.fault = fault_t.NONE;
        meta.ether_type = 0;
        meta.protocol = 0;
        meta.source_port = 0;
        meta.destination_port = 0;
        transition select(ig_intr_md.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }

    state from_controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ether_type_t.VLAN: vlan;
            ether_type_t.IPV4: check_ipv4;
            ether_type_t.IPV6: check_ipv6;
            ether_type_t.ARP: check_arp;
            default: accept;
        }
    }

    state vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ether_type_t.IPV4: check_ipv4;
            ether_type_t.IPV6: check_ipv6;
            ether_type_t.ARP: check_arp;
            default: accept;
        }
    }

    state check_arp {
        transition select(packet.lookahead<bit<32>>()) {
            ARP_REQUEST_FOR_IPV4[63:32]: check_arp_request;
            default: accept;
        }
    }

    state check_arp_request {
        transition select(packet.lookahead<bit<64>>()[31:0]) {
            ARP_REQUEST_FOR_IPV4[31:0]: arp;
            default: accept;
        }
    }

    state arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    state check_ipv4 {
        transition select(packet.lookahead<bit<8>>()) {
            0x45: ipv4;
            0x46 &&& 0xfe: ipv4_with_options;
            0x48 &&& 0xf8: ipv4_with_options;
            default: bad_ipv4;
        }
    }

    state ipv4_with_options {
        packet.extract(hdr.ipv4);
        meta.protocol = hdr.ipv4.protocol;
        transition accept;
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        ipv4_checksum.add(hdr.ipv4);
        meta.checksum_error = ipv4_checksum.verify();
        meta.protocol = hdr.ipv4.protocol;
        transition select(hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0 &&& MORE_FRAGMENTS, 0, protocol_t.UDP): udp;
            (0 &&& MORE_FRAGMENTS, 0, protocol_t.TCP): tcp;
            default: accept;
        }
    }

    state check_ipv6 {
        transition select(packet.lookahead<bit<4>>()) {
            6: ipv6;
            default: bad_ipv6;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        meta.protocol = hdr.ipv6.next_header;
        transition select(hdr.ipv6.next_header) {
            protocol_t.UDP: udp;
            protocol_t.TCP: tcp;
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
        transition select(hdr.udp.destination_port, hdr.udp.length) {
            (GRADIENT_PORT, 0x00 &&& 0xffe0): truncated_gradient;       // below 32
            (GRADIENT_PORT, 0x20 &&& 0xfff8): truncated_gradient;       // below 40
            (GRADIENT_PORT, _): check_gradient;
            default: accept;
        }
    }

    state check_gradient {
        transition select(packet.lookahead<bit<8>>()) {     // version and type
            0x11: gradient;
            0x12: gradient;
            0x13: gradient;
            0x14: gradient;
            0x15: gradient;
            0x16: gradient;
            0x17: gradient;
            0x18: gradient;
            0x10 &&& 0xf0: unknown_type;
            default: unknown_version;
        }
    }

    state gradient {
        packet.extract(hdr.gradient);
        hdr.bridge.gradient = 1;
        transition accept;
    }

    state truncated_gradient { meta.fault = fault_t.TRUNCATED_GRADIENT; transition accept; }
    state unknown_version { meta.fault = fault_t.UNKNOWN_VERSION; transition accept; }
    state unknown_type { meta.fault = fault_t.UNKNOWN_TYPE; transition accept; }
    state bad_ipv4 { meta.fault = fault_t.BAD_IPV4; transition accept; }
    state bad_ipv6 { meta.fault = fault_t.BAD_IPV6; transition accept; }
}

parser GradlaneEgressParser(packet_in packet, out headers_t hdr, out egress_metadata_t meta,
                            out egress_intrinsic_metadata_t eg_intr_md) {
    state start {
        packet.extract(eg_intr_md);
        meta.trimmed_copy = false;
        meta.trim_ipv6 = false;
        meta.trim_session = 0;
        meta.trimmed_carried = carried_t.TRIMMED_COPY;
        transition select(packet.lookahead<bit<8>>()) {
            carried_t.TRIMMED_COPY: trimmed_copy;
            default: bridge;
        }
    }

    // The copy is finished: its header is dropped, and no more is read than has to be.
    state trimmed_copy {
        packet.advance(8);
        packet.extract(hdr.ethernet);
        meta.trimmed_copy = true;
        transition rest;
    }

    state bridge {
        packet.extract(hdr.bridge);
        transition ethernet;
    }

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ether_type_t.VLAN: vlan;
            ether_type_t.IPV4: check_ipv4;
            ether_type_t.IPV6: ipv6;
            default: rest;
        }
    }

    state vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ether_type_t.IPV4: check_ipv4;
            ether_type_t.IPV6: ipv6;
            default: rest;
        }
    }

    // With options it is payload here: its checksum must not be renewed from the first 20 bytes.
    state check_ipv4 {
        transition select(packet.lookahead<bit<8>>()) {
            0x45: ipv4;
            default: rest;
        }
    }

    state rest {
        packet.extract(hdr.rest);
        transition accept;
    }

    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0 &&& MORE_FRAGMENTS, 0, protocol_t.UDP): udp;
            default: accept;
        }
    }

    state ipv6 {
        packet.extract(hdr.ipv6);
        transition select(hdr.ipv6.next_header) {
            protocol_t.UDP: udp;
            default: accept;
        }
    }

    state udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.destination_port) {
            GRADIENT_PORT: check_gradient;
            default: accept;
        }
    }

    state check_gradient {
        transition select(packet.lookahead<bit<8>>()) {     // only what can be trimmed
            0x11: gradient;
            default: accept;
        }
    }

    state gradient {
        packet.extract(hdr.gradient);
        transition accept;
    }
}

#endif
