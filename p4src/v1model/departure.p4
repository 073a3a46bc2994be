// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// The last word of ingress: into a queue, or dropped; counted either way.

#ifndef GRADLANE_DEPARTURE_P4
#define GRADLANE_DEPARTURE_P4

#include "metadata.p4"
#include "queue_depth.p4"
#include "statistics.p4"
#include "target.p4"

control Departure(inout metadata_t meta, inout standard_metadata_t standard_metadata, in port_t egress_port,
                  in class_t queue, in importance_t importance, in verdict_t verdict, in drop_reason_t reason) {
    CountVerdict() count_verdict;
    JoinQueue() join_queue;

    apply {
        count_verdict.apply(meta.port_index, meta.class, importance, verdict, reason);
        if (reason == drop_reason_t.NONE) {
            meta.class = queue;
            standard_metadata.priority = queue;
            standard_metadata.egress_spec = egress_port;
            join_queue.apply(egress_port, queue);
        } else {
            mark_to_drop(standard_metadata);
        }
    }
}

#endif
