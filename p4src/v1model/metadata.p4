// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0

#ifndef GRADLANE_METADATA_P4
#define GRADLANE_METADATA_P4

#include "../shared/headers.p4"
#include "../shared/sizes.p4"

header ipv4_options_t {
    varbit<IPV4_OPTIONS_BITS> options;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    vlan_t vlan;
    arp_t arp;
    ipv4_t ipv4;
    ipv4_options_t ipv4_options;
    ipv6_t ipv6;
    tcp_t tcp;
    udp_t udp;
    gradient_t gradient;
}

// What a copy for the controller keeps of its original's metadata; the rest is reset.
#define CPU_COPY 1

struct metadata_t {
    // From the parser.
    bool gradient;                  // a gradient header that is whole and agrees with the lengths around it
    fault_t fault;
    bit<16> ether_type;             // behind the tag, if there is one
    bit<8> protocol;                // IPv4 protocol or IPv6 next header
    bit<6> dscp;
    bit<16> source_port;            // 0 in fragments, so that all of a datagram hash alike
    bit<16> destination_port;

    // From ingress, read again in egress.
    class_t class;                  // of the queue
    port_index_t port_index;        // of the egress port, of the ingress port until that is known

    @field_list(CPU_COPY)
    port_t arrived_at;              // set for packets to the controller only
    @field_list(CPU_COPY)
    packet_in_reason_t packet_in_reason;
}

#endif
