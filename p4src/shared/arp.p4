// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// The switch answers ARP requests for the addresses that it stands in for.

#ifndef GRADLANE_ARP_P4
#define GRADLANE_ARP_P4

#include "headers.p4"
#include "sizes.p4"

control ArpReply(inout ethernet_t ethernet, inout arp_t arp, out bool answered) {
    action reply(@name("mac") mac_t mac) {
        ipv4_address_t asked = arp.target;
        ethernet.destination = arp.sender_mac;
        ethernet.source = mac;
        arp.operation = ARP_REPLY;
        arp.target_mac = arp.sender_mac;
        arp.target = arp.sender;
        arp.sender_mac = mac;
        arp.sender = asked;
    }

    table arp_reply {
        key = { arp.target : exact @name("target"); }
        actions = { reply; @defaultonly NoAction; }
        const default_action = NoAction;
        size = ARP_REPLY_ROWS;
    }

    apply {
        answered = arp_reply.apply().hit;
    }
}

#endif
