// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Faults that Tofino's parser cannot tell by itself: lengths that disagree, and frames that end before their headers.

#ifndef GRADLANE_TNA_FAULT_P4
#define GRADLANE_TNA_FAULT_P4

#include "../shared/fault.p4"
#include "metadata.p4"

control FindFault(in headers_t hdr, inout ingress_metadata_t meta, in bit<16> parser_error) {
    bit<16> udp_bytes = 0;      // as the IP header has it
    bit<16> excess = 0;         // bytes behind the gradient header that `count` does not explain

    @hidden
    action subtract_values_of_4_bytes() {
        excess = excess - (hdr.gradient.count << 2);
    }

    @hidden
    action subtract_values_of_2_bytes() {
        excess = excess - (hdr.gradient.count << 1);
    }

    apply {
        if (meta.gradient) {
            if (hdr.ipv4.isValid()) {
                udp_bytes = hdr.ipv4.total_length - IPV4_BYTES;
            } else {
                udp_bytes = hdr.ipv6.payload_length;
            }
            udp_bytes = udp_bytes - hdr.udp.length;

            excess = hdr.udp.length - (UDP_BYTES + GRADIENT_BYTES);
            if (hdr.gradient.type == gradient_type_t.DATA) {
                // A count that needs more than 16 bits for its bytes is more than any frame carries.
                if (hdr.gradient.count[15:14] != 0) {
                    excess = 0xffff;
                } else if (hdr.gradient.data_type == data_type_t.FLOAT32) {
                    subtract_values_of_4_bytes();
                } else if (hdr.gradient.data_type == data_type_t.FLOAT16
                           || hdr.gradient.data_type == data_type_t.BFLOAT16) {
                    subtract_values_of_2_bytes();
                } else {
                    excess = 0xffff;
                }
            } else if (hdr.gradient.type != gradient_type_t.TRIMMED) {
                excess = 0;
            }

            if (udp_bytes != 0 || excess != 0) {
                meta.fault = fault_t.BAD_LENGTH;
                meta.gradient = false;
            }
        } else if (parser_error != PARSER_ERROR_OK) {
            if (hdr.udp.isValid()) {
                meta.fault = fault_t.TRUNCATED_GRADIENT;
            } else if (hdr.ipv4.isValid() || hdr.ipv6.isValid()) {
                meta.fault = fault_t.TRUNCATED_L4;
            } else if (meta.ether_type == ether_type_t.IPV4) {
                meta.fault = fault_t.TRUNCATED_IPV4;
            } else if (meta.ether_type == ether_type_t.IPV6) {
                meta.fault = fault_t.TRUNCATED_IPV6;
            } else {
                meta.fault = fault_t.TRUNCATED_OTHER;
            }
        }

        if (meta.checksum_error) {
            meta.fault = fault_t.BAD_CHECKSUM;
        }
    }
}

#endif
