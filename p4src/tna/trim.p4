// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Tofino 1 cannot cut a packet short: a mirror session does, which sends a copy of at most so many bytes to its port
// and queue. The original is dropped in its stead.

#ifndef GRADLANE_TRIM_P4
#define GRADLANE_TRIM_P4

#include "metadata.p4"

const bit<16> TRIMMED_UDP_BYTES = UDP_BYTES + GRADIENT_BYTES;

// A session's maximum length is that of the trimmed_copy_t header and the frame's headers, which differs between IPv4
// and IPv6; its queue is the class that trimmed packets ride in. Untagged frames only: a row fits no other.
control Trim(inout headers_t hdr, inout egress_metadata_t meta, in port_t port, in class_t class, out bool trimmed) {
    action set_session(@name("session") MirrorId_t session) {
        meta.trim_session = session;
    }

    table trim_session {
        key = {
            port : exact @name("port");
            class : exact @name("trim_class");
            hdr.ipv6.isValid() : exact @name("is_ipv6");
        }
        actions = { set_session; @defaultonly NoAction; }
        const default_action = NoAction;
        size = QUEUES;
    }

    @hidden
    action mend() {
        hdr.gradient.type = gradient_type_t.TRIMMED;
        hdr.udp.length = TRIMMED_UDP_BYTES;
        hdr.udp.checksum = 0;
    }

    apply {
        trimmed = trim_session.apply().hit;
        if (trimmed) {
            mend();
            if (hdr.ipv4.isValid()) {
                hdr.ipv4.total_length = IPV4_BYTES + TRIMMED_UDP_BYTES;
            } else {
                hdr.ipv6.payload_length = TRIMMED_UDP_BYTES;
                meta.trim_ipv6 = true;
            }
        }
    }
}

#endif
