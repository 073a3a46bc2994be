// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Judges a routed packet by the depth of its egress queue and does as the judgement says.

#ifndef GRADLANE_VERDICT_P4
#define GRADLANE_VERDICT_P4

#include "../shared/judge.p4"
#include "metadata.p4"
#include "queue_depth.p4"
#include "trim.p4"

// `verdict` on return is what was done: KEEP, TRIM, or another for a mark. A drop is a `reason`.
control Verdict(inout headers_t hdr, inout metadata_t meta, in importance_t importance, in port_t egress_port,
                out verdict_t verdict, inout class_t queue, inout drop_reason_t reason) {
    ReadDepth() read_depth;
    Judge() judge;
    Trim() trim;

    apply {
        depth_t depth;
        class_t trimmed_class;

        read_depth.apply(egress_port, meta.class, depth);
        judge.apply(meta.class, importance, depth, verdict, trimmed_class, reason);

        if (verdict == verdict_t.KEEP) {
            // the common case
        } else if (verdict == verdict_t.TRIM) {
            if (meta.gradient && hdr.gradient.type == gradient_type_t.DATA && hdr.gradient.count != 0) {
                trim.apply(hdr);
                queue = trimmed_class;
            } else {
                reason = drop_reason_t.IMPORTANCE;
            }
        } else if (verdict == verdict_t.DROP) {
            if (reason == drop_reason_t.NONE) {
                reason = drop_reason_t.IMPORTANCE;
            }
        } else if (hdr.ipv4.isValid() && hdr.ipv4.ecn != NOT_ECT) {
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

#endif
