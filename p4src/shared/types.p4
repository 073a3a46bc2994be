// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// A type for every meaning, and the constants that go with it.

#ifndef GRADLANE_TYPES_P4
#define GRADLANE_TYPES_P4

typedef bit<48> mac_t;
typedef bit<32> ipv4_address_t;
typedef bit<128> ipv6_address_t;

typedef bit<9> port_t;          // the switch's own port number
typedef bit<6> port_index_t;    // dense number that statistics are indexed by; the controller hands it out
typedef bit<3> class_t;         // 7 is served first; class, priority and queue are one number
typedef bit<8> importance_t;    // 0 least .. 255 most; rank of the packet by mean |g| within its tensor
typedef bit<3> band_t;          // the importance's high bits
typedef bit<16> depth_t;        // of one egress queue; see docs/targets.md for the unit on each target
typedef bit<16> next_hop_t;
typedef bit<16> group_t;        // 0: none; the packet has one next hop
typedef bit<16> selector_t;     // chooses among a group's members: member = value mod size
typedef bit<6> bucket_t;        // of queueing delay, see delay.p4

const port_index_t OTHER_PORTS = 63;    // ports that the controller gave no index, the CPU port among them
const importance_t MOST_IMPORTANT = 255;

enum bit<16> ether_type_t {
    IPV4 = 0x0800,
    ARP = 0x0806,
    VLAN = 0x8100,
    IPV6 = 0x86dd
}

enum bit<8> protocol_t {
    TCP = 6,
    UDP = 17
}

const bit<2> NOT_ECT = 0;
const bit<2> CONGESTION_EXPERIENCED = 3;

// Why a packet was dropped. Every drop has a reason and is counted by it.
enum bit<3> drop_reason_t {
    NONE = 0,
    IMPORTANCE = 1,     // judged not worth its place in the queue
    NOT_ECT = 2,        // judged to be marked, and the sender does not understand marks
    FULL = 3,           // judged: the queue nears its hard limit
    NO_ROUTE = 4,       // no route, no living member, no such next hop, or not IP
    TTL = 5,
    MALFORMED = 6,      // a parser fault that the policy drops, or a wrong IPv4 header checksum
    POLICY = 7
}

// What the parser could not read. Faults are metadata: the packet goes on as ordinary traffic unless the policy drops
// it. Without a sound IP header there is nothing to route, so those faults end as NO_ROUTE at the latest.
enum bit<4> fault_t {
    NONE = 0,
    TRUNCATED_IPV4 = 1,         // header not whole, or total_length beyond the frame
    TRUNCATED_IPV6 = 2,
    TRUNCATED_L4 = 3,           // TCP or UDP header not whole
    TRUNCATED_GRADIENT = 4,
    UNKNOWN_VERSION = 5,
    UNKNOWN_TYPE = 6,
    BAD_LENGTH = 7,             // count, data type, UDP length and IP length disagree
    BAD_IPV4 = 8,               // version or ihl
    TRUNCATED_OTHER = 9,        // Ethernet, 802.1Q, ARP or packet-out header not whole
    BAD_IPV6 = 10,              // version
    BAD_CHECKSUM = 11           // of the IPv4 header: always dropped as MALFORMED (RFC 1812, 5.2.2)
}

// What becomes of a packet at its egress queue.
enum bit<3> verdict_t {
    KEEP = 0,
    MARK_OR_KEEP = 1,
    MARK_OR_DROP = 2,
    TRIM = 3,
    DROP = 4
}

enum bit<2> path_mode_t {
    FLOW_HASH = 0,
    RANDOM_MEMBER = 1,
    ROUND_ROBIN = 2,
    SHALLOWER_OF_TWO = 3
}

enum bit<2> punt_t {
    PASS = 0,
    SEND = 1,
    COPY = 2,
    DROP = 3
}

// Why the controller receives a packet.
enum bit<7> packet_in_reason_t {
    SENT = 1,       // punted: the packet itself
    COPIED = 2      // the packet went its way too
}

#endif
