// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Cuts a gradient packet to its headers: the receiver still learns what is missing, and asks for it if it must.

#ifndef GRADLANE_TRIM_P4
#define GRADLANE_TRIM_P4

#include "metadata.p4"
#include "target.p4"

const bit<16> TRIMMED_UDP_BYTES = UDP_BYTES + GRADIENT_BYTES;

control Trim(inout headers_t hdr) {
    // UDP over IPv6 has no checksum of 0 (RFC 8200, 8.1): a sum of 0 is sent as its other form.
    @hidden
    action sum_ipv6() {
        hash(hdr.udp.checksum, HashAlgorithm.csum16, 16w0, {
            hdr.ipv6.source, hdr.ipv6.destination, 16w0, TRIMMED_UDP_BYTES, 24w0, (bit<8>)hdr.ipv6.next_header,
            hdr.udp.source_port, hdr.udp.destination_port, TRIMMED_UDP_BYTES, 16w0,
            hdr.gradient.version, hdr.gradient.type, hdr.gradient.flags, hdr.gradient.data_type,
            hdr.gradient.importance, hdr.gradient.job, hdr.gradient.rank, hdr.gradient.tensor, hdr.gradient.layer,
            hdr.gradient.round, hdr.gradient.offset, hdr.gradient.count, hdr.gradient.path, hdr.gradient.reserved,
            hdr.gradient.weight, hdr.gradient.sequence
        }, 32w0x10000);
    }

    apply {
        bit<32> bytes = ETHERNET_BYTES + UDP_BYTES + GRADIENT_BYTES;

        hdr.gradient.type = gradient_type_t.TRIMMED;
        hdr.udp.length = TRIMMED_UDP_BYTES;
        if (hdr.ipv4.isValid()) {
            bit<16> ipv4_bytes = (bit<16>)hdr.ipv4.ihl << 2;
            hdr.udp.checksum = 0;
            hdr.ipv4.total_length = ipv4_bytes + TRIMMED_UDP_BYTES;
            bytes = bytes + (bit<32>)ipv4_bytes;
        } else {
            hdr.ipv6.payload_length = TRIMMED_UDP_BYTES;
            bytes = bytes + IPV6_BYTES;
            sum_ipv6();
            if (hdr.udp.checksum == 0) {
                hdr.udp.checksum = 0xffff;
            }
        }
        if (hdr.vlan.isValid()) {
            bytes = bytes + VLAN_BYTES;
        }
        truncate(bytes);
    }
}

#endif
