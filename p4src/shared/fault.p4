// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// What the policy wants done with packets that the parser could not read.

#ifndef GRADLANE_FAULT_P4
#define GRADLANE_FAULT_P4

#include "sizes.p4"
#include "types.p4"

control ParserFault(in fault_t fault, inout drop_reason_t reason) {
    action forward_as_ordinary() {
    }

    action drop_malformed() {
        reason = drop_reason_t.MALFORMED;
    }

    table parser_fault {
        key = { fault : exact @name("fault"); }
        actions = { forward_as_ordinary; drop_malformed; }
        default_action = forward_as_ordinary;
        size = PARSER_FAULT_ROWS;
    }

    apply {
        if (fault == fault_t.BAD_CHECKSUM) {
            reason = drop_reason_t.MALFORMED;
        } else {
            parser_fault.apply();
        }
    }
}

#endif
