// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// The depth of every egress queue, as ingress sees it.
//
// v1model shows a queue's depth in egress only, and a starved queue never gets there. So ingress counts what it keeps
// and every departure overwrites the count with the true depth. On the softswitch the register is declared live: its
// cells read as the traffic manager's depth and writes to it are ignored.

#ifndef GRADLANE_QUEUE_DEPTH_P4
#define GRADLANE_QUEUE_DEPTH_P4

#include "../shared/sizes.p4"
#include "../shared/types.p4"
#include "target.p4"

const bit<32> DEEPEST = 0xffff;

register<bit<32>>(QUEUES) queue_depth;

control ReadDepth(in port_t port, in class_t class, out depth_t depth) {
    apply {
        bit<32> cell;
        queue_depth.read(cell, (bit<32>)(port ++ class));
        if (cell > DEEPEST) {
            cell = DEEPEST;
        }
        depth = (depth_t)cell;
    }
}

// What stands before a packet of this class at a port: its own queue and those served before it.
control ReadBacklog(in port_t port, in class_t class, out depth_t depth) {
    bit<32> total = 0;
    bit<32> cell;

    apply {
        queue_depth.read(total, (bit<32>)(port ++ (class_t)7));
        if (class <= 6) {
            queue_depth.read(cell, (bit<32>)(port ++ (class_t)6));
            total = total + cell;
        }
        if (class <= 5) {
            queue_depth.read(cell, (bit<32>)(port ++ (class_t)5));
            total = total + cell;
        }
        if (class <= 4) {
            queue_depth.read(cell, (bit<32>)(port ++ (class_t)4));
            total = total + cell;
        }
        if (class <= 3) {
            queue_depth.read(cell, (bit<32>)(port ++ (class_t)3));
            total = total + cell;
        }
        if (class <= 2) {
            queue_depth.read(cell, (bit<32>)(port ++ (class_t)2));
            total = total + cell;
        }
        if (class <= 1) {
            queue_depth.read(cell, (bit<32>)(port ++ (class_t)1));
            total = total + cell;
        }
        if (class == 0) {
            queue_depth.read(cell, (bit<32>)(port ++ (class_t)0));
            total = total + cell;
        }
        if (total > DEEPEST) {
            total = DEEPEST;
        }
        depth = (depth_t)total;
    }
}

control JoinQueue(in port_t port, in class_t class) {
    // One action: BMv2 locks registers for as long as an action runs.
    @hidden
    action join() {
        bit<32> index = (bit<32>)(port ++ class);
        bit<32> cell;
        queue_depth.read(cell, index);
        queue_depth.write(index, cell + 1);
    }

    apply {
        join();
    }
}

control LeaveQueue(in port_t port, in class_t class, in bit<19> depth) {
    apply {
        queue_depth.write((bit<32>)(port ++ class), (bit<32>)depth);
    }
}

#endif
