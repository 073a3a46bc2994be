// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Every packet: where it came from, which class serves it, how much it is worth. It is counted as received.

#ifndef GRADLANE_ARRIVAL_P4
#define GRADLANE_ARRIVAL_P4

#include "../shared/classify.p4"
#include "../shared/port.p4"
#include "metadata.p4"
#include "statistics.p4"

control Arrival(in headers_t hdr, inout metadata_t meta, in port_t port, out importance_t importance) {
    IngressPort() ingress_port;
    ClassifyGradient() classify_gradient;
    ClassifyOrdinary() classify_ordinary;
    CountReceived() count_received;

    apply {
        ingress_port.apply(port, meta.port_index);
        if (hdr.packet_out.isValid() && hdr.packet_out.egress_port != SUBMIT_TO_INGRESS) {
            meta.class = hdr.packet_out.class;
            importance = MOST_IMPORTANT;
        } else if (meta.gradient) {
            classify_gradient.apply(hdr.gradient, meta.class, importance);
        } else {
            classify_ordinary.apply(meta.dscp, meta.class, importance);
        }
        count_received.apply(meta.port_index, meta.class);
    }
}

#endif
