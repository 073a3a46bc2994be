// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Sizes of tables and of the arrays that statistics and registers are indexed by.

#ifndef GRADLANE_SIZES_P4
#define GRADLANE_SIZES_P4

// Dimensions. An array's index is the concatenation of its dimensions' bits, so every one is a power of two.
#define PORTS 512
#define PORT_INDICES 64
#define CLASSES 8
#define BANDS 8
#define REASONS 8
#define BUCKETS 64
#define FAULTS 16

#define QUEUES (PORTS * CLASSES)
#define PORT_CLASSES (PORT_INDICES * CLASSES)
#define PORT_CLASS_BANDS (PORT_CLASSES * BANDS)
#define PORT_CLASS_REASON_BANDS (PORT_CLASSES * REASONS * BANDS)
#define PORT_CLASS_BUCKETS (PORT_CLASSES * BUCKETS)

// Tables, in rows. How many routes there may be is the target's to say.
#define INGRESS_PORT_ROWS PORTS
#define PARSER_FAULT_ROWS FAULTS
#define GRADIENT_CLASS_ROWS 1024
#define DSCP_CLASS_ROWS 64
#define PUNT_ROWS 64
#define ARP_REPLY_ROWS 1024
#define PATH_MODE_ROWS CLASSES
#define PINNED_PATH_ROWS 4096
#define PATH_GROUP_ROWS 512
#define PATH_SELECTOR_ROWS 8192
#define NEXT_HOP_ROWS 4096
#define JUDGE_ROWS 1024
#define DELAY_BUCKET_ROWS 64

// Round robin keeps one turn for each of this many groups (a group's low bits) and each class.
#define ROUND_ROBIN_TURNS (PATH_GROUP_ROWS * CLASSES)

#endif
