// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0

#ifndef GRADLANE_EGRESS_P4
#define GRADLANE_EGRESS_P4

#include "../shared/delay.p4"
#include "metadata.p4"
#include "queue_depth.p4"
#include "statistics.p4"
#include "target.p4"

control GradlaneEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    LeaveQueue() leave_queue;
    DelayBucket() delay_bucket;
    CountDelay() count_delay;

    apply {
        leave_queue.apply(standard_metadata.egress_port, meta.class, standard_metadata.deq_qdepth);

        if (standard_metadata.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = meta.arrived_at;
            hdr.packet_in.reason = meta.packet_in_reason;
        } else {
            bucket_t bucket;
            delay_bucket.apply(standard_metadata.deq_timedelta, bucket);
            count_delay.apply(meta.port_index, meta.class, bucket);
        }
    }
}

#endif
