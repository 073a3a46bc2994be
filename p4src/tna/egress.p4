// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Judges a packet by the depth that its queue had when it came, and does as the judgement says.

#ifndef GRADLANE_EGRESS_P4
#define GRADLANE_EGRESS_P4

#include "../shared/delay.p4"
#include "../shared/judge.p4"
#include "metadata.p4"
#include "statistics.p4"
#include "trim.p4"

const bit<3> DROP_ORIGINAL = 1;     // and let its mirror copy live

control Verdict(inout headers_t hdr, inout egress_metadata_t meta, in egress_intrinsic_metadata_t eg_intr_md,
                inout verdict_t verdict, inout drop_reason_t reason) {
    Judge() judge;
    Trim() trim;

    apply {
        depth_t depth;
        class_t trimmed_class;

        if (eg_intr_md.enq_qdepth[18:16] != 0) {
            depth = 0xffff;
        } else {
            depth = eg_intr_md.enq_qdepth[15:0];
        }
        judge.apply(hdr.bridge.class, hdr.bridge.importance, depth, verdict, trimmed_class, reason);

        if (verdict == verdict_t.TRIM) {
            bool trimmed = false;
            if (hdr.bridge.gradient == 1 && hdr.gradient.isValid() && !hdr.vlan.isValid()
                && hdr.gradient.count != 0) {
                trim.apply(hdr, meta, eg_intr_md.egress_port, trimmed_class, trimmed);
            }
            if (!trimmed) {
                reason = drop_reason_t.IMPORTANCE;
            }
        } else if (verdict == verdict_t.DROP) {
            if (reason == drop_reason_t.NONE) {
                reason = drop_reason_t.IMPORTANCE;
            }
        } else if (verdict != verdict_t.KEEP) {
            if (hdr.ipv4.isValid() && hdr.ipv4.ecn != NOT_ECT) {
                hdr.ipv4.ecn = CONGESTION_EXPERIENCED;
            } else if (hdr.ipv6.isValid() && hdr.ipv6.ecn != NOT_ECT) {
                hdr.ipv6.ecn = CONGESTION_EXPERIENCED;
            } else if (verdict == verdict_t.MARK_OR_KEEP) {
                verdict = verdict_t.KEEP;
            } else {
                reason = drop_reason_t.NOT_ECT;
            }
        }
    }
}

control GradlaneEgress(inout headers_t hdr, inout egress_metadata_t meta,
                       in egress_intrinsic_metadata_t eg_intr_md,
                       in egress_intrinsic_metadata_from_parser_t eg_prsr_md,
                       inout egress_intrinsic_metadata_for_deparser_t eg_dprsr_md,
                       inout egress_intrinsic_metadata_for_output_port_t eg_oport_md) {
    Verdict() judgement;
    CountVerdict() count_verdict;
    CountDropped() count_dropped;
    DelayBucket() delay_bucket;
    CountDelay() count_delay;

    apply {
        if (hdr.bridge.isValid()) {
            if (eg_intr_md.egress_port == CPU_PORT) {
                hdr.packet_in.setValid();
                hdr.packet_in.ingress_port = hdr.bridge.arrived_at;
                // Behind a condition of its own: one action cannot bring a field and a constant together in a container.
                if (hdr.bridge.copied == 1) {
                    hdr.packet_in.reason = packet_in_reason_t.COPIED;
                } else {
                    hdr.packet_in.reason = packet_in_reason_t.SENT;
                }
            } else {
                verdict_t verdict = verdict_t.KEEP;
                bucket_t bucket;
                drop_reason_t reason = drop_reason_t.NONE;

                if (hdr.bridge.judged == 1) {
                    judgement.apply(hdr, meta, eg_intr_md, verdict, reason);
                }
                if (reason != drop_reason_t.NONE) {
                    count_dropped.apply(hdr.bridge.port_index, hdr.bridge.class, hdr.bridge.importance, reason);
                    eg_dprsr_md.drop_ctl = DROP_ORIGINAL;
                } else {
                    count_verdict.apply(hdr.bridge.port_index, hdr.bridge.class, hdr.bridge.importance, verdict);
                    if (verdict == verdict_t.TRIM) {
                        eg_dprsr_md.mirror_type = MIRROR_TRIMMED;
                        eg_dprsr_md.drop_ctl = DROP_ORIGINAL;
                    }
                }

                // Nanoseconds, of which 1024 make a microsecond here.
                delay_bucket.apply((bit<32>)eg_intr_md.deq_timedelta[17:10], bucket);
                count_delay.apply(hdr.bridge.port_index, hdr.bridge.class, bucket);
            }
        }
    }
}

control GradlaneEgressDeparser(packet_out packet, inout headers_t hdr, in egress_metadata_t meta,
                               in egress_intrinsic_metadata_for_deparser_t eg_dprsr_md) {
    Checksum() ipv4_checksum;
    Checksum() udp_checksum;
    Mirror(MIRROR_TRIMMED) mirror;

    apply {
        if (eg_dprsr_md.mirror_type == MIRROR_TRIMMED) {
            mirror.emit<trimmed_copy_t>(meta.trim_session, { meta.trimmed_carried });
        }
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.checksum = ipv4_checksum.update({
                hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, hdr.ipv4.total_length,
                hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol,
                hdr.ipv4.source, hdr.ipv4.destination
            });
        }
        if (meta.trim_ipv6) {
            // A sum of 0 is sent as its other form (RFC 8200, 8.1).
            hdr.udp.checksum = udp_checksum.update({
                hdr.ipv6.source, hdr.ipv6.destination, hdr.ipv6.payload_length, 8w0, hdr.ipv6.next_header,
                hdr.udp.source_port, hdr.udp.destination_port, hdr.udp.length,
                hdr.gradient.version, hdr.gradient.type, hdr.gradient.flags, hdr.gradient.data_type,
                hdr.gradient.importance, hdr.gradient.job, hdr.gradient.rank, hdr.gradient.tensor, hdr.gradient.layer,
                hdr.gradient.round, hdr.gradient.offset, hdr.gradient.count, hdr.gradient.path,
                hdr.gradient.reserved, hdr.gradient.weight, hdr.gradient.sequence
            }, true);
        }
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.udp);
        packet.emit(hdr.gradient);
        packet.emit(hdr.rest);
    }
}

#endif
