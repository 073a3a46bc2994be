// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Actions that several tables offer under one name.

#ifndef GRADLANE_ACTIONS_P4
#define GRADLANE_ACTIONS_P4

#include "types.p4"

action pass() {
}

action set_class(out class_t result, @name("class") class_t class) {
    result = class;
}

action set_next_hop(out next_hop_t result, @name("next_hop") next_hop_t next_hop) {
    result = next_hop;
}

action set_group(out group_t result, @name("group") group_t group) {
    result = group;
}

action drop_by_policy(out drop_reason_t reason) {
    reason = drop_reason_t.POLICY;
}

#endif
