// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// How a packet chooses among the members of its group. The choice itself needs a selector, and is each target's.

#ifndef GRADLANE_PATH_P4
#define GRADLANE_PATH_P4

#include "actions.p4"
#include "sizes.p4"
#include "types.p4"

// The path that the gradient header names, where the policy has a row for it.
control PinnedPath(in group_t group, in bit<8> path, inout next_hop_t next_hop, out bool pinned) {
    table pinned_path {
        key = {
            group : exact @name("group");
            path : exact @name("path");
        }
        actions = { set_next_hop(next_hop); @defaultonly NoAction; }
        const default_action = NoAction;
        size = PINNED_PATH_ROWS;
    }

    apply {
        pinned = pinned_path.apply().hit;
    }
}

control PathMode(in class_t class, out path_mode_t mode) {
    action flow_hash() {
        mode = path_mode_t.FLOW_HASH;
    }

    action random_member() {
        mode = path_mode_t.RANDOM_MEMBER;
    }

    action round_robin() {
        mode = path_mode_t.ROUND_ROBIN;
    }

    action shallower_of_two() {
        mode = path_mode_t.SHALLOWER_OF_TWO;
    }

    table path_mode {
        key = { class : exact @name("class"); }
        actions = { flow_hash; random_member; round_robin; shallower_of_two; }
        default_action = flow_hash;
        size = PATH_MODE_ROWS;
    }

    apply {
        path_mode.apply();
    }
}

#endif
