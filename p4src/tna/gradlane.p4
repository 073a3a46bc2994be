// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Gradlane on Tofino. docs/targets.md says how the targets differ.

#include "egress.p4"
#include "ingress.p4"
#include "parser.p4"

Pipeline(
    GradlaneIngressParser(),
    GradlaneIngress(),
    GradlaneIngressDeparser(),
    GradlaneEgressParser(),
    GradlaneEgress(),
    GradlaneEgressDeparser()
) pipe;

Switch(pipe) main;
