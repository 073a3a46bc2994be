// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Which packets go to the controller, and which the policy forbids.

#ifndef GRADLANE_PUNT_P4
#define GRADLANE_PUNT_P4

#include "actions.p4"
#include "sizes.p4"
#include "types.p4"

control Punt(in bit<16> ether_type, in bit<8> protocol, out punt_t punt_to, inout drop_reason_t reason) {
    action send_to_cpu() {
        punt_to = punt_t.SEND;
    }

    action copy_to_cpu() {
        punt_to = punt_t.COPY;
    }

    table punt {
        key = {
            ether_type : ternary @name("ether_type");
            protocol : ternary @name("protocol");
        }
        actions = { pass; send_to_cpu; copy_to_cpu; drop_by_policy(reason); }
        default_action = pass;
        size = PUNT_ROWS;
    }

    apply {
        punt_to = punt_t.PASS;
        punt.apply();
    }
}

#endif
