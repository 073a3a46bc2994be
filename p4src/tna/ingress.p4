// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Where a packet goes. Whether its queue takes it is egress's to judge.

#ifndef GRADLANE_INGRESS_P4
#define GRADLANE_INGRESS_P4

#include "../shared/arp.p4"
#include "../shared/classify.p4"
#include "../shared/next_hop.p4"
#include "../shared/port.p4"
#include "../shared/punt.p4"
#include "../shared/route.p4"
#include "color.p4"
#include "fault.p4"
#include "metadata.p4"
#include "spray.p4"
#include "statistics.p4"

const bit<3> DROP = 1;

control GradlaneIngress(inout headers_t hdr, inout ingress_metadata_t meta,
                        in ingress_intrinsic_metadata_t ig_intr_md,
                        in ingress_intrinsic_metadata_from_parser_t ig_prsr_md,
                        inout ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md,
                        inout ingress_intrinsic_metadata_for_tm_t ig_tm_md) {
    IngressPort() ingress_port;
    FindFault() find_fault;
    ClassifyGradient() classify_gradient;
    ClassifyOrdinary() classify_ordinary;
    CountReceived() count_received;
    CountFault() count_fault;
    ParserFault() parser_fault;
    ArpReply() arp_reply;
    Punt() punt;
    RouteIpv4() route_ipv4;
    RouteIpv6() route_ipv6;
    PathMode() path_mode;
    Spray() spray;
    NextHop() next_hop_of;
    CountDown() count_down_ttl;
    CountDown() count_down_hop_limit;
    ImportanceColor() importance_color;
    CountDropped() count_dropped;

    // With options the deparser cannot renew the checksum: follow what the time to live has lost (RFC 1141).
    @hidden
    action add_to_checksum(bit<16> difference) {
        hdr.ipv4.checksum = hdr.ipv4.checksum + difference;
    }

    // By rows: a copy would need both fields in containers of one size, and in the header a port is beside the class.
    @hidden
    action set_queue(class_t class) {
        hdr.bridge.class = class;
    }

    @hidden
    table packet_out_class {
        key = { hdr.packet_out.class : exact; }
        actions = { set_queue; }
        const entries = {
            1 : set_queue(1);
            2 : set_queue(2);
            3 : set_queue(3);
            4 : set_queue(4);
            5 : set_queue(5);
            6 : set_queue(6);
            7 : set_queue(7);
        }
        const default_action = set_queue(0);
        size = CLASSES;
    }

    // A stage of Tofino sees what the stages before it wrote, and there are twelve. So what depends on the frame alone
    // is looked up first, for every packet, and each step notes a reason of its own; the first of them counts.
    apply {
        bool settled = false;
        drop_reason_t malformed = drop_reason_t.NONE;
        drop_reason_t policy = drop_reason_t.NONE;
        drop_reason_t routing = drop_reason_t.NONE;
        drop_reason_t reason = drop_reason_t.NONE;
        next_hop_t next_hop = 0;
        group_t group = 0;

        ingress_port.apply(ig_intr_md.ingress_port, hdr.bridge.port_index);
        if (hdr.vlan.isValid()) {
            meta.ether_type = hdr.vlan.ether_type;
        } else {
            meta.ether_type = hdr.ethernet.ether_type;
        }
        bit<6> dscp = 0;
        if (hdr.ipv4.isValid()) {
            dscp = hdr.ipv4.dscp;
            route_ipv4.apply(hdr.ipv4.destination, next_hop, group, routing);
        } else if (hdr.ipv6.isValid()) {
            dscp = hdr.ipv6.dscp;
            route_ipv6.apply(hdr.ipv6.destination, next_hop, group, routing);
        } else {
            routing = drop_reason_t.NO_ROUTE;
        }
        find_fault.apply(hdr, meta, ig_prsr_md.parser_err);

        if (hdr.packet_out.isValid() && hdr.packet_out.egress_port != SUBMIT_TO_INGRESS) {
            settled = true;
            ig_tm_md.ucast_egress_port = hdr.packet_out.egress_port;
            packet_out_class.apply();
        } else if (hdr.bridge.gradient == 1) {
            classify_gradient.apply(hdr.gradient, hdr.bridge.class, hdr.bridge.importance);
        } else {
            classify_ordinary.apply(dscp, hdr.bridge.class, hdr.bridge.importance);
        }
        count_received.apply(hdr.bridge.port_index, hdr.bridge.class);
        importance_color.apply(hdr.bridge.class, hdr.bridge.importance, ig_tm_md.packet_color);
        ig_tm_md.qid = (QueueId_t)hdr.bridge.class;
        path_mode_t mode;
        path_mode.apply(hdr.bridge.class, mode);

        if (meta.fault != fault_t.NONE) {
            count_fault.apply(meta.fault);
            parser_fault.apply(meta.fault, malformed);
        }
        if (group != 0) {
            spray.apply(hdr, meta, group, mode, next_hop, routing);
        }

        if (!hdr.packet_out.isValid() && malformed == drop_reason_t.NONE) {
            if (hdr.arp.isValid()) {
                arp_reply.apply(hdr.ethernet, hdr.arp, settled);
                ig_tm_md.ucast_egress_port = ig_intr_md.ingress_port;
            }
            if (!settled) {
                punt_t punt_to;
                punt.apply(meta.ether_type, meta.protocol, punt_to, policy);
                if (punt_to == punt_t.SEND) {
                    settled = true;
                    ig_tm_md.ucast_egress_port = CPU_PORT;
                    hdr.bridge.port_index = OTHER_PORTS;
                } else if (punt_to == punt_t.COPY) {
                    hdr.bridge.copied = 1;
                    ig_tm_md.copy_to_cpu = 1;
                }
            }
        }

        if (settled) {
            hdr.bridge.judged = 0;
        }
        if (malformed != drop_reason_t.NONE) {
            reason = malformed;
        } else if (policy != drop_reason_t.NONE) {
            reason = policy;
        } else if (!settled) {
            if (hdr.ipv4.isValid()) {
                count_down_ttl.apply(hdr.ipv4.ttl, reason);
                if (hdr.ipv4.ihl != IHL_WITHOUT_OPTIONS) {
                    if (hdr.ipv4.checksum[15:8] == 0xff) {
                        add_to_checksum(0x0101);
                    } else {
                        add_to_checksum(0x0100);
                    }
                }
            } else if (hdr.ipv6.isValid()) {
                count_down_hop_limit.apply(hdr.ipv6.hop_limit, reason);
            }
            // The last step writes the reason itself: to choose among two would take a thirteenth stage.
            if (routing != drop_reason_t.NONE) {
                reason = routing;
            } else {
                next_hop_of.apply(next_hop, hdr.ethernet, ig_tm_md.ucast_egress_port, hdr.bridge.port_index, reason);
            }
        }
        if (reason != drop_reason_t.NONE) {
            count_dropped.apply(hdr.bridge.port_index, hdr.bridge.class, hdr.bridge.importance, reason);
            ig_dprsr_md.drop_ctl = DROP;
        }
    }
}

control GradlaneIngressDeparser(packet_out packet, inout headers_t hdr, in ingress_metadata_t meta,
                                in ingress_intrinsic_metadata_for_deparser_t ig_dprsr_md) {
    apply {
        packet.emit(hdr.bridge);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
        packet.emit(hdr.gradient);
    }
}

#endif
