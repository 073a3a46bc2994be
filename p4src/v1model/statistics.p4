// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// What is counted. received = kept + marked + trimmed + dropped, in packets, at every quiescent moment.

#ifndef GRADLANE_STATISTICS_P4
#define GRADLANE_STATISTICS_P4

#include "../shared/sizes.p4"
#include "../shared/types.p4"
#include "target.p4"

// By the ingress port's index and the packet's class.
control CountReceived(in port_index_t port_index, in class_t class) {
    counter(PORT_CLASSES, CounterType.packets_and_bytes) received;

    apply {
        received.count((bit<32>)(port_index ++ class));
    }
}

control CountFault(in fault_t fault) {
    counter(FAULTS, CounterType.packets_and_bytes) faults;

    apply {
        faults.count((bit<32>)(bit<4>)fault);
    }
}

// By the egress port's index (the ingress port's if that is all that is known) and the packet's class, which for a
// trimmed packet is the one it was judged in. Bytes are those that arrived.
control CountVerdict(in port_index_t port_index, in class_t class, in importance_t importance,
                     in verdict_t verdict, in drop_reason_t reason) {
    counter(PORT_CLASSES, CounterType.packets_and_bytes) kept;
    counter(PORT_CLASS_BANDS, CounterType.packets_and_bytes) kept_band;     // kept or marked
    counter(PORT_CLASSES, CounterType.packets_and_bytes) marked;
    counter(PORT_CLASSES, CounterType.packets_and_bytes) trimmed;
    counter(PORT_CLASS_REASON_BANDS, CounterType.packets_and_bytes) dropped;

    apply {
        bit<9> index = port_index ++ class;
        band_t band = importance[7:5];
        if (reason != drop_reason_t.NONE) {
            dropped.count((bit<32>)(index ++ (bit<3>)reason ++ band));
        } else if (verdict == verdict_t.TRIM) {
            trimmed.count((bit<32>)index);
        } else {
            kept_band.count((bit<32>)(index ++ band));
            if (verdict == verdict_t.KEEP) {
                kept.count((bit<32>)index);
            } else {
                marked.count((bit<32>)index);
            }
        }
    }
}

// By the egress port's index, the queue's class and the bucket of delay.p4.
control CountDelay(in port_index_t port_index, in class_t class, in bucket_t bucket) {
    counter(PORT_CLASS_BUCKETS, CounterType.packets_and_bytes) queue_delay;

    apply {
        queue_delay.count((bit<32>)(port_index ++ class ++ bucket));
    }
}

#endif
