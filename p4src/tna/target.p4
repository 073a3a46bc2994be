// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// What the shared files ask of a target. Rows are not counted here: a direct counter is counted by the table's own
// actions, and tables share theirs.

#ifndef GRADLANE_TARGET_P4
#define GRADLANE_TARGET_P4

#include <core.p4>
#include <tna.p4>

const PortId_t CPU_PORT = 192;

#define CONTROLLER_HEADER(name)
#define ROW_COUNTER(rows)
#define COUNTED_BY(rows)
// 40 blocks of TCAM, which two stages have; the first steps of every packet are beside them.
#define IPV4_ROUTE_ROWS 8192
#define IPV6_ROUTE_ROWS 4096
#define CONST_PREFIX ternary    // the compiler takes no constant rows where a key is matched lpm
#define SIZE_OF_CONST_ENTRIES(rows) size = rows;

#endif
