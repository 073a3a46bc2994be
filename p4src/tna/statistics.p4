// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// What is counted, by the same indices as on v1model. A packet may be dropped in ingress, for want of a route and the
// like, or in egress, where it is judged: `dropped` stands in both, and their sum is what v1model's holds.

#ifndef GRADLANE_STATISTICS_P4
#define GRADLANE_STATISTICS_P4

#include "../shared/sizes.p4"
#include "../shared/types.p4"
#include "target.p4"

typedef bit<9> port_class_t;
typedef bit<12> port_class_band_t;
typedef bit<15> port_class_reason_band_t;
typedef bit<15> port_class_bucket_t;

control CountReceived(in port_index_t port_index, in class_t class) {
    Counter<bit<64>, port_class_t>(PORT_CLASSES, CounterType_t.PACKETS_AND_BYTES) received;

    apply {
        received.count(port_index ++ class);
    }
}

control CountFault(in fault_t fault) {
    Counter<bit<64>, bit<4>>(FAULTS, CounterType_t.PACKETS_AND_BYTES) faults;

    apply {
        faults.count((bit<4>)fault);
    }
}

control CountDropped(in port_index_t port_index, in class_t class, in importance_t importance,
                     in drop_reason_t reason) {
    Counter<bit<64>, port_class_reason_band_t>(PORT_CLASS_REASON_BANDS, CounterType_t.PACKETS_AND_BYTES) dropped;

    apply {
        band_t band = importance[7:5];
        dropped.count(port_index ++ class ++ (bit<3>)reason ++ band);
    }
}

control CountVerdict(in port_index_t port_index, in class_t class, in importance_t importance, in verdict_t verdict) {
    Counter<bit<64>, port_class_t>(PORT_CLASSES, CounterType_t.PACKETS_AND_BYTES) kept;
    Counter<bit<64>, port_class_band_t>(PORT_CLASS_BANDS, CounterType_t.PACKETS_AND_BYTES) kept_band;
    Counter<bit<64>, port_class_t>(PORT_CLASSES, CounterType_t.PACKETS_AND_BYTES) marked;
    Counter<bit<64>, port_class_t>(PORT_CLASSES, CounterType_t.PACKETS_AND_BYTES) trimmed;

    apply {
        if (verdict == verdict_t.TRIM) {
            trimmed.count(port_index ++ class);
        } else {
            kept_band.count(port_index ++ class ++ importance[7:5]);
            if (verdict == verdict_t.KEEP) {
                kept.count(port_index ++ class);
            } else {
                marked.count(port_index ++ class);
            }
        }
    }
}

control CountDelay(in port_index_t port_index, in class_t class, in bucket_t bucket) {
    Counter<bit<64>, port_class_bucket_t>(PORT_CLASS_BUCKETS, CounterType_t.PACKETS_AND_BYTES) queue_delay;

    apply {
        queue_delay.count(port_index ++ class ++ bucket);
    }
}

#endif
