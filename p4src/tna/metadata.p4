// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0

#ifndef GRADLANE_METADATA_P4
#define GRADLANE_METADATA_P4

#include "../shared/headers.p4"
#include "../shared/sizes.p4"
#include "target.p4"

// What stands in front of a frame in egress.
enum bit<8> carried_t {
    FROM_INGRESS = 1,
    TRIMMED_COPY = 2
}

// What ingress tells egress about a packet, written as it becomes known. Fields that one action writes stand in bytes
// of their own, since it can bring no more than two fields together in a container; the port stands as in the
// intrinsic metadata that the parser copies it from.
header bridge_t {
    carried_t carried;
    importance_t importance;
    @padding bit<5> pad_flags;
    bit<1> copied;              // for the controller: the packet went its way too
    bit<1> judged;              // 0: packets of the switch and its controller
    bit<1> gradient;            // a gradient header that is whole and agrees with the lengths around it
    @padding bit<5> pad_class;
    class_t class;
    @padding bit<2> pad_index;
    port_index_t port_index;    // of the egress port, of the ingress port until that is known
    @padding bit<7> pad_port;
    port_t arrived_at;
}

// In front of the copy that a mirror session has cut to its headers.
header trimmed_copy_t {
    carried_t carried;
}

// Egress has to read at least 65 bytes, the intrinsic metadata's 27 among them: this is what a path reads that ends
// before. The shortest is that of a trimmed copy, 28 bytes and Ethernet; every frame has as many.
header rest_t {
    bit<184> bytes;
}

struct headers_t {
    bridge_t bridge;
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    vlan_t vlan;
    arp_t arp;
    ipv4_t ipv4;
    ipv6_t ipv6;
    tcp_t tcp;
    udp_t udp;
    gradient_t gradient;
    rest_t rest;
}

struct ingress_metadata_t {
    bool checksum_error;
    bool countable;             // the bytes of `count` values of the header's data type can be told
    fault_t fault;
    bit<16> ether_type;         // behind the tag, if there is one
    bit<8> protocol;            // IPv4 protocol or IPv6 next header
    bit<16> source_port;        // 0 in fragments, so that all of a datagram hash alike
    bit<16> destination_port;
}

struct egress_metadata_t {
    bool trimmed_copy;
    bool trim_ipv6;             // the UDP checksum is to be renewed
    MirrorId_t trim_session;
    carried_t trimmed_carried;  // TRIMMED_COPY: a mirror header takes no constant
}

// Egress mirror type of trimmed copies.
const MirrorType_t MIRROR_TRIMMED = 1;

#endif
