// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// The IPv4 header checksum, checked on arrival and renewed on departure.

#ifndef GRADLANE_CHECKSUM_P4
#define GRADLANE_CHECKSUM_P4

#include "metadata.p4"
#include "target.p4"

#define IPV4_FIELDS hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length, \
    hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol, \
    hdr.ipv4.source, hdr.ipv4.destination

control GradlaneVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid() && !hdr.ipv4_options.isValid(),
                        { IPV4_FIELDS }, hdr.ipv4.checksum, HashAlgorithm.csum16);
        verify_checksum(hdr.ipv4_options.isValid(),
                        { IPV4_FIELDS, hdr.ipv4_options.options }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control GradlaneComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid() && !hdr.ipv4_options.isValid(),
                        { IPV4_FIELDS }, hdr.ipv4.checksum, HashAlgorithm.csum16);
        update_checksum(hdr.ipv4_options.isValid(),
                        { IPV4_FIELDS, hdr.ipv4_options.options }, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

#endif
