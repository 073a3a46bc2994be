// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Faults that Tofino's parser cannot tell by itself: lengths that disagree, and frames that end before their headers.

#ifndef GRADLANE_TNA_FAULT_P4
#define GRADLANE_TNA_FAULT_P4

#include "../shared/fault.p4"
#include "metadata.p4"

control FindFault(inout headers_t hdr, inout ingress_metadata_t meta, in bit<16> parser_error) {
    bit<16> disagreement = 0;   // between the UDP length and the IP length
    bit<16> values = 0;         // bytes of values that `count` speaks of
    bit<16> rest = 0;           // of the UDP length without them

    @hidden
    action bad_length() {
        meta.fault = fault_t.BAD_LENGTH;
        hdr.bridge.gradient = 0;
    }

    // A table, since a condition on two sums is more than a gateway takes.
    @hidden
    table lengths {
        key = {
            disagreement : ternary;
            rest : ternary;
            hdr.gradient.type : ternary;
        }
        actions = { NoAction; bad_length; }
        const default_action = bad_length;
        const entries = {
            (0, UDP_BYTES + GRADIENT_BYTES, _) : NoAction;
            (0, _, gradient_type_t.START) : NoAction;       // of messages only the length as a whole is known
            (0, _, 0x4 &&& 0xc) : NoAction;
            (0, _, gradient_type_t.REPORT) : NoAction;
        }
        size = 4;
    }

    apply {
        if (hdr.bridge.gradient == 1) {
            if (hdr.ipv4.isValid()) {
                disagreement = hdr.ipv4.total_length - IPV4_BYTES;
            } else {
                disagreement = hdr.ipv6.payload_length;
            }
            disagreement = disagreement - hdr.udp.length;

            if (hdr.gradient.type == gradient_type_t.DATA) {
                // A count that needs more than 16 bits for its bytes is more than any frame carries.
                if (hdr.gradient.count[15:14] != 0) {
                    disagreement = 1;
                } else if (hdr.gradient.data_type == data_type_t.FLOAT32) {
                    values = hdr.gradient.count << 2;
                } else if (hdr.gradient.data_type == data_type_t.FLOAT16
                           || hdr.gradient.data_type == data_type_t.BFLOAT16) {
                    values = hdr.gradient.count << 1;
                } else {
                    disagreement = 1;
                }
            }
            rest = hdr.udp.length - values;
            lengths.apply();
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
