// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Gradlane on Tofino. docs/targets.md says how the targets differ.

#include "target.p4"    // before all: what the shared files ask of a target

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
