// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Importance as the traffic manager understands it: it drops red before yellow before green as a queue fills, each at
// a limit of its own, before egress can judge. Drops of this kind are the traffic manager's to count.

#ifndef GRADLANE_COLOR_P4
#define GRADLANE_COLOR_P4

#include "../shared/sizes.p4"
#include "../shared/types.p4"
#include "target.p4"

control ImportanceColor(in class_t class, in importance_t importance, out bit<2> color) {
    action set_color(@name("color") bit<2> value) {
        color = value;
    }

    table importance_color {
        key = {
            class : ternary @name("class");
            importance : range @name("importance");
        }
        actions = { set_color; }
        default_action = set_color(0);
        size = JUDGE_ROWS;
    }

    apply {
        importance_color.apply();
    }
}

#endif
