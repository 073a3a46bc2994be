// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Faults that Tofino's parser cannot tell by itself: lengths that disagree, and frames that end before their headers.

#ifndef GRADLANE_TNA_FAULT_P4
#define GRADLANE_TNA_FAULT_P4

#include "../shared/fault.p4"
#include "metadata.p4"

control FindFault(inout headers_t hdr, inout ingress_metadata_t meta, in bit<16> parser_error) {
    bit<16> around = 0;         // bytes of the IP packet that the UDP length leaves out; over IPv4 its header
    bit<16> values = 0;         // bytes of values that `count` speaks of
    bit<16> rest = 0;           // of the UDP length without them

    @hidden
    action sound() {
    }

    @hidden
    action bad_length() {
        meta.fault = fault_t.BAD_LENGTH;
        hdr.bridge.gradient = 0;
    }

    // A table, since a condition on two sums is more than a gateway takes.
    @hidden
    table lengths {
        key = {
            hdr.ipv4.isValid() : exact;
            meta.countable : exact;
            around : ternary;
            rest : ternary;
            hdr.gradient.type : ternary;
        }
        actions = { sound; bad_length; }
        const default_action = bad_length;
        const entries = {
            (true, true, IPV4_BYTES, UDP_BYTES + GRADIENT_BYTES, _) : sound;
            (true, true, IPV4_BYTES, _, gradient_type_t.START) : sound;     // of messages the whole length is known
            (true, true, IPV4_BYTES, _, 0x4 &&& 0xc) : sound;
            (true, true, IPV4_BYTES, _, gradient_type_t.REPORT) : sound;
            (false, true, 0, UDP_BYTES + GRADIENT_BYTES, _) : sound;
            (false, true, 0, _, gradient_type_t.START) : sound;
            (false, true, 0, _, 0x4 &&& 0xc) : sound;
            (false, true, 0, _, gradient_type_t.REPORT) : sound;
        }
        size = 8;
    }

    apply {
        if (meta.checksum_error) {
            meta.fault = fault_t.BAD_CHECKSUM;
        } else if (hdr.bridge.gradient == 1) {
            if (hdr.ipv4.isValid()) {
                around = hdr.ipv4.total_length - hdr.udp.length;
            } else {
                around = hdr.ipv6.payload_length - hdr.udp.length;
            }
            if (hdr.gradient.type == gradient_type_t.DATA) {
                // A count that needs more than 16 bits for its bytes is more than any frame carries.
                if (hdr.gradient.count[15:14] != 0) {
                    meta.countable = false;
                } else if (hdr.gradient.data_type == data_type_t.FLOAT32) {
                    values = hdr.gradient.count << 2;
                } else if (hdr.gradient.data_type == data_type_t.FLOAT16
                           || hdr.gradient.data_type == data_type_t.BFLOAT16) {
                    values = hdr.gradient.count << 1;
                } else {
                    meta.countable = false;
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
    }
}

#endif
