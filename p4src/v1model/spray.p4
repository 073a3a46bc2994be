// SPDX-FileCopyrightText: 2026 The Gradlane developers
// SPDX-License-Identifier: Apache-2.0
//
// Which member of its group a packet takes.

#ifndef GRADLANE_SPRAY_P4
#define GRADLANE_SPRAY_P4

#include "../shared/path.p4"
#include "metadata.p4"
#include "queue_depth.p4"
#include "target.p4"

const bit<32> SELECTOR_VALUES = 0x10000;

control Spray(in headers_t hdr, in metadata_t meta, in group_t group,
              inout next_hop_t next_hop, inout drop_reason_t reason) {
    PinnedPath() pinned_path;
    PathMode() path_mode;
    ReadBacklog() read_backlog;
    ReadBacklog() read_backlog_of_alternative;

    action_selector(HashAlgorithm.identity, PATH_SELECTOR_ROWS, 16) path_selector;
    register<selector_t>(ROUND_ROBIN_TURNS) round_robin_turn;

    selector_t choice;
    port_t member_port = 0;

    @hidden
    action hash_ipv4() {
        hash(choice, HashAlgorithm.crc16, (selector_t)0,
             { hdr.ipv4.source, hdr.ipv4.destination, meta.protocol, meta.source_port, meta.destination_port },
             SELECTOR_VALUES);
    }

    @hidden
    action hash_ipv6() {
        hash(choice, HashAlgorithm.crc16, (selector_t)0,
             { hdr.ipv6.source, hdr.ipv6.destination, meta.protocol, meta.source_port, meta.destination_port },
             SELECTOR_VALUES);
    }

    @hidden
    action draw() {
        random(choice, (selector_t)0, 0xffff);
    }

    // One action: BMv2 locks registers for as long as an action runs.
    @hidden
    action take_turn() {
        bit<32> index = (bit<32>)(group[8:0] ++ meta.class);
        round_robin_turn.read(choice, index);
        round_robin_turn.write(index, choice + 1);
    }

    // The port spares shallower_of_two a lookup; it is the port of that next hop.
    action set_path(@name("next_hop") next_hop_t member, @name("port") port_t port) {
        next_hop = member;
        member_port = port;
    }

    table path_group {
        key = {
            group : exact @name("group");
            choice : selector;
        }
        actions = { set_path; @defaultonly NoAction; }
        implementation = path_selector;
        size = PATH_GROUP_ROWS;
    }

    table path_group_alternative {
        key = {
            group : exact @name("group");
            choice : selector;
        }
        actions = { set_path; @defaultonly NoAction; }
        implementation = path_selector;
        size = PATH_GROUP_ROWS;
    }

    apply {
        bool pinned = false;
        if (meta.gradient && hdr.gradient.path != 0) {
            pinned_path.apply(group, hdr.gradient.path, next_hop, pinned);
        }

        if (!pinned) {
            path_mode_t mode;
            path_mode.apply(meta.class, mode);
            if (mode == path_mode_t.FLOW_HASH) {
                if (hdr.ipv4.isValid()) {
                    hash_ipv4();
                } else {
                    hash_ipv6();
                }
            } else if (mode == path_mode_t.ROUND_ROBIN) {
                take_turn();
            } else {
                draw();
            }

            if (!path_group.apply().hit) {
                reason = drop_reason_t.NO_ROUTE;
            } else if (mode == path_mode_t.SHALLOWER_OF_TWO) {
                next_hop_t first = next_hop;
                depth_t depth;
                depth_t depth_of_alternative;
                read_backlog.apply(member_port, meta.class, depth);
                choice = choice + 1;    // its neighbour: never the same member again
                path_group_alternative.apply();
                read_backlog_of_alternative.apply(member_port, meta.class, depth_of_alternative);
                if (depth <= depth_of_alternative) {
                    next_hop = first;
                }
            }
        }
    }
}

#endif
