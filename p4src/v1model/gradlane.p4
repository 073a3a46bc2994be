// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Gradlane on v1model: BMv2 and the softswitch. docs/targets.md says how the targets differ.

#include "target.p4"    // before all: what the shared files ask of a target

#include "arrival.p4"
#include "checksum.p4"
#include "departure.p4"
#include "deparser.p4"
#include "egress.p4"
#include "local.p4"
#include "metadata.p4"
#include "parser.p4"
#include "route.p4"
#include "verdict.p4"

control GradlaneIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    Arrival() arrival;
    Local() local;
    Route() route;
    Verdict() judgement;
    Departure() departure;

    apply {
        importance_t importance;
        bool settled;
        port_t egress_port = DROP_PORT;
        verdict_t verdict = verdict_t.KEEP;
        drop_reason_t reason = drop_reason_t.NONE;

        arrival.apply(hdr, meta, standard_metadata.ingress_port, importance);
        local.apply(hdr, meta, standard_metadata, settled, egress_port, reason);
        class_t queue = meta.class;
        if (!settled && reason == drop_reason_t.NONE) {
            route.apply(hdr, meta, egress_port, reason);
            if (reason == drop_reason_t.NONE) {
                judgement.apply(hdr, meta, importance, egress_port, verdict, queue, reason);
            }
        }
        departure.apply(meta, standard_metadata, egress_port, queue, importance, verdict, reason);
    }
}

V1Switch(
    GradlaneParser(),
    GradlaneVerifyChecksum(),
    GradlaneIngress(),
    GradlaneEgress(),
    GradlaneComputeChecksum(),
    GradlaneDeparser()
) main;
