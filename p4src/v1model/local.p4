// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Packets whose fate is known without a route: malformed ones, ARP requests that the switch answers, packets from the
// controller to a port, packets to the controller, and those that the policy forbids.

#ifndef GRADLANE_LOCAL_P4
#define GRADLANE_LOCAL_P4

#include "../shared/arp.p4"
#include "../shared/fault.p4"
#include "../shared/punt.p4"
#include "metadata.p4"
#include "statistics.p4"
#include "target.p4"

// The controller points this clone session at the CPU port, or copies are not made.
const bit<32> CPU_COPY_SESSION = 510;

// `settled`: `egress_port` is where the packet goes.
control Local(inout headers_t hdr, inout metadata_t meta, in standard_metadata_t standard_metadata,
              out bool settled, inout port_t egress_port, inout drop_reason_t reason) {
    CountFault() count_fault;
    ParserFault() parser_fault;
    ArpReply() arp_reply;
    Punt() punt;

    apply {
        settled = false;

        if (standard_metadata.checksum_error == 1) {
            meta.fault = fault_t.BAD_CHECKSUM;
        }
        if (meta.fault != fault_t.NONE) {
            count_fault.apply(meta.fault);
            parser_fault.apply(meta.fault, reason);
        }

        if (reason != drop_reason_t.NONE) {
            // nothing else matters
        } else if (hdr.packet_out.isValid()) {
            if (hdr.packet_out.egress_port != SUBMIT_TO_INGRESS) {
                settled = true;
                egress_port = hdr.packet_out.egress_port;
                if (egress_port == DROP_PORT) {
                    reason = drop_reason_t.POLICY;
                }
            }
        } else {
            if (hdr.arp.isValid()) {
                arp_reply.apply(hdr.ethernet, hdr.arp, settled);
                egress_port = standard_metadata.ingress_port;
            }
            if (!settled) {
                punt_t punt_to;
                punt.apply(meta.ether_type, meta.protocol, punt_to, reason);
                if (punt_to != punt_t.PASS) {
                    meta.arrived_at = standard_metadata.ingress_port;
                    if (punt_to == punt_t.SEND) {
                        settled = true;
                        egress_port = CPU_PORT;
                        meta.port_index = OTHER_PORTS;
                    } else {
                        meta.packet_in_reason = packet_in_reason_t.COPIED;
                        clone_preserving_field_list(CloneType.I2E, CPU_COPY_SESSION, CPU_COPY);
                    }
                }
            }
        }
    }
}

#endif
