// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Which class serves a packet, and how much the packet is worth.

#ifndef GRADLANE_CLASSIFY_P4
#define GRADLANE_CLASSIFY_P4

#include "actions.p4"
#include "headers.p4"
#include "sizes.p4"

control ClassifyGradient(in gradient_t gradient, inout class_t class, out importance_t importance) {
    ROW_COUNTER(gradient_class_rows)

    table gradient_class {
        key = {
            gradient.job : ternary @name("job");
            gradient.layer : range @name("layer");
            gradient.type : ternary @name("type");
        }
        actions = { set_class(class); }
        default_action = set_class(class, 0);
        size = GRADIENT_CLASS_ROWS;
        COUNTED_BY(gradient_class_rows)
    }

    apply {
        gradient_class.apply();

        // Only values have a rank. A retransmission keeps its rank in the header but is not judged by it a second time.
        if (gradient.type == gradient_type_t.DATA && gradient.flags & FLAGS_NOT_JUDGED_BY_IMPORTANCE == 0) {
            importance = gradient.importance;
        } else {
            importance = MOST_IMPORTANT;
        }
    }
}

control ClassifyOrdinary(in bit<6> dscp, inout class_t class, out importance_t importance) {
    table dscp_class {
        key = { dscp : exact @name("dscp"); }
        actions = { set_class(class); }
        default_action = set_class(class, 0);
        size = DSCP_CLASS_ROWS;
    }

    apply {
        dscp_class.apply();
        importance = MOST_IMPORTANT;
    }
}

#endif
