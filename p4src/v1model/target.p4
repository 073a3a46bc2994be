// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// What the shared files ask of a target: its special ports, a mark on headers that P4Info describes, and a counter on
// the rows of tables that decide.

#ifndef GRADLANE_TARGET_P4
#define GRADLANE_TARGET_P4

#include <v1model.p4>

const bit<9> CPU_PORT = 510;
const bit<9> DROP_PORT = 511;

#define CONTROLLER_HEADER(name) @controller_header(name)
#define ROW_COUNTER(rows) direct_counter(CounterType.packets_and_bytes) rows;
#define COUNTED_BY(rows) counters = rows;
#define IPV4_ROUTE_ROWS 16384
#define IPV6_ROUTE_ROWS 8192
#define CONST_PREFIX lpm
#define SIZE_OF_CONST_ENTRIES(rows)    // p4c warns of one here, and of none on Tofino

#endif
