// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0

#ifndef GRADLANE_HEADERS_P4
#define GRADLANE_HEADERS_P4

#include "types.p4"

#define PACKET_OUT_BYTES 2
#define ETHERNET_BYTES 14
#define VLAN_BYTES 4
#define ARP_BYTES 28
#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define TCP_BYTES 20
#define UDP_BYTES 8
#define GRADIENT_BYTES 32

// To the controller.
CONTROLLER_HEADER("packet_in")
header packet_in_t {
    port_t ingress_port;
    packet_in_reason_t reason;
}

// From the controller. egress_port 0 (no port has it): treat the packet as if it had arrived on a port.
CONTROLLER_HEADER("packet_out")
header packet_out_t {
    port_t egress_port;
    class_t class;
    bit<4> pad;
}

const port_t SUBMIT_TO_INGRESS = 0;

header ethernet_t {
    mac_t destination;
    mac_t source;
    ether_type_t ether_type;
}

header vlan_t {
    bit<3> priority;
    bit<1> drop_eligible;
    bit<12> vlan;
    ether_type_t ether_type;
}

header arp_t {
    bit<16> hardware_type;
    ether_type_t protocol_type;
    bit<8> hardware_length;
    bit<8> protocol_length;
    bit<16> operation;
    mac_t sender_mac;
    ipv4_address_t sender;
    mac_t target_mac;
    ipv4_address_t target;
}

// Ethernet, IPv4, lengths 6 and 4, request: the one kind that is parsed.
const bit<64> ARP_REQUEST_FOR_IPV4 = 0x0001_0800_06_04_0001;
const bit<16> ARP_REPLY = 2;

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<6> dscp;
    bit<2> ecn;
    bit<16> total_length;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> ttl;
    protocol_t protocol;
    bit<16> checksum;
    ipv4_address_t source;
    ipv4_address_t destination;
}

@noWarn("unused")
const bit<4> IHL_WITHOUT_OPTIONS = 5;
#define IPV4_OPTIONS_BITS 320
const bit<3> MORE_FRAGMENTS = 1;

header ipv6_t {
    bit<4> version;
    bit<6> dscp;
    bit<2> ecn;
    bit<20> flow_label;
    bit<16> payload_length;
    protocol_t next_header;
    bit<8> hop_limit;
    ipv6_address_t source;
    ipv6_address_t destination;
}

header tcp_t {
    bit<16> source_port;
    bit<16> destination_port;
    bit<32> sequence;
    bit<32> acknowledgement;
    bit<4> data_offset;
    bit<4> reserved;
    bit<8> flags;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

header udp_t {
    bit<16> source_port;
    bit<16> destination_port;
    bit<16> length;
    bit<16> checksum;
}

// The gradient header, behind UDP with destination port GRADIENT_PORT ("GR"), big-endian. A packet stands alone: it can
// be placed without any other.
//
//      0                   1                   2                   3
//      0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//     +-------+-------+---------------+---------------+---------------+
//     |version| type  |     flags     |   data_type   |  importance   |
//     +-------+-------+---------------+---------------+---------------+
//     |             job               |             rank              |
//     +-------------------------------+-------------------------------+
//     |            tensor             |             layer             |
//     +-------------------------------+-------------------------------+
//     |                            round                              |
//     +---------------------------------------------------------------+
//     |                offset (index of the first value)              |
//     +-------------------------------+---------------+---------------+
//     |        count (values)         |     path      |   reserved=0  |
//     +-------------------------------+---------------+---------------+
//     |              weight (samples behind these values)             |
//     +---------------------------------------------------------------+
//     |                           sequence                            |
//     +---------------------------------------------------------------+
header gradient_t {
    bit<4> version;
    bit<4> type;                // gradient_type_t
    bit<8> flags;               // FLAG_*
    bit<8> data_type;           // data_type_t
    importance_t importance;    // (i + 0.5) * 256 / k for the i-th of the tensor's k packets by mean |g|
    bit<16> job;
    bit<16> rank;               // of the source
    bit<16> tensor;
    bit<16> layer;
    bit<32> round;
    bit<32> offset;
    bit<16> count;
    bit<8> path;                // 0: free; k: member k - 1 of the group, where the policy lets packets choose
    bit<8> reserved;
    bit<32> weight;
    bit<32> sequence;
}

const bit<16> GRADIENT_PORT = 18258;
@noWarn("unused")
const bit<4> GRADIENT_VERSION = 1;

enum bit<4> gradient_type_t {
    DATA = 1,
    TRIMMED = 2,    // the values were cut off on the way; count still says how many there were
    START = 3,
    FINISH = 4,
    STOP = 5,
    REQUEST = 6,
    ACK = 7,
    REPORT = 8
}

enum bit<8> data_type_t {
    FLOAT32 = 0,
    FLOAT16 = 1,
    BFLOAT16 = 2
}

const bit<8> FLAG_RETRANSMISSION = 0x01;
@noWarn("unused")
const bit<8> FLAG_LAST = 0x02;
const bit<8> FLAG_PROTECTED = 0x04;
const bit<8> FLAGS_NOT_JUDGED_BY_IMPORTANCE = FLAG_RETRANSMISSION | FLAG_PROTECTED;

#endif
