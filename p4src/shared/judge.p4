// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a packet, given what it is worth and how deep its queue stands.

#ifndef GRADLANE_JUDGE_P4
#define GRADLANE_JUDGE_P4

#include "sizes.p4"
#include "types.p4"

// `trimmed_class` is set with verdict TRIM, `reason` with verdict DROP.
control Judge(in class_t class, in importance_t importance, in depth_t depth,
              out verdict_t verdict, out class_t trimmed_class, inout drop_reason_t reason) {
    ROW_COUNTER(judge_rows)

    action keep() {
        verdict = verdict_t.KEEP;
    }

    action mark_or_keep() {
        verdict = verdict_t.MARK_OR_KEEP;
    }

    action mark_or_drop() {
        verdict = verdict_t.MARK_OR_DROP;
    }

    action trim(@name("trim_class") class_t trim_class) {
        verdict = verdict_t.TRIM;
        trimmed_class = trim_class;
    }

    action drop_judged(@name("reason") bit<3> drop_reason) {
        verdict = verdict_t.DROP;
        reason = (drop_reason_t)drop_reason;
    }

    table judge {
        key = {
            class : ternary @name("class");
            importance : range @name("importance");
            depth : range @name("depth");
        }
        actions = { keep; mark_or_keep; mark_or_drop; trim; drop_judged; }
        default_action = keep;
        size = JUDGE_ROWS;
        COUNTED_BY(judge_rows)
    }

    apply {
        trimmed_class = 0;
        judge.apply();
    }
}

#endif
