// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0

#ifndef GRADLANE_DEPARSER_P4
#define GRADLANE_DEPARSER_P4

#include "metadata.p4"
#include "target.p4"

// The packet-out header is not emitted: it ends at the switch.
control GradlaneDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
        packet.emit(hdr.gradient);
    }
}

#endif
